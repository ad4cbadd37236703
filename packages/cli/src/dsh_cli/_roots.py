"""The root of sessions a person meant, and the names of what lies there."""

from __future__ import annotations

import os
from pathlib import Path

from dsh_paths import dsh_home_path
from dsh_persistence import ListedSession, StoreUnusable
from dsh_persistence_jsonl import JsonlLogStore


def open_root(root: str | None) -> JsonlLogStore:
    """Return the store of ``root``, or of the harness home. A root somebody named must be there."""
    if root is not None and not os.path.lexists(root):
        raise StoreUnusable(root, "does not exist; --root names a folder of sessions")
    return JsonlLogStore(root if root is not None else dsh_home_path("sessions"))


def session_id_of(entry: ListedSession) -> str:
    """Return the id of an entry; a damaged one is named by its folder."""
    if entry.header is not None:
        return entry.header.id
    path = Path(entry.location.path)
    return path.parent.name if is_log_name(path.name) else path.name


def is_log_name(name: str) -> bool:
    """Return whether a file of this name may be a log; nothing else below a root ends so."""
    return name.endswith((".jsonl", ".jsonl.zstd"))
