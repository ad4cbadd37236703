"""Damage: of a row, of a byte of the file. What is read is what was written, or an error says that it is not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_persistence import PersistenceError, SessionCorrupt, SessionNotFound, StoreUnusable
from dsh_persistence_sqlite import SqlLogStore

SESSIONS = ("one", "two")
FULL = os.environ.get("DSH_CRASH") == "full"
STEP = 7 if FULL else 101
"""Every so manieth byte of the file has one of its bits flipped."""


def contents(made: Any) -> dict[str, list[Any]]:
    sources = {"source_event_seqs": (0, 1), "surface_op": "append"}
    return {
        "one": [*made.batch(0, 4).events, made.event(4, type="user/message", ignorable=False, **sources)],
        "two": list(made.batch(0, 30, encoded=b'{"text":"' + b"long " * 60 + b'"}').events),
    }


def fill(made: Any) -> dict[str, list[Any]]:
    from dsh_session import EncodedBatch

    store, expected = made.store(), contents(made)
    for session_id, events in expected.items():
        with store.create(made.header(session_id, parent_session="p", agent_preset="a")) as writer:
            writer.append(EncodedBatch(first_seq=0, events=tuple(events)))
    store.close()
    return expected


def uses(store: SqlLogStore, made: Any, session_id: str, events: list[Any]) -> dict[str, Callable[[], object]]:
    """Every way to read a session, each returning something false when it is silent about what is lost or changed."""
    types = sorted({event.type for event in events})
    return {
        "read": lambda: list(store.read(session_id).events) == events,
        "header": lambda: store.read(session_id, from_seq=len(events)).header.id == session_id,
        "suffix": lambda: list(store.read(session_id, from_seq=2).events) == events[2:],
        "of_type": lambda: list(store.read(session_id).events.of_type(*types)) == events,
        "scan": lambda: list(store.scan(session_id)) == events,
        "tail": lambda: list(store.tail(session_id).events) == events,
        "open": lambda: _opened(store, session_id) == events,
    }


def _opened(store: SqlLogStore, session_id: str) -> list[Any]:
    with store.open(session_id) as writer:
        assert writer.stored is not None
        return list(writer.stored.events)


def silent(made: Any, expected: dict[str, list[Any]]) -> list[str]:
    """Return what was read differently without an error."""
    store, found = made.store(), []
    try:
        for session_id, events in expected.items():
            for name, use in uses(store, made, session_id, events).items():
                try:
                    if not use():
                        found.append(f"{name} of {session_id}")
                except SessionNotFound:
                    found.append(f"{name} of {session_id}: not found")
                except (PersistenceError, OSError):
                    pass
        try:
            listed = list(store.list())
        except (PersistenceError, OSError):
            return found
        whole = {made.header(one, parent_session="p", agent_preset="a") for one in expected}
        if all(one.problem is None for one in listed) and {one.header for one in listed} != whole:
            found.append("list")
        return found
    finally:
        store.close()


def test_bytes_of_the_file(made: Any) -> None:
    """Whatever byte of the file is changed, no session is shorter, other than it was, or gone without an error."""
    expected = fill(made)
    assert silent(made, expected) == []
    content = made.path.read_bytes()
    failures = []
    for number, offset in enumerate(range(0, len(content), STEP)):
        bit = number % 8
        made.path.write_bytes(content[:offset] + bytes([content[offset] ^ 1 << bit]) + content[offset + 1 :])
        for suffix in ("-wal", "-shm", "-journal"):
            Path(f"{made.path}{suffix}").unlink(missing_ok=True)
        failures += [f"bit {bit} of byte {offset}: {one}" for one in silent(made, expected)]
    assert failures == []


@pytest.mark.parametrize("cut", [1, 512, 4096, 8192, 20000])
def test_a_file_that_was_cut(made: Any, cut: int) -> None:
    """A file that lost its end loses nothing in silence."""
    expected = fill(made)
    os.truncate(made.path, made.path.stat().st_size - cut)
    assert silent(made, expected) == []


EVENT_CHANGES = {
    "data": "UPDATE events SET data = CAST('{\"n\":9}' AS BLOB) WHERE session_id = x'6f6e65' AND seq = 2",
    "type": "UPDATE events SET type = CAST('plugin:test/other' AS BLOB) WHERE session_id = x'6f6e65' AND seq = 2",
    "time": "UPDATE events SET time = time + 1 WHERE session_id = x'6f6e65' AND seq = 2",
    "sources": "UPDATE events SET source_event_seqs = CAST('[0]' AS BLOB) WHERE session_id = x'6f6e65' AND seq = 4",
    "sources gone": "UPDATE events SET source_event_seqs = NULL WHERE session_id = x'6f6e65' AND seq = 4",
    "surface": "UPDATE events SET surface_op = CAST('[0,1]' AS BLOB) WHERE session_id = x'6f6e65' AND seq = 4",
    "ignorable": "UPDATE events SET ignorable = 0 WHERE session_id = x'6f6e65' AND seq = 2",
    "chain": "UPDATE events SET chain = zeroblob(16) WHERE session_id = x'6f6e65' AND seq = 2",
    "last chain": "UPDATE events SET chain = zeroblob(16) WHERE session_id = x'6f6e65' AND seq = 4",
    "first gone": "DELETE FROM events WHERE session_id = x'6f6e65' AND seq = 0",
    "middle gone": "DELETE FROM events WHERE session_id = x'6f6e65' AND seq = 2",
    "last gone": "DELETE FROM events WHERE session_id = x'6f6e65' AND seq = 4",
    "all gone": "DELETE FROM events WHERE session_id = x'6f6e65'",
    "renumbered": "UPDATE events SET seq = 9 WHERE session_id = x'6f6e65' AND seq = 4",
    "exchanged": "UPDATE events SET seq = CASE seq WHEN 2 THEN -3 ELSE -2 END"
    " WHERE session_id = x'6f6e65' AND seq IN (2, 3);"
    " UPDATE events SET seq = -seq WHERE seq < 0",
    "of another session": "DELETE FROM events WHERE session_id = x'6f6e65' AND seq = 2;"
    " UPDATE events SET session_id = x'6f6e65' WHERE session_id = x'74776f' AND seq = 2",
}


@pytest.mark.parametrize("change", EVENT_CHANGES)
def test_a_changed_event(made: Any, change: str) -> None:
    """A changed, exchanged or lost row is corruption wherever it is read, and the other session is untouched."""
    expected = fill(made)
    made.sql(*EVENT_CHANGES[change].split(";"))
    assert silent(made, expected) == []
    store = made.store()
    for read in (lambda: store.read("one"), lambda: list(store.scan("one")), lambda: store.open("one")):
        with pytest.raises(SessionCorrupt, match="session 'one'"):
            read()
    if change != "of another session":
        assert list(store.read("two").events) == expected["two"]
    assert made.store().read("two", from_seq=10).next_seq == 30


def test_another_end(made: Any) -> None:
    """A last row that fits the one before it, and is not the one that was stored last, is corruption."""
    from dsh_persistence_sqlite._rows import encode

    fill(made)
    ((chain,),) = made.sql("SELECT chain FROM events WHERE session_id = x'6f6e65' AND seq = 3")
    ((*_, data, _, _, _, chained),) = encode(made.batch(4, encoded=b"0"), b"one", chain, "here").rows
    columns = "type = CAST('plugin:test/note' AS BLOB), source_event_seqs = NULL, surface_op = NULL, ignorable = 1"
    made.sql(
        f"UPDATE events SET {columns}, time = 9, data = x'{data.hex()}', chain = x'{chained.hex()}'"
        " WHERE session_id = x'6f6e65' AND seq = 4"
    )
    store = made.store()
    for read in (
        lambda: store.read("one"),
        lambda: store.read("one", from_seq=5),
        lambda: list(store.scan("one")),
        lambda: store.tail("one"),
    ):
        with pytest.raises(SessionCorrupt, match="its last event is not the one"):
            read()


def test_an_event_more(made: Any) -> None:
    """A row beyond the end that the session's row names is not part of the log, and nobody builds on it."""
    expected = fill(made)
    made.sql("INSERT INTO events SELECT session_id, 5, type, time, data, NULL, NULL, 0, chain FROM events LIMIT 1")
    assert made.events("one") == expected["one"]
    with made.store().open("one") as writer, pytest.raises(PersistenceError):
        writer.append(made.batch(5))
    assert made.events("one") == expected["one"]


