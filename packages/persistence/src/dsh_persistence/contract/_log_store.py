"""What every ``LogStore`` promises, one test a promise."""

# These are tests, and assertions are how they speak; imports inside a package are relative.
# ruff: noqa: S101, TID252

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dsh_session import EncodedBatch, EventLog, SessionEvent, SessionMeta, Sessions

from .._seam import LogStore
from ..errors import ForeignChange, SeqConflict, SessionAlreadyStored, SessionBusy, SessionNotFound
from ._material import hard_events, make_batch, make_event, make_header
from ._outcomes import OutcomePromises
from ._place import OverAPlace
from ._workers import OpenStore

_HARD_IDS = (".", "..", "a/b", "../up", "x\0y", "\ud800", "~002E", "ü", "😀", "A B", "con", "a:b", " ", "x" * 120)


def _all(log: EventLog) -> list[SessionEvent]:
    return list(log)


def _require_absent(store: LogStore, session_id: str) -> None:
    with pytest.raises(SessionNotFound) as caught:
        store.read(session_id)
    assert caught.value.session_id == session_id
    with pytest.raises(SessionNotFound):
        store.open(session_id)


def _follow(
    store: LogStore, session_id: str, cursor: Mapping[str, int] | None
) -> tuple[list[SessionEvent], Mapping[str, int]]:
    """Return everything that a log has beyond a cursor, however many calls that takes."""
    found: list[SessionEvent] = []
    while (tail := store.tail(session_id, cursor)).events:
        found += tail.events
        cursor = tail.cursor
    return found, tail.cursor


