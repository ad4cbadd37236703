"""Protections taken away, one at a time: what the proofs must then find.

Each is done to the process, below the writer, as a system would do it that lacks it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Callable, Mapping
from typing import Any

_system: Any = os
_locks: Any = fcntl


def _no_sync() -> None:
    """Nothing is ever synced, as under eatmydata."""
    _system.fsync = _system.fdatasync = lambda fd: None


def _no_folder_sync() -> None:
    """Names are never synced, files are."""
    fsync = os.fsync

    def files_only(fd: int) -> None:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            fsync(fd)

    _system.fsync = files_only


def _sync_again() -> None:
    """A failed sync is called once more on the same descriptor, and believed."""

    def twice(sync: Callable[[int], None]) -> Callable[[int], None]:
        def call(fd: int) -> None:
            with contextlib.suppress(OSError):
                return sync(fd)
            return sync(fd)

        return call

    _system.fsync, _system.fdatasync = twice(os.fsync), twice(os.fdatasync)


def _no_lock() -> None:
    """Whoever wants a lock has it."""
    _locks.flock = lambda fd, operation: None


def _loose_database() -> None:
    """A commit of a database waits for less than it has to: NORMAL with a write-ahead log, FULL with a journal."""
    from dsh_persistence_sqlite import _sqlite

    _sqlite._SYNCHRONOUS.update(wal=1, delete=2)


WAYS: Mapping[str, Callable[[], None]] = {
    "no-sync": _no_sync,
    "no-folder-sync": _no_folder_sync,
    "sync-again": _sync_again,
    "no-lock": _no_lock,
    "loose-database": _loose_database,
}
