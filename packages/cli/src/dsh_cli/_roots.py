"""From what a person typed to a store and a session."""

from __future__ import annotations

import os
from pathlib import Path

from dsh_paths import dsh_home_path
from dsh_persistence import ListedSession, SessionNotFound, StoreUnusable
from dsh_persistence_jsonl import JsonlLogStore

from ._exit import Ambiguous


def open_root(root: str | None) -> JsonlLogStore:
    """Return the store of ``root``, or of the harness home. A root somebody named must be there."""
    if root is not None and not os.path.lexists(root):
        raise StoreUnusable(root, "does not exist; --root names a folder of sessions")
    return JsonlLogStore(root if root is not None else dsh_home_path("sessions"))


def select(store: JsonlLogStore, prefix: str) -> ListedSession:
    """Return the one session whose id is ``prefix`` or begins with it, with or without its ``session-``.

    Raises ``SessionNotFound``, ``Ambiguous``.
    """
    found = [entry for entry in store.list() if _fits(session_id_of(entry), prefix)]
    exact = [entry for entry in found if session_id_of(entry) == prefix]
    candidates = exact or found
    if not candidates:
        raise SessionNotFound(prefix, str(store.root))
    if len(candidates) > 1:
        ids = ", ".join(sorted(session_id_of(entry) for entry in candidates)[:5])
        msg = f"{prefix!r} fits {len(candidates)} sessions ({ids} …); type more of the id"
        raise Ambiguous(msg)
    return candidates[0]


def _fits(session_id: str, prefix: str) -> bool:
    return session_id.startswith(prefix) or session_id.removeprefix("session-").startswith(prefix)


def session_id_of(entry: ListedSession) -> str:
    """Return the id of an entry; a damaged one is named by its folder."""
    if entry.header is not None:
        return entry.header.id
    return Path(entry.location.path).parent.name
