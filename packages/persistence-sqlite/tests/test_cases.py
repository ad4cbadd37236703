"""The cases of databases and their contents that others met (D01, D02, D03, B03; B05 is in ``test_sqlite_file``)."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dsh_persistence import StoreUnusable
from dsh_persistence_sqlite import SqlLogStore, _schema
from dsh_session import encode_data

FORK = multiprocessing.get_context("fork")
PROCESSES = 8
EVENTS = 50
ROUNDS = 20 if os.environ.get("DSH_CRASH") == "full" else 2


def _write(made: Any, store: SqlLogStore, session_id: str, begin: Any, report: Any) -> None:
    try:
        begin.wait(60)
        with store.create(made.header(session_id)) as writer:
            for seq in range(EVENTS):
                writer.append(made.batch(seq))
            report.send(store.read(session_id).next_seq)
        store.close()
    except Exception as error:  # noqa: BLE001  # told to the test
        report.send(f"{type(error).__name__}: {error}")
    os._exit(0)


def _at_once(made: Any, url: str, journal: Any = None) -> list[Any]:
    """Have processes open one file at once, each with a session of its own; return what each has at the end."""
    begin = FORK.Barrier(PROCESSES)
    pipes, children = [], []
    for number in range(PROCESSES):
        ours, theirs = FORK.Pipe(duplex=False)
        store = SqlLogStore(url, journal=journal)  # which touches nothing before it is used
        child = FORK.Process(target=_write, args=(made, store, f"session-{number}", begin, theirs))
        child.start()
        theirs.close()
        pipes.append(ours)
        children.append(child)
    found = [pipe.recv() for pipe in pipes]
    for child in children:
        child.join()
    return found


@pytest.mark.parametrize("turn", range(ROUNDS))
@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_d01_first_use_by_many(made: Any, tmp_path: Path, turn: int, journal: Any) -> None:
    """D01: eight processes open the same absent file at once and each writes its session; none fails."""
    url = f"sqlite:///{tmp_path}/below/sessions.db"
    assert _at_once(made, url, journal) == [EVENTS] * PROCESSES
    store = SqlLogStore(url)
    for number in range(PROCESSES):
        assert list(store.read(f"session-{number}").events) == list(made.batch(0, EVENTS).events)
    assert len(list(store.list())) == PROCESSES
    store.close()
    assert sorted(one.name for one in (tmp_path / "below").iterdir()) == ["sessions.db", "sessions.db.claims"]


def test_d01_a_journal_that_many_change(made: Any) -> None:
    """D01: eight processes find a file with the other journal, and all want the same one."""
    made.store(journal="delete").create(made.header("old")).append(made.batch(0))
    assert _at_once(made, made.url, "wal") == [EVENTS] * PROCESSES
    assert made.sql("PRAGMA journal_mode") == [("wal",)]


def test_d01_threads_that_open_at_once(made: Any) -> None:
    """The same within a process, each thread with a store of its own."""

    def write(number: int) -> int:
        store = made.store()
        with store.create(made.header(f"session-{number}")) as writer:
            for seq in range(10):
                writer.append(made.batch(seq))
        return store.read(f"session-{number}").next_seq

    with ThreadPoolExecutor(PROCESSES) as pool:
        assert list(pool.map(write, range(PROCESSES))) == [10] * PROCESSES


@pytest.mark.parametrize("version", [0, _schema.SCHEMA_VERSION + 1, 1 << 31])
def test_d03_another_version(made: Any, version: int) -> None:
    """D03: a file of a version that is not known is an error that names it and the way out, never an empty list."""
    made.fill("s")
    made.sql(f"PRAGMA user_version={version - (1 << 32) if version >> 31 else version}")
    content = made.path.read_bytes()
    for call in (lambda: list(made.store().list()), lambda: made.store().read("s"), lambda: made.fill("t")):
        with pytest.raises(StoreUnusable, match=r"sessions\.db: has schema version .*[Uu]pgrade"):
            call()
    assert made.path.read_bytes() == content


def test_d03_the_stores_own_version(made: Any) -> None:
    """D03: the version that the store's row has counts as well as the one in the file's head."""
    made.fill("s")
    (store_id,) = made.sql("SELECT store_id FROM store")[0]
    values = (1, store_id, _schema.SCHEMA_VERSION + 1, 1)
    made.sql(f"UPDATE store SET schema_version = {values[2]}, checksum = x'{_schema.checksum(values).hex()}'")
    with pytest.raises(StoreUnusable, match="has schema version 2"):
        made.store().read("s")


NUL = ({"out": "W\0s\0l"}, {"k\0ey": 1}, {"out": "\\u0000"}, {"\ud800": "\udfff\0"}, "\0")


def test_b03_nul(made: Any) -> None:
    """B03: NUL in values, keys, ids, types and paths comes back, and text that only looks like it is left alone."""
    type = "plugin:a\0b/\ud800"
    header = made.header("s\0\ud800\0", cwd="/w\0/\udfff", parent_session="\0", agent_preset="", approval_policy="\0")
    events = [made.event(seq, type=type, encoded=encode_data(type, data)) for seq, data in enumerate(NUL)]
    with made.store().create(header) as writer:
        for event in events:
            writer.append(made.batch(event.seq, type=type, encoded=event.encoded))
    stored = made.store().read(header.id)
    assert stored.header == header
    assert list(stored.events) == events
    assert [event.data for event in stored.events] == list(NUL)
    assert list(stored.events.of_type(type)) == events
    (listed,) = made.store().list()
    assert listed.header == header


def test_the_largest_event(made: Any) -> None:
    """Events of nearly 16 MiB come back byte for byte, several in a batch, and where no page is kept."""
    large = {"encoded": b'"' + os.urandom(1 << 20).hex().encode() * 7 + b"x" * ((1 << 20) * 2 - 4000) + b'"'}
    with made.store().create(made.header()) as writer:
        writer.append(made.batch(0, 2, **large))
        writer.append(made.batch(2))
        writer.append(made.batch(3, **large))
    events = made.store().read("s").events
    assert [len(event.encoded) for event in events] == [len(large["encoded"])] * 2 + [7, len(large["encoded"])]
    assert list(events) == [*made.batch(0, 2, **large).events, made.event(2), made.event(3, **large)]
    assert list(made.store().scan("s")) == list(events)
