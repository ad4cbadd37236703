"""Connections and transactions: settings, faults of a commit, forks, threads, and other processes."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dsh_persistence import (
    ForeignChange,
    OutcomeUnknown,
    PersistenceError,
    SeqConflict,
    SessionBusy,
    StoreUnusable,
)
from dsh_persistence_sqlite import SqlLogStore, _sqlite

FORK = multiprocessing.get_context("fork")


def connections(store: SqlLogStore) -> list[Any]:
    """A connection that writes and two that read at once."""
    database = store._database
    with database.reading() as one, database.reading() as two, database.writing() as three:
        return [
            {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
                for name in (
                    *("journal_mode", "synchronous", "busy_timeout", "trusted_schema", "mmap_size", "cell_size_check"),
                    *("query_only", "fullfsync", "checkpoint_fullfsync"),
                )
            }
            for connection in (one, two, three)
        ]


@pytest.mark.parametrize(("journal", "synchronous"), [("wal", 2), ("delete", 3)])
def test_settings(made: Any, journal: Any, synchronous: int) -> None:
    """Every connection has them: D01's timeout, a sync of each commit, nothing mapped, no trust in the schema."""
    store = made.store(journal=journal)
    with store.create(made.header()) as writer:
        writer.append(made.batch(0))
    expected = {
        "journal_mode": journal,
        "synchronous": synchronous,
        "busy_timeout": 30_000,
        "trusted_schema": 0,
        "mmap_size": 0,
        "cell_size_check": 1,
        "fullfsync": 1,
        "checkpoint_fullfsync": 1,
    }
    for _ in range(2):
        readers, another, writes = connections(store)
        assert readers == another == expected | {"query_only": 1}
        assert writes == expected | {"query_only": 0}


class Commits:
    """A driver whose commits fail, before they have done anything or after."""

    def __init__(self, store: SqlLogStore) -> None:
        self._dialect = store._database._engine.dialect
        self._real = self._dialect.do_commit

    @contextmanager
    def fail(self, when: str, error: BaseException | None = None) -> Iterator[None]:
        def commit(connection: Any) -> None:
            if when == "after":
                self._real(connection)
            if error is not None:
                raise error
            failed = sqlite3.OperationalError("disk I/O error")
            failed.sqlite_errorname = "SQLITE_IOERR_FSYNC"
            raise failed

        self._dialect.do_commit = commit
        try:
            yield
        finally:
            del self._dialect.do_commit


@pytest.fixture(params=["wal", "delete"])
def store(request: pytest.FixtureRequest, made: Any) -> Iterator[SqlLogStore]:
    store = made.store(journal=request.param)
    with store.create(made.header("other")) as writer:
        writer.append(made.batch(0))
    yield store
    store.close()


