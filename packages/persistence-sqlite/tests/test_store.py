"""The store as a whole: urls, limits, groups, long logs, cursors, and who holds what."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from dsh_persistence import (
    ForeignChange,
    Receipt,
    RowTooLarge,
    SessionBusy,
    SessionCorrupt,
    SessionIdTooLong,
    SessionNotFound,
    StoreUnusable,
)
from dsh_persistence_sqlite import SqlLogStore, _log, _pages
from dsh_session import EncodedBatch

SECRET = "hunter2"


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///",
        "sqlite+aiosqlite:///x.db",
        "sqlite:///x.db?mode=ro",
        "sqlite://host/x.db",
        "sqlite:///file:x.db",
        "no url",
        f"mysql://me:{SECRET}@host/db",
        f"mysql://host/db?password={SECRET}",
        f"postgresql+asyncpg://me:{SECRET}@host/db",
        f"postgresql://me:{SECRET}@host:port/db",
    ],
)
def test_urls_that_are_refused(url: str) -> None:
    """A url of nothing that lasts, or of another driver, is refused at once, and no password is told."""
    with pytest.raises(StoreUnusable) as caught:
        SqlLogStore(url)
    assert SECRET not in f"{caught.value}{caught.value!r}{caught.value.__cause__!r}"


def test_a_journal_is_for_sqlite_only() -> None:
    """What a database does not have is not passed over."""
    with pytest.raises(StoreUnusable, match="a setting of SQLite") as caught:
        SqlLogStore(f"postgresql://me:{SECRET}@host/db?password={SECRET}", journal="wal")
    assert SECRET not in str(caught.value)


def test_sqlite_needs_no_other_driver() -> None:
    """Who uses SQLite loads neither psycopg nor SQLAlchemy's ORM."""
    code = (
        "import sys; from dsh_persistence_sqlite import SqlLogStore; SqlLogStore('sqlite:////nowhere/x.db');"
        "assert not {'psycopg', 'sqlalchemy.orm'} & sys.modules.keys()"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_names(store: SqlLogStore, path: Path, made: Any) -> None:
    """A store says what it is and where; a session has no place of its own."""
    assert (store.name, store.where) == ("sqlite", str(path))
    assert store.locate(made.header()) is None


def test_long_ids(store: SqlLogStore, made: Any) -> None:
    """An id that fits no index is refused before anything is claimed or written; one that just fits is stored."""
    with store.create(made.header("ü" * 512)) as writer:
        writer.append(made.batch(0))
    for session_id in ("x" * 1025, "ü" * 513):
        with store.create(made.header(session_id)) as writer, pytest.raises(SessionIdTooLong) as caught:
            writer.append(made.batch(0))
        assert caught.value.limit_bytes == 1024
        with pytest.raises(SessionNotFound):
            store.read(session_id)
    assert [one.header.id for one in store.list() if one.header is not None] == ["ü" * 512]


def test_large_rows(store: SqlLogStore, made: Any) -> None:
    """A row beyond 16 MiB is refused, names its event, and holds nobody else in the group up."""
    with store.create(made.header("a")) as one, store.create(made.header("b")) as two:
        large = EncodedBatch(first_seq=0, events=(made.event(0), made.event(1, encoded=b"1" * (16 << 20))))
        refused, written = store.append_group([(one, large), (two, made.batch(0))])
        assert isinstance(refused, RowTooLarge)
        assert (refused.seq, refused.limit_bytes) == (1, 16 << 20)
        assert isinstance(written, Receipt)
        one.append(made.batch(0))


def test_a_group_is_one_transaction(store: SqlLogStore, made: Any) -> None:
    """Batches of many sessions, new and old, are committed once; what makes it fail is tried alone."""
    writers = [store.create(made.header(f"s{number}")) for number in range(8)]
    commits: list[int] = []
    dialect = store._database._engine.dialect
    real = dialect.do_commit
    dialect.do_commit = lambda connection: (commits.append(1), real(connection))
    for first in range(3):
        assert [type(one) for one in store.append_group([(one, made.batch(first)) for one in writers])] == [Receipt] * 8
        assert len(commits) == first + 1
    made.sql("UPDATE sessions SET next_seq = 9 WHERE session_id = x'7333'")
    found = store.append_group([(one, made.batch(3)) for one in writers])
    assert [type(one) for one in found] == [Receipt] * 3 + [SessionCorrupt] + [Receipt] * 4
    for writer in writers:
        writer.close()
    assert store.read("s0").next_seq == 4


def test_an_empty_group(store: SqlLogStore, made: Any, path: Path) -> None:
    """Batches without events open no transaction, and make no file."""
    with store.create(made.header()) as writer:
        (answer,) = store.append_group([(writer, made.batch(0, 0))])
        assert isinstance(answer, Receipt)
        assert answer.next_seq == 0
    assert store.append_group([]) == []
    assert not path.exists()


class TestLongLogs:
    """A log of many pages."""

    COUNT = 1_000

    @pytest.fixture
    def events(self, store: SqlLogStore, made: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
        """Stored in pages of 16 events, of which hardly any are kept."""
        monkeypatch.setattr(_pages, "PAGE_ROWS", 16)
        monkeypatch.setattr(_log, "CACHE_BYTES", 10_000)
        types = ("plugin:test/a", "plugin:test/b", "plugin:test/c")
        expected = [made.event(seq, type=types[seq % 7 % 3]) for seq in range(self.COUNT)]
        with store.create(made.header()) as writer:
            for first in range(0, self.COUNT, 40):
                writer.append(EncodedBatch(first_seq=first, events=tuple(expected[first : first + 40])))
        return expected

    def test_every_way_to_read(self, store: SqlLogStore, events: Any) -> None:
        """Positions, slices, suffixes, streams and types agree with what was written."""
        log = store.read("s").events
        assert list(log) == list(store.scan("s")) == events
        assert [log[position] for position in (0, 15, 16, 17, 500, -1, -self.COUNT)] == [
            events[position] for position in (0, 15, 16, 17, 500, -1, -self.COUNT)
        ]
        for cut in (slice(3, 40), slice(None, None, 7), slice(-5, None), slice(40, 3), slice(15, 17)):
            assert list(log[cut]) == events[cut]
        for position in (self.COUNT, -self.COUNT - 1):
            with pytest.raises(IndexError):
                log[position]
        for wanted in (("plugin:test/a",), ("plugin:test/c", "plugin:test/b"), ("plugin:test/none",), ()):
            assert list(log.of_type(*wanted)) == [event for event in events if event.type in wanted]

    @pytest.mark.parametrize("first", [1, 15, 16, 17, 999, 1_000])
    def test_suffixes(self, store: SqlLogStore, events: Any, first: int) -> None:
        """What lies before is neither read nor counted."""
        log = store.read("s", from_seq=first).events
        assert (log.first_seq, len(log)) == (first, self.COUNT - first)
        assert list(log) == events[first:]
        assert list(log.of_type("plugin:test/b")) == [event for event in events[first:] if event.type.endswith("b")]

    def test_following(self, store: SqlLogStore, events: Any) -> None:
        """A page at a time, and the cursor goes on after each."""
        found: list[Any] = []
        tail = store.tail("s")
        while tail.events:
            assert len(tail.events) <= 16
            found += tail.events
            tail = store.tail("s", tail.cursor)
        assert found == events

    def test_what_grows_meanwhile(self, store: SqlLogStore, made: Any, events: Any) -> None:
        """A log that was read is a copy: it does not grow."""
        log, scan = store.read("s").events, store.scan("s")
        next(scan)
        with store.open("s") as writer:
            writer.append(made.batch(self.COUNT, 3))
        assert list(log) == events
        assert len(list(scan)) == self.COUNT - 1
        assert store.read("s").next_seq == self.COUNT + 3


def test_memory_is_bounded(store: SqlLogStore, made: Any) -> None:
    """Reading 64 MB of events holds what the cache may hold and a page or two."""
    large = {"encoded": b'"' + b"x" * 100_000 + b'"'}
    with store.create(made.header()) as writer:
        for first in range(0, 640, 32):
            writer.append(made.batch(first, 32, **large))
    for use in (lambda: sum(1 for _ in store.scan("s")), lambda: sum(1 for _ in store.read("s").events)):
        tracemalloc.start()
        assert use() == 640
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 24 << 20


def test_cursors(store: SqlLogStore, made: Any) -> None:
    """A cursor of another log, though it has the same id and length, is refused."""
    with store.create(made.header()) as writer:
        writer.append(made.batch(0, 3))
    cursor = store.tail("s").cursor
    assert cursor["seq"] == 3
    for other in ({}, {"seq": 3}, {"seq": 4, "incarnation": cursor["incarnation"]}, {**cursor, "seq": -1}):
        with pytest.raises(ForeignChange):
            store.tail("s", other)
    made.sql("DELETE FROM sessions", "DELETE FROM events")
    made.sql(f"UPDATE store SET session_count = 0, checksum = x'{_emptied(made).hex()}'")
    with store.create(made.header()) as writer:
        writer.append(made.batch(0, 3))
    with pytest.raises(ForeignChange, match="not the log of the cursor"):
        store.tail("s", cursor)


def _emptied(made: Any) -> bytes:
    from dsh_persistence_sqlite._schema import SCHEMA_VERSION, checksum

    return checksum((1, made.sql("SELECT store_id FROM store")[0][0], SCHEMA_VERSION, 0))


def test_a_header_of_another_generation(made: Any) -> None:
    """A log of a generation that is not read here says so, with its number; the others are read."""
    from dsh_persistence import FormatNotSupported
    from dsh_persistence_sqlite._schema import checksum

    made.fill("old", "new")
    ((*row, _),) = made.sql("SELECT * FROM sessions WHERE session_id = x'6f6c64'")
    row[11] = 3
    made.sql(
        f"UPDATE sessions SET generation = 3, checksum = x'{checksum(tuple(row)).hex()}' WHERE session_id = x'6f6c64'"
    )
    for call in (made.store().read, made.store().open):
        with pytest.raises(FormatNotSupported, match="generation v3") as caught:
            call("old")
        assert caught.value.version == 3
    listed = {one.location.path: one.problem for one in made.store().list()}
    assert isinstance(listed["old"], FormatNotSupported)
    assert listed["new"] is None


def _hold(url: str, session_id: str, connection: Any) -> None:
    with SqlLogStore(url).open(session_id):
        connection.send("held")
        connection.recv()


def test_holders(store: SqlLogStore, made: Any) -> None:
    """Who holds a session is told by process, in the error and to whoever asks; a death frees it at once."""
    made.fill("s")
    assert store.holder("s") is None
    ours, theirs = multiprocessing.get_context("fork").Pipe()
    child = multiprocessing.get_context("fork").Process(target=_hold, args=(made.url, "s", theirs))
    child.start()
    theirs.close()
    assert ours.recv() == "held"
    assert f"process {child.pid}" in str(store.holder("s"))
    with pytest.raises(SessionBusy, match=f"process {child.pid}"):
        store.open("s")
    child.kill()
    child.join()
    assert store.holder("s") is None
    with store.open("s") as writer:
        assert store.holder("s") == "another writer of this process"
        writer.append(made.batch(3))
    assert store.holder("s") is None