COLUMNS = (
    "created_at = created_at + 1",
    "cwd = NULL",
    "cwd = x'2f78'",
    "parent_session = x'71'",
    "is_seeded = 1",
    "seed_length = 1",
    "origin = CAST('subagent' AS BLOB)",
    "delegation_depth = 1",
    "agent_preset = NULL",
    "sandbox_mode = x'61'",
    "approval_policy = x'61'",
    "generation = 3",
    "incarnation = incarnation + 1",
    "revision = revision + 1",
    "next_seq = next_seq - 1",
    "chain = zeroblob(16)",
    "checksum = zeroblob(16)",
)


@pytest.mark.parametrize("change", COLUMNS)
def test_a_changed_session(made: Any, change: str) -> None:
    """Each column of a session's row is covered: the session cannot be read or written, is listed, others are fine."""
    expected = fill(made)
    made.sql(f"UPDATE sessions SET {change} WHERE session_id = x'6f6e65'")
    assert silent(made, expected) == []
    store = made.store()
    for read in (lambda: store.read("one"), lambda: store.open("one"), lambda: store.tail("one")):
        with pytest.raises(SessionCorrupt, match="'one' does not fit its checksum"):
            read()
    listed = {one.location.path: one for one in store.list()}
    assert isinstance(listed["one"].problem, SessionCorrupt)
    assert (listed["two"].problem, listed["two"].header.id) == (None, "two")