@pytest.mark.parametrize("fresh", [True, False])
def test_a_commit_that_was_not_answered(store: SqlLogStore, made: Any, fresh: bool) -> None:
    """What the commit has done is acknowledged, once, and what it has not done may be tried again."""
    commits, first = Commits(store), 0 if fresh else 2
    with store.create(made.header()) as writer:
        if not fresh:
            writer.append(made.batch(0, 2))
        with commits.fail("before"), pytest.raises(OSError, match="was not written"):
            writer.append(made.batch(first, 3))
        assert writer.next_seq == first
        with commits.fail("after"):
            receipt = writer.append(made.batch(first, 3))
        assert receipt.next_seq == writer.next_seq == first + 3
        assert writer.resend(made.batch(first, 3)) == receipt
        writer.append(made.batch(first + 3))
    assert made.events() == list(made.batch(0, first + 4).events)
    assert made.sql("SELECT session_count FROM store") == [(2,)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_that_was_interrupted(store: SqlLogStore, made: Any, when: str) -> None:
    """A keyboard interrupt in the midst of a commit leaves its outcome to be found out, as any other loss of it."""
    commits = Commits(store)
    with store.create(made.header()) as writer:
        writer.append(made.batch(0))
        with commits.fail(when, KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
            writer.append(made.batch(1, 2))
        assert writer.resend(made.batch(1, 2)).next_seq == 3
        writer.append(made.batch(3))
    assert made.events() == list(made.batch(0, 4).events)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_outcome_that_cannot_be_settled(
    store: SqlLogStore, made: Any, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a commit's outcome cannot be found out it is unknown; ``resend`` finds it out later, and writes once."""
    with store.create(made.header()) as writer, monkeypatch.context() as local:
        receipt = writer.append(made.batch(0, 2))
        local.setattr(_sqlite, "open_file", lambda path: _refuse())
        with Commits(store).fail(when):
            for send in (writer.append, writer.resend):
                with pytest.raises(OutcomeUnknown):
                    send(made.batch(2, 3))
        with pytest.raises(OSError, match="unable to open"):
            store._database.settle()
        local.undo()
        assert writer.resend(made.batch(2, 3)).next_seq == 5
        assert writer.resend(made.batch(0, 2)) == receipt
        writer.append(made.batch(5))
    assert made.events() == list(made.batch(0, 6).events)


def _refuse() -> Any:
    error = sqlite3.OperationalError("unable to open database file")
    error.sqlite_errorname = "SQLITE_IOERR"
    raise error


def test_an_outcome_that_somebody_changed(store: SqlLogStore, made: Any) -> None:
    """When neither the batch nor the state before it is there, somebody else was at work, and nothing is claimed."""
    with store.create(made.header()) as writer:
        writer.append(made.batch(0, 2))
        real = store._database.settle

        def settle() -> None:
            made.sql("DELETE FROM events WHERE session_id = x'73'", "DELETE FROM sessions WHERE session_id = x'73'")
            made.sql("UPDATE store SET session_count = 1")
            real()

        store._database.settle = settle  # somebody else's work in between
        with Commits(store).fail("before"), pytest.raises(PersistenceError) as caught:
            writer.append(made.batch(2))
        assert isinstance(caught.value, ForeignChange)


def test_a_file_that_could_once_not_be_opened(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite opens a file for reading alone where opening it fails, and such a connection is not used again."""
    made.fill()
    real = _sqlite.open_file

    def read_only(path: Path) -> sqlite3.Connection:
        monkeypatch.setattr(_sqlite, "open_file", real)
        return sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None, check_same_thread=False)

    monkeypatch.setattr(_sqlite, "open_file", read_only)
    with made.store().create(made.header("other")) as writer:
        with pytest.raises(StoreUnusable, match="readonly"):
            writer.append(made.batch(0))
        writer.append(made.batch(0))
    assert made.events("other") == list(made.batch(0).events)


def test_a_full_disk(store: SqlLogStore, made: Any) -> None:
    """A commit that the medium refuses is not acknowledged, leaves nothing, and works when there is room."""
    large = {"encoded": b'"' + b"x" * 300_000 + b'"'}
    with store.create(made.header()) as writer:
        writer.append(made.batch(0, 2))
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        sizes = [one.stat().st_size for one in made.path.parent.iterdir() if one.is_file()]
        resource.setrlimit(resource.RLIMIT_FSIZE, (max(sizes) + 100_000, limit[1]))
        try:
            for _ in range(2):
                with pytest.raises((OSError, OutcomeUnknown)):
                    writer.append(made.batch(2, 2, **large))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        assert writer.resend(made.batch(2, 2, **large)).next_seq == 4
        writer.append(made.batch(4))
    expected = [*made.batch(0, 2).events, *made.batch(2, 2, **large).events, made.event(4)]
    assert made.events() == expected
    assert made.sql("PRAGMA integrity_check") == [("ok",)]


def test_nothing_is_written_on_what_is_in_doubt(store: SqlLogStore, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed sync no other session's batch is committed before what is there was made durable."""
    settled: list[str] = []
    real = store._database._settle
    monkeypatch.setattr(store._database, "_settle", lambda: (settled.append("settled"), real()))
    with store.create(made.header()) as writer, store.open("other") as other:
        writer.append(made.batch(0))
        assert settled == []
        monkeypatch.setattr(store._database, "settle", lambda: _raise(OSError(errno.EIO, "no")))
        with Commits(store).fail("before"), pytest.raises(OutcomeUnknown):
            writer.append(made.batch(1))
        assert settled == []
        other.append(made.batch(1))
        assert settled == ["settled"]
        other.append(made.batch(2))
        assert settled == ["settled"]


def _raise(error: Exception) -> None:
    raise error


def test_what_was_found_is_made_durable_before_it_is_adopted(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that an earlier writer left is acknowledged to the next one only after it was brought into the file."""
    first = made.store()
    with first.create(made.header()) as writer:
        receipt = writer.append(made.batch(0, 3))
    second = made.store()
    settled: list[int] = []
    real = second._database.settle
    monkeypatch.setattr(second._database, "settle", lambda: (settled.append(1), real()))
    with second.open("s") as writer:
        for _ in range(2):
            assert writer.resend(made.batch(0, 3)) == receipt
        assert settled == [1]
        writer.append(made.batch(3))
        writer.resend(made.batch(3))
        assert settled == [1]
        monkeypatch.setattr(second._database, "settle", lambda: _raise(OSError(errno.EIO, "no")))
    with second.open("s") as writer, pytest.raises(OutcomeUnknown):
        writer.resend(made.batch(0, 3))
    first.close()
    second.close()


def test_a_stale_writer_loses(store: SqlLogStore, made: Any) -> None:
    """Who lost the claim without knowing it changes nothing: the log is not where he left it."""
    with store.create(made.header()) as stale:
        stale.append(made.batch(0, 2))
        for lock in Path(f"{made.path}.claims").iterdir():
            lock.unlink()  # what nobody should do
        with made.store().open("s") as writer:
            writer.append(made.batch(2, 2))
            for _ in range(2):
                with pytest.raises(SeqConflict) as caught:
                    stale.append(made.batch(2, 1, encoded=b"0"))
                assert (caught.value.expected, caught.value.found) == (4, 2)
            writer.append(made.batch(4))
    assert made.events() == list(made.batch(0, 5).events)


def test_another_log_of_the_same_id(store: SqlLogStore, made: Any) -> None:
    """A writer whose log was exchanged for another one of that id writes nothing into it, however alike it is."""
    with store.create(made.header()) as stale:
        stale.append(made.batch(0, 2))
        for table in ("sessions", "events"):
            made.sql(f"DELETE FROM {table} WHERE session_id = x'73'")
        for lock in Path(f"{made.path}.claims").iterdir():
            lock.unlink()
        with pytest.raises(ForeignChange, match="is gone"):
            stale.append(made.batch(2))
        with made.store().create(made.header()) as writer:
            writer.append(made.batch(0, 2))
            with pytest.raises(ForeignChange, match="another log"):
                stale.append(made.batch(2))


def _child(act: Callable[[], object], report: Any) -> None:
    try:
        report.send(act())
    except Exception as error:  # noqa: BLE001  # told to the test
        report.send(f"{type(error).__name__}: {error}")


def in_a_fork(act: Callable[[], object]) -> Any:
    """Do something in a forked process, and return what it returned, or the error in words."""
    ours, theirs = FORK.Pipe()
    child = FORK.Process(target=_child, args=(act, theirs))
    child.start()
    theirs.close()
    found = ours.recv()
    child.join()
    assert child.exitcode == 0
    return found


class TestForks:
    """A process that is forked while the store is in use."""

    def test_both_go_on(self, store: SqlLogStore, made: Any) -> None:
        """Parent and child each have connections of their own, and see each other's work."""
        with store.create(made.header()) as writer:
            writer.append(made.batch(0))

            def work() -> int:
                with store.create(made.header("child")) as mine:
                    for seq in range(20):
                        mine.append(made.batch(seq))
                return store.read("s").next_seq

            assert in_a_fork(work) == 1
            writer.append(made.batch(1))
        assert store.read("child").next_seq == 20
        assert store.read("s").next_seq == 2

    def test_the_child_does_not_write_for_the_parent(self, store: SqlLogStore, made: Any) -> None:
        """A writer belongs to the process that made it: in a child it is refused, and closing it frees nothing."""
        with store.create(made.header()) as writer:
            writer.append(made.batch(0))
            assert "of which this one is a fork" in in_a_fork(lambda: writer.append(made.batch(1)))
            assert in_a_fork(writer.close) is None
            with pytest.raises(SessionBusy):
                made.store().open("s")
            writer.append(made.batch(1))

    def test_a_parent_that_closes_first(self, made: Any) -> None:
        """A child that believed in its parent's locks would write into a log that the parent removes."""
        parent = made.store()
        with parent.create(made.header()) as writer:
            writer.append(made.batch(0))
        ours, theirs = FORK.Pipe()

        def work() -> None:
            with SqlLogStore(made.url).create(made.header("child")) as mine:
                for seq in range(4):
                    mine.append(made.batch(seq))
                    theirs.send(seq)
                    theirs.recv()
            os._exit(0)

        child = FORK.Process(target=work)
        child.start()
        for _ in range(4):
            ours.recv()
            parent.read("s")
            parent.close()
            ours.send(None)
        child.join()
        assert made.events("child") == list(made.batch(0, 4).events)

    def test_while_other_threads_work(self, store: SqlLogStore, made: Any) -> None:
        """A fork waits for the transactions under way; neither process is left with a lock that nobody holds."""
        stop = threading.Event()

        def write() -> int:
            seq = 0
            with store.create(made.header()) as writer:
                while not stop.is_set():
                    writer.append(made.batch(seq))
                    seq += 1
                    store.read("s")
            return seq

        with ThreadPoolExecutor(1) as pool:
            written = pool.submit(write)
            for _ in range(10):
                assert in_a_fork(lambda: store.read("other").next_seq) == 1
            stop.set()
            count = written.result()
        assert store.read("s").next_seq == count


def test_threads_that_read_and_write(store: SqlLogStore, made: Any) -> None:
    """Readers see whole batches only, in order, whatever is written meanwhile."""
    done = threading.Event()

    def write() -> None:
        with store.create(made.header()) as writer:
            for first in range(0, 90, 3):
                writer.append(made.batch(first, 3))
        done.set()

    def read() -> int:
        seen = 0
        while not done.is_set():
            for entry in store.list():
                assert entry.problem is None
                assert entry.header is not None
                stored = store.read(entry.header.id)
                if entry.header.id == "s":
                    assert stored.next_seq % 3 == 0
                    assert stored.next_seq >= seen
                    seen = stored.next_seq
                    assert list(stored.events) == list(made.batch(0, seen).events)
        return seen

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        pool.submit(write).result()
        for reader in readers:
            reader.result()
    assert store.read("s").next_seq == 90


def test_a_database_that_stays_busy(store: SqlLogStore, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who never ends his transaction makes an append fail; it was not written, and works afterwards."""
    monkeypatch.setattr(_sqlite, "BUSY_MS", 50)
    store.close()  # new connections get the shorter patience
    other = sqlite3.connect(made.path, isolation_level=None)
    with store.open("other") as writer:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(OSError, match="another process is using it") as caught:
            writer.append(made.batch(1))
        assert caught.value.errno == errno.EBUSY
        other.execute("ROLLBACK")
        writer.append(made.batch(1))
    other.close()
    assert made.events("other") == list(made.batch(0, 2).events)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(made: Any) -> None:
    """A place that cannot be written says so, lastingly."""
    made.path.parent.chmod(0o500)
    try:
        with pytest.raises(StoreUnusable, match="cannot be used"):
            made.store().create(made.header()).append(made.batch(0))
    finally:
        made.path.parent.chmod(0o700)


def test_closed_and_used_again(store: SqlLogStore, made: Any) -> None:
    """Closing may be repeated; a later call opens the file again, and a log that was read still gives its events."""
    events = store.read("other").events
    store.close()
    store.close()
    assert list(events) == [made.event(0)]
    assert store.read("other").next_seq == 1