class LogStoreContract(OutcomePromises, OverAPlace):
    """Subclass it as ``class TestMine(LogStoreContract)`` and override the one fixture ``new_location``.

    Every test gets a fresh, empty place, and opens it as often as it likes: stores over one place see the same bytes.
    """

    def test_p01_locate_is_pure(self, new_location: OpenStore) -> None:
        """P1: ``locate`` says the same before, during and after, and makes nothing; None without artifacts."""
        store, header = new_location(), make_header()
        location = store.locate(header)
        assert (location is not None) == store.capabilities.has_artifacts
        if location is not None:
            assert Path(location.path).is_absolute()
            assert not Path(location.path).exists()
            folder = Path(location.path).parent
            before = folder.exists() and sorted(folder.iterdir())
            assert store.locate(header) == location
            assert (folder.exists() and sorted(folder.iterdir())) == before
        assert list(store.list()) == []
        with store.create(header) as writer:
            assert store.locate(header) == location
            writer.append(make_batch(0))
        assert store.locate(header) == new_location().locate(header) == location

    def test_p02_create_touches_nothing(self, new_location: OpenStore) -> None:
        """P2: before its first append a new log does not exist, holds no claim, and leaves its id free."""
        store, header = new_location(), make_header()
        unused = store.create(header)
        assert (unused.stored, unused.next_seq) == (None, 0)
        assert list(store.list()) == []
        with pytest.raises(SessionNotFound):
            store.read(header.id)
        with store.create(header) as writer:
            writer.append(make_batch(0))
        unused.close()
        assert _all(new_location().read(header.id).events) == [make_event(0)]

    def test_p03_what_was_appended_is_read(self, new_location: OpenStore) -> None:
        """P3: a log reads back with equal header and envelopes and the same data bytes, however often it is opened."""
        header, batch = make_header(), make_batch(0, 5)
        with new_location().create(header) as writer:
            assert writer.append(batch).next_seq == 5
        for _ in range(2):
            stored = new_location().read(header.id)
            assert _all(stored.events) == list(batch.events)
            assert [event.encoded for event in stored.events] == [event.encoded for event in batch.events]
            assert stored.header == header
            assert (stored.next_seq, stored.cut, stored.torn, stored.salvaged) == (5, 0, None, 0)

    def test_p04_batches_follow_each_other(self, new_location: OpenStore) -> None:
        """P4: batches of any size make one log, and each receipt says how it goes on."""
        store, header = new_location(), make_header()
        with store.create(header) as writer:
            for first, count in ((0, 1), (1, 3), (4, 1), (5, 40)):
                assert writer.next_seq == first
                assert writer.append(make_batch(first, count)).next_seq == first + count
        assert _all(store.read(header.id).events) == list(make_batch(0, 45).events)

    def test_p05_a_batch_out_of_place_writes_nothing(self, new_location: OpenStore) -> None:
        """P5: a batch that does not begin at the log's end raises ``SeqConflict``, and nothing has changed."""
        store, header = new_location(), make_header()
        early = store.create(make_header("early"))
        with pytest.raises(SeqConflict):
            early.append(make_batch(1))
        assert list(store.list()) == []
        with store.create(header) as writer:
            writer.append(make_batch(0, 3))
            revision = store.read(header.id).revision
            for first in (0, 2, 4, 99):
                with pytest.raises(SeqConflict) as caught:
                    writer.append(make_batch(first))
                assert (caught.value.expected, caught.value.found) == (3, first)
            assert store.read(header.id).revision == revision
            writer.append(make_batch(3))
        assert _all(store.read(header.id).events) == list(make_batch(0, 4).events)

    def test_p06_an_empty_batch_writes_nothing(self, new_location: OpenStore) -> None:
        """P6: a batch without events is acknowledged and changes nothing; it does not make a log appear."""
        store, header = new_location(), make_header()
        with store.create(header) as writer:
            assert writer.append(make_batch(0, 0)).next_seq == 0
            assert list(store.list()) == []
            writer.append(make_batch(0, 2))
            revision = store.read(header.id).revision
            assert writer.append(make_batch(2, 0)).next_seq == 2
            assert store.read(header.id).revision == revision

    def test_p07_one_writer_a_session(self, new_location: OpenStore) -> None:
        """P7: while a writer holds a session another gets ``SessionBusy`` at once; closing frees it."""
        store, header, other = new_location(), make_header(), make_header("session-2")
        with store.create(header) as writer:
            writer.append(make_batch(0))
            with pytest.raises(SessionBusy):
                store.open(header.id)
            with store.create(other) as second:
                second.append(make_batch(0))
            writer.append(make_batch(1))
        with store.open(header.id) as writer:
            with pytest.raises(SessionBusy):
                store.open(header.id)
            writer.append(make_batch(2))
        store.open(header.id).close()
        assert _all(store.read(header.id).events) == list(make_batch(0, 3).events)

    def test_p08_ids_are_unique(self, new_location: OpenStore) -> None:
        """P8: a new log with a stored id, also under another directory, is refused at its first append."""
        store, header = new_location(), make_header()
        with store.create(header) as writer:
            writer.append(make_batch(0, 2))
        revision = store.read(header.id).revision
        for again in (header, make_header(cwd="/elsewhere"), make_header(cwd=None)):
            with new_location().create(again) as writer:
                for _ in range(2):
                    with pytest.raises(SessionAlreadyStored) as caught:
                        writer.append(make_batch(0))
                    assert caught.value.session_id == header.id
                store.open(header.id).close()  # whoever was refused holds nothing
        assert store.read(header.id).revision == revision
        assert len(list(store.list())) == 1

    def test_p09_a_reopened_log_goes_on(self, new_location: OpenStore) -> None:
        """P9: opening gives the log as it is stored, and the next batch continues it."""
        header = make_header()
        with new_location().create(header) as writer:
            writer.append(make_batch(0, 2))
        for first in range(2, 5):
            with new_location().open(header.id) as writer:
                assert writer.stored is not None
                assert writer.stored.header == header
                assert _all(writer.stored.events) == list(make_batch(0, first).events)
                assert writer.next_seq == first
                writer.append(make_batch(first))
        assert _all(new_location().read(header.id).events) == list(make_batch(0, 5).events)

    def test_p10_a_closed_writer_writes_nothing(self, new_location: OpenStore) -> None:
        """P10: ``close`` may be repeated; after it ``append`` raises ``ValueError`` and writes nothing."""
        store, header = new_location(), make_header()
        writer = store.create(header)
        writer.append(make_batch(0))
        writer.close()
        writer.close()
        reopened = store.open(header.id)
        writer.close()  # the claim is another's now
        with pytest.raises(SessionBusy):
            store.open(header.id)
        reopened.close()
        for closed in (writer, reopened):
            with pytest.raises(ValueError, match="closed"):
                closed.append(make_batch(1))
        assert _all(store.read(header.id).events) == [make_event(0)]

    def test_p11_reading_from_a_seq(self, new_location: OpenStore) -> None:
        """P11: ``read(from_seq=n)`` gives exactly the events from ``n`` on; past the end it gives none."""
        store, header = new_location(), make_header()
        with store.create(header) as writer:
            writer.append(make_batch(0, 3))
            writer.append(make_batch(3, 4))
        for seq in range(7):
            suffix = store.read(header.id, from_seq=seq)
            assert suffix.events.first_seq == seq
            assert _all(suffix.events) == list(make_batch(seq, 7 - seq).events)
            assert suffix.next_seq == 7
        for seq in (7, 8, 1_000):
            beyond = store.read(header.id, from_seq=seq)
            assert (_all(beyond.events), beyond.events.first_seq, beyond.next_seq) == ([], 7, 7)

    def test_p12_listing(self, new_location: OpenStore) -> None:
        """P12: every stored session is listed once with its header and revision; one without events is not."""
        store = new_location()
        headers = {one.id: one for one in (make_header("a"), make_header("b", cwd="/w"), make_header("c", cwd=None))}
        for header in headers.values():
            with store.create(header) as writer:
                writer.append(make_batch(0))
        unused = store.create(make_header("d"))
        listed = {one.header.id: one for one in new_location().list() if one.header is not None}
        unused.close()
        assert len(list(store.list())) == 3
        assert {session_id: one.header for session_id, one in listed.items()} == headers
        for session_id, one in listed.items():
            assert (one.problem, one.revision) == (None, store.read(session_id).revision)

    def test_p13_revisions(self, new_location: OpenStore) -> None:
        """P13: a revision stays equal while nothing is written, whoever reads or opens, and changes with an append."""
        store, header = new_location(), make_header()
        seen: list[str] = []
        with store.create(header) as writer:
            for first in range(4):
                writer.append(make_batch(first))
                seen.append(store.read(header.id).revision)
                assert new_location().read(header.id, from_seq=first).revision == seen[-1]
        assert len(set(seen)) == 4
        with store.open(header.id) as writer:
            assert writer.stored is not None
            assert writer.stored.revision == seen[-1]
        assert new_location().read(header.id).revision == seen[-1]

    @pytest.mark.parametrize("session_id", ["nobody", "", "..", "../session-1", "a/b", "x\0y", "\ud800", "y" * 5_000])
    def test_p14_what_is_not_there(self, new_location: OpenStore, session_id: str) -> None:
        """P14: reading or opening an id without a log raises ``SessionNotFound``, whatever the id looks like."""
        store = new_location()
        _require_absent(store, session_id)
        with store.create(make_header()) as writer:
            writer.append(make_batch(0))
        _require_absent(store, session_id)

    def test_p15_hard_content(self, new_location: OpenStore) -> None:
        """P15: lone surrogates, NUL, line separators, depth, size, unknown types and keys come back byte for byte."""
        header, events = make_header(), hard_events()
        with new_location().create(header) as writer:
            for event in events[:5]:
                writer.append(EncodedBatch(first_seq=event.seq, events=(event,)))
            writer.append(EncodedBatch(first_seq=5, events=events[5:]))
        stored = _all(new_location().read(header.id).events)
        assert len(stored) == len(events)
        for found, event in zip(stored, events, strict=True):
            assert found == event
            assert found.data == event.data
        with new_location().open(header.id) as writer:
            assert writer.next_seq == len(events)

    def test_p16_hard_ids(self, new_location: OpenStore) -> None:
        """P16: ids of any characters are sessions of their own, each found by its id and nothing else."""
        store = new_location()
        for number, session_id in enumerate(_HARD_IDS):
            with store.create(make_header(session_id, cwd="/w")) as writer:
                writer.append(make_batch(0, number + 1))
        for number, session_id in enumerate(_HARD_IDS):
            stored = new_location().read(session_id)
            assert (stored.header.id, stored.next_seq) == (session_id, number + 1)
        assert sorted(one.header.id for one in store.list() if one.header is not None) == sorted(_HARD_IDS)

    def test_p17_headers(self, new_location: OpenStore) -> None:
        """P17: every field of a header comes back, from reading and from listing."""
        headers = (
            make_header("plain", cwd=None),
            make_header("child", parent_session="parent", origin="subagent", delegation_depth=2, agent_preset="coder"),
            make_header("hard", cwd="/w/新聞/a\ud800 \0b", parent_session="p\ud800", agent_preset="\u2028"),
        )
        store = new_location()
        for header in headers:
            with store.create(header) as writer:
                writer.append(make_batch(0))
        for header in headers:
            assert new_location().read(header.id).header == header
        listed = {one.header.id: one.header for one in store.list() if one.header is not None}
        assert listed == {header.id: header for header in headers}

    def test_p18_seeds(self, new_location: OpenStore) -> None:
        """P18: a fork's log says how much of it was inherited, in its header and as ``cut``."""
        seed = make_batch(0, 3).events
        fork = Sessions().create("fork", seed=seed, meta=SessionMeta(cwd="/w", parent_session="parent"))
        fork.append("plugin:contract/own", {})
        store = new_location()
        with store.create(fork.header) as writer:
            writer.append(fork.batch(0))
        stored = new_location().read("fork")
        assert (stored.header, stored.cut) == (fork.header, 3)
        assert _all(stored.events) == list(fork.events)
        assert new_location().read("fork", from_seq=4).cut == 3
        (listed,) = store.list()
        assert listed.header in (fork.header, dataclasses.replace(fork.header, seed_length=None))

    def test_p19_baselines(self, new_location: OpenStore) -> None:
        """P19: the baselines inherited from a delegating parent come back in the header; listings may omit them."""
        meta = SessionMeta(cwd="/w", parent_session="p", sandbox_mode="read-only", approval_policy="never")
        child = Sessions().create("child", meta=meta)
        store = new_location()
        with store.create(child.header) as writer:
            writer.append(child.batch(0))
        stored = new_location().read("child")
        assert stored.header == child.header
        assert _all(stored.events) == list(child.events)
        (listed,) = store.list()
        bare = dataclasses.replace(child.header, sandbox_mode=None, approval_policy=None)
        assert listed.header in (child.header, bare)

    def test_p20_reading_beside_a_writer(self, new_location: OpenStore) -> None:
        """P20: a read takes no claim and sees everything that was acknowledged before it began."""
        header, reader = make_header(), new_location()
        with new_location().create(header) as writer:
            for first in range(0, 12, 3):
                writer.append(make_batch(first, 3))
                stored = reader.read(header.id)
                assert _all(stored.events) == list(make_batch(0, first + 3).events)
                assert len(list(reader.list())) == 1
        with reader.open(header.id) as writer:
            writer.append(make_batch(12))
            assert reader.read(header.id).next_seq == 13

    def test_p21_reading_by_location(self, new_location: OpenStore) -> None:
        """P21: the location that a listing gives, and ``locate`` where there is one, read as the id does."""
        store, header = new_location(), make_header()
        location = store.locate(header)
        if location is not None:
            with pytest.raises(SessionNotFound):
                store.read(location)
        with store.create(header) as writer:
            writer.append(make_batch(0, 2))
        (listed,) = store.list()
        for place in (listed.location, *([] if location is None else [location])):
            assert _all(store.read(place, from_seq=1).events) == [make_event(1)]

    def test_p22_nothing_to_repair(self, new_location: OpenStore) -> None:
        """P22: repairing an intact log returns None and changes nothing."""
        store, header = new_location(), make_header()
        with store.create(header) as writer:
            assert writer.repair() is None
            writer.append(make_batch(0))
        revision = store.read(header.id).revision
        with store.open(header.id) as writer:
            assert (writer.repair(), writer.repair()) == (None, None)
        assert store.read(header.id).revision == revision

    def test_p23_any_thread(self, new_location: OpenStore) -> None:
        """P23: several threads write their own sessions through one store, and read each other's."""
        store = new_location()
        ids = [f"session-{number}" for number in range(4)]

        def write(session_id: str) -> None:
            with store.create(make_header(session_id)) as writer:
                for first in range(10):
                    writer.append(make_batch(first))
                    assert store.read(session_id).next_seq == first + 1
                    assert [one.problem for one in store.list() if one.problem is not None] == []

        with ThreadPoolExecutor(len(ids)) as pool:
            list(pool.map(write, ids))
        assert [store.read(session_id).next_seq for session_id in ids] == [10] * 4

    def test_p24_streaming(self, new_location: OpenStore) -> None:
        """P24: ``scan`` yields what ``read`` returns, in order and byte for byte, by id and by location."""
        store, header, events = new_location(), make_header(), hard_events()
        with pytest.raises(SessionNotFound):
            list(store.scan(header.id))
        with store.create(header) as writer:
            writer.append(EncodedBatch(first_seq=0, events=events))
            assert list(new_location().scan(header.id)) == list(events)
            writer.append(make_batch(len(events), 3))
        expected = [*events, *make_batch(len(events), 3).events]
        (listed,) = store.list()
        for ref in (header.id, listed.location):
            assert list(new_location().scan(ref)) == _all(store.read(ref).events) == expected

    def test_p25_following(self, new_location: OpenStore) -> None:
        """P25: ``tail`` hands out every event once, in order, as the log grows; when nothing is new it gives none."""
        header, reader = make_header(), new_location()
        with pytest.raises(SessionNotFound):
            reader.tail(header.id)
        with new_location().create(header) as writer:
            cursor, seen = None, 0
            for count in (1, 4, 1, 300):
                writer.append(make_batch(seen, count))
                found, cursor = _follow(reader, header.id, cursor)
                assert found == list(make_batch(seen, count).events)
                assert _follow(reader, header.id, cursor) == ([], cursor)
                seen += count
        assert _follow(reader, header.id, None)[0] == list(make_batch(0, seen).events)

    def test_p26_cursors(self, new_location: OpenStore) -> None:
        """P26: a cursor is plain JSON, goes on in another store over the place, and is refused by a shorter log."""
        store, long, short = new_location(), make_header("long"), make_header("short")
        for header, count in ((long, 9), (short, 2)):
            with store.create(header) as writer:
                writer.append(make_batch(0, count))
        cursor = store.tail(long.id).cursor
        kept = json.loads(json.dumps(dict(cursor)))
        assert kept == dict(cursor)
        with store.open(long.id) as writer:
            writer.append(make_batch(9, 2))
        assert list(new_location().tail(long.id, kept).events) == list(make_batch(9, 2).events)
        with pytest.raises(ForeignChange):
            store.tail(short.id, kept)