@pytest.mark.parametrize("change", COLUMNS)
def test_a_session_changed_beside_its_writer(made: Any, change: str) -> None:
    """What describes a session is never written again, so that a writer in the midst does not hide its damage."""
    expected = fill(made)
    with made.store().open("one") as writer:
        made.sql(f"UPDATE sessions SET {change} WHERE session_id = x'6f6e65'")
        try:
            writer.append(made.batch(5))
        except PersistenceError:
            added = []
        else:
            added = [made.event(5)]
    assert silent(made, {**expected, "one": expected["one"] + added}) == []


@pytest.mark.parametrize("events_as_well", [True, False])
def test_a_session_that_vanished(made: Any, events_as_well: bool) -> None:
    """A session whose row is gone is damage, not absence, and the same id cannot be created over what is left."""
    fill(made)
    made.sql("DELETE FROM sessions WHERE session_id = x'6f6e65'")
    if events_as_well:
        made.sql("DELETE FROM events WHERE session_id = x'6f6e65'")
    store = made.store()
    for session_id in ("one", "never"):
        with pytest.raises(SessionCorrupt, match="1 sessions are where 2 were stored"):
            store.read(session_id)
    listed = list(store.list())
    assert [one.header.id for one in listed if one.header is not None] == ["two"]
    assert "holds 1 sessions where 2 were stored" in str(listed[-1].problem)
    if not events_as_well:
        with store.create(made.header("one")) as writer, pytest.raises(PersistenceError, match="rows of one"):
            writer.append(made.batch(0))
    assert store.read("two").next_seq == 30


@pytest.mark.parametrize("change", ["store_id = x'00'", "session_count = 7", "checksum = x'00'"])
def test_a_changed_store(made: Any, change: str) -> None:
    """The store's own row is covered: a listing tells, no session is absent or new, and those there are read."""
    expected = fill(made)
    made.sql(f"UPDATE store SET {change}")
    store = made.store()
    assert list(store.read("one").events) == expected["one"]
    with pytest.raises(SessionCorrupt, match="the store's own row"):
        store.read("never")
    with store.create(made.header("new")) as writer, pytest.raises(SessionCorrupt, match="the store's own row"):
        writer.append(made.batch(0))
    listed = list(store.list())
    assert [one.problem is None for one in listed] == [True, True, False]
    assert "the store's own row" in str(listed[-1].problem)


def test_a_damaged_index(made: Any) -> None:
    """A session that only its index has lost is not absent."""
    fill(made)
    made.sql(
        "PRAGMA writable_schema=ON",
        "CREATE TABLE spare (session_id BLOB PRIMARY KEY)",
        "UPDATE sqlite_schema SET rootpage ="
        " (SELECT rootpage FROM sqlite_schema WHERE name LIKE 'sqlite_autoindex_spare%')"
        " WHERE name LIKE 'sqlite_autoindex_sessions%'",
    )
    with pytest.raises(SessionCorrupt):
        made.store().read("one")
    assert {one.header.id for one in made.store().list() if one.header is not None} == set(SESSIONS)


def test_damage_while_a_log_is_in_use(made: Any) -> None:
    """Pages that are fetched again later are held against what they were chained to when the log was read."""
    store = made.store()
    with store.create(made.header()) as writer:
        for first in range(0, 2000, 500):
            writer.append(made.batch(first, 500, encoded=b'"' + b"x" * 20_000 + b'"'))
    events = store.read("s").events
    assert events[0] == made.event(0, encoded=b'"' + b"x" * 20_000 + b'"')
    wanted = list(events.of_type("plugin:test/note"))
    assert len(wanted) == 2000
    made.sql("UPDATE events SET type = CAST('plugin:test/else' AS BLOB) WHERE seq = 1000")
    with pytest.raises(SessionCorrupt, match="event 1000 does not fit"):
        list(events)
    with pytest.raises(SessionCorrupt):
        list(events.of_type("plugin:test/note"))
    with pytest.raises(StopIteration):
        next(events.of_type("plugin:test/else"))


def test_a_file_that_goes_away(made: Any, tmp_path: Path) -> None:
    """A file that was removed or replaced in use is an error for everybody, and nothing is made in its place (D03)."""
    store = made.store()
    with store.create(made.header()) as writer:
        writer.append(made.batch(0))
        made.path.rename(tmp_path / "away.db")
        for call in (lambda: store.read("s"), lambda: list(store.list()), lambda: writer.append(made.batch(1))):
            with pytest.raises(StoreUnusable, match="removed or replaced"):
                call()
        assert not made.path.exists()
        made.fill("other")
        with pytest.raises(StoreUnusable, match="removed or replaced"):
            writer.append(made.batch(1))
