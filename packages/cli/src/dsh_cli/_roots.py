"""The root of sessions a person meant, and the names of what lies there."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import click

from dsh_agent_core import open_store
from dsh_paths import dsh_home_path
from dsh_persistence import ListedSession, LogStore, SessionLocation, StoreUnusable
from dsh_persistence_jsonl import JsonlLogStore

_SQLITE_FILE = re.compile(r"sqlite(?:\+\w+)?:///([^?]*)")


class Root(NamedTuple):
    """A store, and what to call it."""

    store: LogStore
    where: str
    """An absolute path, or the URL of a database without its password."""

    @property
    def files(self) -> JsonlLogStore | None:
        """The store as one of log files; None for a database."""
        return self.store if isinstance(self.store, JsonlLogStore) else None

    def require_files(self, what: str, advice: str) -> JsonlLogStore:
        """Return the store as one of log files. Raises ``UsageError`` for a database."""
        if self.files is None:
            raise click.UsageError(f"{what}, and {self.where} is a database; {advice}.")
        return self.files


def open_root(root: str | None) -> Root:
    """Return the store of ``root``, or of the harness home. A root somebody named must be there."""
    if root is None:
        return name_root(JsonlLogStore(dsh_home_path("sessions")))
    place = _place_of(root)
    if place is not None and not os.path.lexists(place):
        raise StoreUnusable(place, "does not exist; --root names a folder of sessions, or a database by file or URL")
    if is_log_name(root) and os.path.isfile(root):  # noqa: PTH113  # as text
        raise StoreUnusable(root, "is a log file, which needs no --root; name it as the session")
    return name_root(open_store(root))


def _place_of(root: str) -> str | None:
    """Return the file or folder that ``root`` names; None for a server, or a URL that names nothing."""
    if "://" not in root:
        return root
    file = _SQLITE_FILE.match(root)
    return unquote(file[1]) if file and file[1] else None


def name_root(store: LogStore) -> Root:
    """Return a store with its name for people. It is closed when the command ends."""
    command = click.get_current_context(silent=True)
    if command is not None:
        command.call_on_close(store.close)
    where = store.root if isinstance(store, JsonlLogStore) else getattr(store, "where", store.name)
    return Root(store, str(where))


def session_id_of(entry: ListedSession) -> str:
    """Return the id of an entry; a damaged one is named by its folder."""
    return id_at(entry.location) if entry.header is None else entry.header.id


def id_at(location: SessionLocation) -> str:
    """Return the id of the session that lies there, as far as its place tells."""
    if location.kind != JsonlLogStore.name:
        return location.path
    path = Path(location.path)
    return path.parent.name if is_log_name(path.name) else path.name


def path_json(location: SessionLocation) -> dict[str, str]:
    """Return the path of a session's file as a field for programs, and none for a session in a database."""
    return {"path": location.path} if location.kind == JsonlLogStore.name else {}


def is_log_name(name: str) -> bool:
    """Return whether a file of this name may be a log; nothing else below a root ends so."""
    return name.endswith((".jsonl", ".jsonl.zstd"))
