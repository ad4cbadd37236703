"""What ``SessionPersistence`` promises over any store, one test a promise (BEHAVIOUR §9.7)."""

# These are tests, and assertions are how they speak; imports inside a package are relative.
# ruff: noqa: S101, TID252

from __future__ import annotations

import asyncio
import errno
import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from dsh_session import EventRefused, Session, SessionEvent, SessionMeta, Sessions

from .._service import SessionPersistence
from ..errors import (
    LiveTurnOpen,
    OutcomeUnknown,
    PersistenceClosed,
    SeqConflict,
    SessionAlreadyStored,
    SessionBusy,
    SessionNotFound,
    WriteFailed,
)
from ._material import CLOSERS, HARD_DATA, OPEN_TURN, make_batch, make_event, make_header, open_turn
from ._place import OverAPlace
from ._workers import OpenStore, can_fork, run_until_killed
from .faults import FaultyStore

_PATIENCE_S = 60
_NOTE = "plugin:contract/note"

Scenario = Callable[[Any, OpenStore], Coroutine[Any, Any, None]]


def _on_a_loop(scenario: Scenario) -> Callable[[Any, OpenStore], None]:
    """Make a test of a coroutine, so that the contract needs no plugin of anybody's pytest."""

    @functools.wraps(scenario)
    def test(self: Any, new_location: OpenStore) -> None:
        asyncio.run(asyncio.wait_for(scenario(self, new_location), _PATIENCE_S))

    return test


def _session(session_id: str = "session-1", *, notes: int = 0, **fields: Any) -> Session:
    session = Session(make_header(session_id, **fields))
    for _ in range(notes):
        _note(session)
    return session


def _note(session: Session) -> SessionEvent:
    return session.append(_NOTE, {"n": session.next_seq})


def _events(new_location: OpenStore, session_id: str = "session-1") -> list[SessionEvent]:
    """Return what is stored, as another store sees it."""
    return list(new_location().read(session_id).events)


def _types(events: Sequence[SessionEvent]) -> tuple[str, ...]:
    return tuple(event.type for event in events)


@asynccontextmanager
async def _unwritten(service: SessionPersistence) -> AsyncGenerator[SessionPersistence]:
    """Close a service that cannot write everything; that it says so is another promise."""
    try:
        yield service
    finally:
        with pytest.raises(ExceptionGroup):
            await service.close()


