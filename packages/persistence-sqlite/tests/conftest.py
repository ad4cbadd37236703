"""What the tests of this package store, and where."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dsh_persistence_sqlite import SqlLogStore
from dsh_session import EncodedBatch, SessionEvent, SessionHeader


class Made:
    """Headers, events, and a file as SQLite itself sees it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"

    @staticmethod
    def header(session_id: str = "s", **fields: Any) -> SessionHeader:
        return SessionHeader(id=session_id, created_at=7, **{"cwd": "/w", **fields})

    @staticmethod
    def event(seq: int, **fields: Any) -> SessionEvent:
        plain = {"type": "plugin:test/note", "seq": seq, "time": 5 + seq, "encoded": b'{"n":%d}' % seq}
        return SessionEvent(**(plain | {"ignorable": True} | fields))

    @classmethod
    def batch(cls, first: int, count: int = 1, **fields: Any) -> EncodedBatch:
        return EncodedBatch(first_seq=first, events=tuple(cls.event(first + step, **fields) for step in range(count)))

    def store(self, **options: Any) -> SqlLogStore:
        return SqlLogStore(self.url, **options)

    def fill(self, *session_ids: str, count: int = 3, **fields: Any) -> None:
        """Make a store with sessions, and close it, so that everything is in the file."""
        store = self.store()
        for session_id in session_ids:
            with store.create(self.header(session_id, **fields)) as writer:
                writer.append(self.batch(0, count))
        store.close()

    def sql(self, *statements: str) -> list[Any]:
        """Run statements on the file, past the store; return the rows of the last one."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            found: list[Any] = []
            for statement in statements:
                found = connection.execute(statement).fetchall()
        return found

    def events(self, session_id: str = "s") -> list[SessionEvent]:
        return list(self.store().read(session_id).events)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture
def made(path: Path) -> Made:
    return Made(path)


@pytest.fixture
def store(made: Made) -> Iterator[SqlLogStore]:
    store = made.store()
    yield store
    store.close()


@pytest.fixture
def picture() -> Callable[[Path], dict[str, Any]]:
    """Take a picture of everything below a folder: names, modes, times and bytes."""

    def picture(top: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for one in sorted(top.rglob("*")):
            status = one.lstat()
            content = one.read_bytes() if one.is_file() and not one.is_symlink() else None
            found[str(one.relative_to(top))] = (status.st_mode, status.st_mtime_ns, status.st_ino, content)
        return found

    return picture