class PersistenceContract(OverAPlace):
    """Subclass it as ``class TestMine(PersistenceContract)`` and override the one fixture ``new_location``.

    It proves that a store and the coordinator keep together what the coordinator promises.
    """

    coordinator: ClassVar[type[SessionPersistence]] = SessionPersistence
    """What is put over the store."""

    @_on_a_loop
    async def test_s01_create_append_load(self, new_location: OpenStore) -> None:
        """S1: what was appended by id is loaded and inspected with equal header and events."""
        header, events = (
            make_header(parent_session="p", delegation_depth=2),
            [make_event(*one) for one in enumerate(HARD_DATA)],
        )
        async with self.coordinator(new_location()) as service:
            await service.create(header)
            await service.append(header.id, events[:4])
            await service.append(header.id, events[4:])
            for stored in (await service.load(header.id), await service.inspect(header.id)):
                assert (stored.header, list(stored.events)) == (header, events)
        assert _events(new_location) == events

    @_on_a_loop
    async def test_s02_nothing_before_the_first_event(self, new_location: OpenStore) -> None:
        """S2: creating, attaching, flushing and appending nothing store nothing, and an empty session is not found."""
        async with self.coordinator(new_location()) as service:
            await service.create(make_header("created"))
            await service.append("created", [])
            session = _session()
            service.attach(session)
            await service.flush()
            await service.flush(session.id)
            for session_id in ("created", session.id, "nobody"):
                for call in (service.load, service.inspect):
                    with pytest.raises(SessionNotFound):
                        await call(session_id)
            assert await service.list() == []
            await service.detach(session)
        assert list(new_location().list()) == []

    @_on_a_loop
    async def test_s03_an_interrupted_turn(self, new_location: OpenStore) -> None:
        """S3: inspecting shows a crashed turn open and changes nothing; a load closes it, once and durably."""
        crashed = _session()
        open_turn(crashed)
        with new_location().create(crashed.header) as writer:
            writer.append(crashed.batch(0))
        before = new_location().read(crashed.id).revision
        async with self.coordinator(new_location()) as service:
            for _ in range(2):
                stored = await service.inspect(crashed.id)
                assert (list(stored.events), stored.revision) == (list(crashed.events), before)
            loaded = await service.load(crashed.id)
            assert _types(loaded.events) == OPEN_TURN + CLOSERS
            assert loaded.revision != before
            assert (await service.load(crashed.id)).revision == loaded.revision
            await service.append(crashed.id, [make_event(loaded.next_seq)])
        assert _types(_events(new_location)) == (*OPEN_TURN, *CLOSERS, _NOTE)

    @_on_a_loop
    async def test_s04_unsettled_calls(self, new_location: OpenStore) -> None:
        """S4: a call that was announced gets a retryable result, one that was started gets an unknown outcome."""
        crashed = _session()
        open_turn(crashed)
        with new_location().create(crashed.header) as writer:
            writer.append(crashed.batch(0))
        async with self.coordinator(new_location()) as service:
            closers = list((await service.load(crashed.id)).events)[len(OPEN_TURN) :]
            assert _types(closers) == CLOSERS
            started, announced, _, turn = closers
            assert (started.data["error"]["code"], started.source_event_seqs) == ("TOOL_OUTCOME_UNKNOWN", (4,))
            assert (announced.data["error"]["code"], announced.source_event_seqs) == ("TOOL_NOT_STARTED", None)
            assert turn.data["reason"] == {"kind": "interrupted"}
            resumed = await service.resume(crashed.id)
            assert resumed.state.turn is None
            open_turn(resumed)

    @_on_a_loop
    async def test_s05_suffixes(self, new_location: OpenStore) -> None:
        """S5: ``read_from`` gives exactly the stored events from a seq on, none past the end, and changes nothing."""
        async with self.coordinator(new_location()) as service:
            session = _session(notes=5)
            service.attach(session)
            await service.flush()
            revision = (await service.inspect(session.id)).revision
            for seq in (0, 3, 5, 99):
                assert list(await service.read_from(session.id, seq)) == list(session.events[seq:])
            with pytest.raises(ValueError, match="-1"):
                await service.read_from(session.id, -1)
            with pytest.raises(SessionNotFound):
                await service.read_from("nobody", 0)
            assert (await service.inspect(session.id)).revision == revision

    @_on_a_loop
    async def test_s06_revisions(self, new_location: OpenStore) -> None:
        """S6: listed revisions are equal while nothing is written, and differ after an append."""
        async with self.coordinator(new_location()) as service:
            session = _session(notes=1)
            service.attach(session)
            await service.flush()
            revisions = [(await service.list())[0].revision for _ in range(2)]
            _note(session)
            await service.flush()
            revisions.append((await service.list())[0].revision)
        assert revisions[0] == revisions[1] != revisions[2]

    @_on_a_loop
    async def test_s07_seqs(self, new_location: OpenStore) -> None:
        """S7: events must continue the log without a gap; of a batch that does not, nothing is taken."""
        async with self.coordinator(new_location()) as service:
            await service.create(make_header())
            await service.append("session-1", make_batch(0, 2).events)
            for seqs in ((0,), (3,), (2, 4), (2, 2)):
                with pytest.raises(SeqConflict):
                    await service.append("session-1", [make_event(seq) for seq in seqs])
            await service.append("session-1", make_batch(2).events)
        assert _events(new_location) == list(make_batch(0, 3).events)

    @_on_a_loop
    async def test_s08_what_is_no_event(self, new_location: OpenStore) -> None:
        """S8: of a batch with data that is no JSON, or with an unknown type, nothing is taken, and the log goes on."""
        bad = (
            SessionEvent(type=_NOTE, seq=1, time=0, encoded=b"{", ignorable=True),
            SessionEvent(type=_NOTE, seq=1, time=0, encoded=b'{"n":NaN}', ignorable=True),
            SessionEvent(type="acme/unknown", seq=1, time=0, encoded=b"{}"),
        )
        async with self.coordinator(new_location()) as service:
            await service.create(make_header())
            for event in bad:
                with pytest.raises(EventRefused):
                    await service.append("session-1", [make_event(0), event])
            await service.append("session-1", make_batch(0, 2).events)
        assert _events(new_location) == list(make_batch(0, 2).events)

    @_on_a_loop
    async def test_s09_live_sessions(self, new_location: OpenStore) -> None:
        """S9: events a live session had, and those it gets, are stored; attaching again is harmless."""
        async with self.coordinator(new_location()) as service:
            session = _session(notes=2)
            service.attach(session)
            service.attach(session)
            _note(session)
            await service.flush(session.id)
            assert _events(new_location) == list(session.events)
            assert service.health(session.id).last_durable_seq == 2
            for _ in range(3):
                _note(session)
        assert _events(new_location) == list(session.events)

    @_on_a_loop
    async def test_s10_loading_a_live_session(self, new_location: OpenStore) -> None:
        """S10: inside a turn a live session cannot be loaded; else it is flushed and read as it is."""
        async with self.coordinator(new_location(), window_ms=60_000) as service:
            session = _session()
            service.attach(session)
            session.append("turn/start", {"turn": 1})
            with pytest.raises(LiveTurnOpen):
                await service.load(session.id)
            session.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
            assert list((await service.load(session.id)).events) == list(session.events)
            await service.detach(session)
            assert list((await service.load(session.id)).events) == list(session.events)

    @_on_a_loop
    async def test_s11_what_a_header_says(self, new_location: OpenStore) -> None:
        """S11: parent, depth, origin, preset and seed length come back when a session is resumed."""
        meta = SessionMeta(cwd="/w", parent_session="p", origin="subagent", delegation_depth=3, agent_preset="c")
        async with self.coordinator(new_location()) as service:
            fork = Sessions().create("fork", seed=make_batch(0, 2).events, meta=meta)
            service.attach(fork)
            await service.detach(fork)
            resumed = await service.resume("fork")
            assert resumed.header == fork.header
            assert (resumed.header.seed_length, resumed.header.delegation_depth) == (2, 3)

    @_on_a_loop
    async def test_s12_events_are_copied(self, new_location: OpenStore) -> None:
        """S12: what a caller does to its list of events after the call changes nothing that is stored."""
        async with self.coordinator(new_location()) as service:
            await service.create(make_header())
            events = list(make_batch(0, 3).events)
            append = service.append("session-1", events)
            events.clear()
            await append
        assert _events(new_location) == list(make_batch(0, 3).events)

    @_on_a_loop
    async def test_s13_a_forks_seed(self, new_location: OpenStore) -> None:
        """S13: a fork's seed and the mark that ends it are stored once, also when the fork is resumed."""
        async with self.coordinator(new_location()) as service:
            fork = Sessions().create("fork", seed=make_batch(0, 2).events, meta=SessionMeta(cwd="/w"))
            service.attach(fork)
            await service.detach(fork)
            expected = (_NOTE, _NOTE, "session/end-seed")
            assert _types(_events(new_location, "fork")) == expected
            resumed = await service.resume("fork")
            _note(resumed)
        assert _types(_events(new_location, "fork")) == (*expected, _NOTE)

    @_on_a_loop
    async def test_s14_detaching(self, new_location: OpenStore) -> None:
        """S14: detaching and closing write what is queued and free the session; a new one of that id collides."""
        store = new_location()
        async with _unwritten(self.coordinator(store, window_ms=60_000)) as service:
            session = _session(notes=2)
            service.attach(session)
            await service.detach(session)
            assert _events(new_location) == list(session.events)
            new_location().open(session.id).close()
            another = _session()
            another.append(_NOTE, "another")
            service.attach(another)
            with pytest.raises(WriteFailed) as caught:
                await service.flush(another.id)
            assert isinstance(caught.value.__cause__, SessionAlreadyStored)
        assert _events(new_location) == list(session.events)

    @_on_a_loop
    async def test_s15_adoption(self, new_location: OpenStore) -> None:
        """S15: a service that comes later takes over a live, stored session, writes the rest, and closes no turn."""
        session = _session()
        async with self.coordinator(new_location()) as earlier:
            earlier.attach(session)
            open_turn(session)
        async with self.coordinator(new_location()) as later:
            later.attach(session)
            await later.flush()
            revision = new_location().read(session.id).revision
            await later.flush()
            assert new_location().read(session.id).revision == revision
            _note(session)
            await later.flush()
            assert session.state.turn == 1
        assert _events(new_location) == list(session.events)
        assert _types(session.events) == (*OPEN_TURN, _NOTE)

    @_on_a_loop
    async def test_s16_another_sessions_log(self, new_location: OpenStore) -> None:
        """S16: a live session with other events, or another directory, never takes over a stored log."""
        stored = _session(notes=3)
        with new_location().create(stored.header) as writer:
            writer.append(stored.batch(0))
        for cwd, notes in (("/srv/project", 0), ("/srv/project", 2), ("/elsewhere", 3), (None, 3)):
            async with _unwritten(self.coordinator(new_location())) as service:
                other = _session(notes=notes, cwd=cwd)
                for _ in range(4 - notes):
                    other.append(_NOTE, "another")
                service.attach(other)
                with pytest.raises(WriteFailed) as caught:
                    await service.flush(other.id)
                assert isinstance(caught.value.__cause__, SessionAlreadyStored)
            assert _events(new_location) == list(stored.events)
            assert new_location().read(stored.id).header == stored.header
        new_location().open(stored.id).close()

    @_on_a_loop
    async def test_s17_unused_ids(self, new_location: OpenStore) -> None:
        """S17: a live session that was never used gives its id to another; one that was used does not."""
        async with self.coordinator(new_location()) as service:
            service.attach(_session())
            second = _session()
            service.attach(second)
            _note(second)
            with pytest.raises(SessionBusy):
                service.attach(_session())
        assert _events(new_location) == list(second.events)

    @_on_a_loop
    async def test_s18_taking_over(self, new_location: OpenStore) -> None:
        """S18: a live session goes on from what was created and appended by id, whose header stays."""
        for session_id, known in (("created", 0), ("appended", 2)):
            header = make_header(session_id, agent_preset="stored" if known else None)
            async with self.coordinator(new_location()) as service:
                session = _session(session_id, notes=3)
                await service.create(header)
                await service.append(session_id, list(session.events[:known]))
                service.attach(session)
                await service.flush()
                with pytest.raises(SessionBusy):
                    await service.append(session_id, [make_event(3)])
            stored = new_location().read(session_id)
            assert (stored.header, list(stored.events)) == (header, list(session.events))

    @_on_a_loop
    async def test_s19_a_fresh_service(self, new_location: OpenStore) -> None:
        """S19: a service that knows nothing of a stored session appends to it where it ends."""
        for first in range(3):
            async with self.coordinator(new_location()) as service:
                if first == 0:
                    await service.create(make_header())
                await service.append("session-1", make_batch(first).events)
        assert _events(new_location) == list(make_batch(0, 3).events)

    @_on_a_loop
    async def test_s20_what_is_not_there(self, new_location: OpenStore) -> None:
        """S20: an id without a log is not found, by any operation that needs one."""
        async with self.coordinator(new_location()) as service:
            for call in (service.load, service.inspect, service.resume):
                with pytest.raises(SessionNotFound):
                    await call("nobody")
            with pytest.raises(SessionNotFound):
                await service.append("nobody", make_batch(0).events)
            with pytest.raises(SessionNotFound):
                service.health("nobody")

    @_on_a_loop
    async def test_s21_duplicates(self, new_location: OpenStore) -> None:
        """S21: an id that is in use or stored cannot be created, and what is there stays."""
        async with self.coordinator(new_location()) as service:
            await service.create(make_header())
            await service.append("session-1", make_batch(0).events)
            with pytest.raises(SessionBusy):
                await service.create(make_header())
            await service.release("session-1")
            with pytest.raises(SessionAlreadyStored):
                await service.create(make_header(cwd="/elsewhere"))
        assert _events(new_location) == list(make_batch(0).events)

    @_on_a_loop
    async def test_s22_claims(self, new_location: OpenStore) -> None:
        """S22: a resumed session is held until it is detached; others can read it, and not write."""
        store = new_location()
        with store.create(make_header()) as writer:
            writer.append(make_batch(0, 2))
        async with self.coordinator(store) as service:
            session = await service.resume("session-1")
            with pytest.raises(SessionBusy):
                store.open("session-1")
            with pytest.raises(SessionBusy):
                await service.resume("session-1")
            assert len((await service.inspect("session-1")).events) >= 2
            await service.detach(session)
            again = await service.resume("session-1")
            assert _types(again.events) == (_NOTE, _NOTE, "session/end-seed")

    @_on_a_loop
    async def test_s23_failed_writes(self, new_location: OpenStore) -> None:
        """S23: a write that fails makes the flush raise, claims nothing, and is tried again; nothing is there twice."""
        faulty = FaultyStore(new_location())
        async with self.coordinator(faulty, window_ms=60_000) as service:
            session = _session(notes=1)
            service.attach(session)
            await service.flush()
            for count in range(1, 4):
                faulty.before.append(OSError(errno.ENOSPC, "No space left on device"))
                _note(session)
                with pytest.raises(WriteFailed):
                    await service.flush(session.id)
                assert (service.health(session.id).last_durable_seq, service.health(session.id).queued) == (0, count)
            await service.flush(session.id)
            assert service.health(session.id).last_error is None
        assert _events(new_location) == list(session.events)

    @_on_a_loop
    async def test_s24_unknown_outcomes(self, new_location: OpenStore) -> None:
        """S24: after a write whose outcome is unknown the log holds its events once, whether it was done or not."""
        faulty = FaultyStore(new_location())
        unknown = OutcomeUnknown("the contract", "the answer was lost")
        async with self.coordinator(faulty, window_ms=60_000) as service:
            session = _session()
            service.attach(session)
            for queue in (faulty.before, faulty.after, faulty.before, faulty.after):
                queue.append(unknown)
                _note(session)
                with pytest.raises(WriteFailed):
                    await service.flush(session.id)
                _note(session)
                await service.flush(session.id)
        assert _events(new_location) == list(session.events)

    @_on_a_loop
    async def test_s25_many_sessions(self, new_location: OpenStore) -> None:
        """S25: many sessions that grow at once are each stored in order, and one flush is for all."""
        async with self.coordinator(new_location(), window_ms=60_000) as service:
            sessions = [_session(f"session-{number}") for number in range(20)]
            for session in sessions:
                service.attach(session)
            for _ in range(5):
                for session in sessions:
                    _note(session)
                await asyncio.sleep(0)
            flush = asyncio.ensure_future(service.flush())
            await asyncio.sleep(0)
            for session in sessions:
                _note(session)
            await flush
            for session in sessions:
                assert _events(new_location, session.id) == list(session.events)
            assert len(await service.list()) == 20

    @_on_a_loop
    async def test_s26_after_the_end(self, new_location: OpenStore) -> None:
        """S26: a closed service refuses, closing again is harmless, and every session is free for the next one."""
        service = self.coordinator(new_location())
        session = _session(notes=2)
        service.attach(session)
        await service.create(make_header("by-id"))
        await service.append("by-id", make_batch(0).events)
        await service.close()
        await service.close()
        with pytest.raises(PersistenceClosed):
            service.attach(_session("late"))
        with pytest.raises(PersistenceClosed):
            await service.inspect(session.id)
        async with self.coordinator(new_location()) as next_one:
            for session_id in (session.id, "by-id"):
                assert (await next_one.resume(session_id)).id == session_id

    def test_s27_killed_inside_a_turn(self, new_location: OpenStore) -> None:
        """S27: when the process is killed, what a flush acknowledged is there, and the next load closes the turn."""
        if not new_location().capabilities.durable:
            pytest.skip("the store does not declare that its logs outlive the process")
        if not can_fork():
            pytest.skip("this platform cannot fork a process to kill")

        acknowledged = (*OPEN_TURN, _NOTE)

        async def work(report: Callable[[object], None]) -> None:
            service = self.coordinator(new_location())
            session = _session()
            service.attach(session)
            open_turn(session)
            await service.flush()
            _note(session)
            await service.flush()
            report(service.health(session.id).last_durable_seq)

        async def look() -> None:
            async with self.coordinator(new_location()) as service:
                assert _types((await service.inspect("session-1")).events) == acknowledged
                for _ in range(2):
                    assert _types((await service.load("session-1")).events) == acknowledged + CLOSERS

        assert run_until_killed(lambda report: asyncio.run(work(report))) == [len(acknowledged) - 1]
        asyncio.run(asyncio.wait_for(look(), _PATIENCE_S))
