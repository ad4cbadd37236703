"""What ``SessionPersistence`` promises over any store, one test a promise (BEHAVIOUR §9.7)."""

# These are tests, and assertions are how they speak; imports inside a package are relative.
# ruff: noqa: S101, TID252

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

import pytest

from dsh_session import SessionMeta, Sessions

from ..errors import LiveTurnOpen, OutcomeUnknown, PersistenceClosed, SessionAlreadyStored, SessionBusy, WriteFailed
from ._material import CLOSERS, OPEN_TURN, make_batch, make_event, make_header, open_turn
from ._place import OverAPlace
from ._scenarios import NOTE, PATIENCE_S, add_note, new_session, on_a_loop, stored_events, types_of, unwritten
from ._stored import StoredPromises
from ._workers import OpenStore, can_fork, run_until_killed
from .faults import FaultyStore


class PersistenceContract(StoredPromises, OverAPlace):
    """Subclass it as ``class TestMine(PersistenceContract)`` and override the one fixture ``new_location``.

    It proves that a store and the coordinator keep together what the coordinator promises.
    """

    @on_a_loop
    async def test_s09_live_sessions(self, new_location: OpenStore) -> None:
        """S9: events a live session had, and those it gets, are stored; attaching again is harmless."""
        async with self.coordinator(new_location()) as service:
            session = new_session(notes=2)
            service.attach(session)
            service.attach(session)
            add_note(session)
            await service.flush(session.id)
            assert stored_events(new_location) == list(session.events)
            assert service.health(session.id).last_durable_seq == 2
            for _ in range(3):
                add_note(session)
        assert stored_events(new_location) == list(session.events)

    @on_a_loop
    async def test_s10_loading_a_live_session(self, new_location: OpenStore) -> None:
        """S10: inside a turn a live session cannot be loaded; else it is flushed and read as it is."""
        async with self.coordinator(new_location(), window_ms=60_000) as service:
            session = new_session()
            service.attach(session)
            session.append("turn/start", {"turn": 1})
            with pytest.raises(LiveTurnOpen):
                await service.load(session.id)
            session.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
            assert list((await service.load(session.id)).events) == list(session.events)
            await service.detach(session)
            assert list((await service.load(session.id)).events) == list(session.events)

    @on_a_loop
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

    @on_a_loop
    async def test_s13_a_forks_seed(self, new_location: OpenStore) -> None:
        """S13: a fork's seed and the mark that ends it are stored once, also when the fork is resumed."""
        async with self.coordinator(new_location()) as service:
            fork = Sessions().create("fork", seed=make_batch(0, 2).events, meta=SessionMeta(cwd="/w"))
            service.attach(fork)
            await service.detach(fork)
            expected = (NOTE, NOTE, "session/end-seed")
            assert types_of(stored_events(new_location, "fork")) == expected
            resumed = await service.resume("fork")
            add_note(resumed)
        assert types_of(stored_events(new_location, "fork")) == (*expected, NOTE)

    @on_a_loop
    async def test_s14_detaching(self, new_location: OpenStore) -> None:
        """S14: detaching and closing write what is queued and free the session; a new one of that id collides."""
        store = new_location()
        async with unwritten(self.coordinator(store, window_ms=60_000)) as service:
            session = new_session(notes=2)
            service.attach(session)
            await service.detach(session)
            assert stored_events(new_location) == list(session.events)
            new_location().open(session.id).close()
            another = new_session()
            another.append(NOTE, "another")
            service.attach(another)
            with pytest.raises(WriteFailed) as caught:
                await service.flush(another.id)
            assert isinstance(caught.value.__cause__, SessionAlreadyStored)
        assert stored_events(new_location) == list(session.events)

    @on_a_loop
    async def test_s15_adoption(self, new_location: OpenStore) -> None:
        """S15: a service that comes later takes over a live, stored session, writes the rest, and closes no turn."""
        session = new_session()
        async with self.coordinator(new_location()) as earlier:
            earlier.attach(session)
            open_turn(session)
        async with self.coordinator(new_location()) as later:
            later.attach(session)
            await later.flush()
            revision = new_location().read(session.id).revision
            await later.flush()
            assert new_location().read(session.id).revision == revision
            add_note(session)
            await later.flush()
            assert session.state.turn == 1
        assert stored_events(new_location) == list(session.events)
        assert types_of(session.events) == (*OPEN_TURN, NOTE)

    @on_a_loop
    async def test_s16_another_sessions_log(self, new_location: OpenStore) -> None:
        """S16: a live session with other events, or another directory, never takes over a stored log."""
        stored = new_session(notes=3)
        with new_location().create(stored.header) as writer:
            writer.append(stored.batch(0))
        for cwd, notes in (("/srv/project", 0), ("/srv/project", 2), ("/elsewhere", 3), (None, 3)):
            async with unwritten(self.coordinator(new_location())) as service:
                other = new_session(notes=notes, cwd=cwd)
                for _ in range(4 - notes):
                    other.append(NOTE, "another")
                service.attach(other)
                with pytest.raises(WriteFailed) as caught:
                    await service.flush(other.id)
                assert isinstance(caught.value.__cause__, SessionAlreadyStored)
            assert stored_events(new_location) == list(stored.events)
            assert new_location().read(stored.id).header == stored.header
        new_location().open(stored.id).close()

    @on_a_loop
    async def test_s17_unused_ids(self, new_location: OpenStore) -> None:
        """S17: a live session that was never used gives its id to another; one that was used does not."""
        async with self.coordinator(new_location()) as service:
            service.attach(new_session())
            second = new_session()
            service.attach(second)
            add_note(second)
            with pytest.raises(SessionBusy):
                service.attach(new_session())
        assert stored_events(new_location) == list(second.events)

    @on_a_loop
    async def test_s18_taking_over(self, new_location: OpenStore) -> None:
        """S18: a live session goes on from what was created and appended by id, whose header stays."""
        for session_id, known in (("created", 0), ("appended", 2)):
            header = make_header(session_id, agent_preset="stored" if known else None)
            async with self.coordinator(new_location()) as service:
                session = new_session(session_id, notes=3)
                await service.create(header)
                await service.append(session_id, list(session.events[:known]))
                service.attach(session)
                await service.flush()
                with pytest.raises(SessionBusy):
                    await service.append(session_id, [make_event(3)])
            stored = new_location().read(session_id)
            assert (stored.header, list(stored.events)) == (header, list(session.events))

    @on_a_loop
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
            assert types_of(again.events) == (NOTE, NOTE, "session/end-seed")

    @on_a_loop
    async def test_s23_failed_writes(self, new_location: OpenStore) -> None:
        """S23: a write that fails makes the flush raise, claims nothing, and is tried again; nothing is there twice."""
        faulty = FaultyStore(new_location())
        async with self.coordinator(faulty, window_ms=60_000) as service:
            session = new_session(notes=1)
            service.attach(session)
            await service.flush()
            for count in range(1, 4):
                faulty.before.append(OSError(errno.ENOSPC, "No space left on device"))
                add_note(session)
                with pytest.raises(WriteFailed):
                    await service.flush(session.id)
                assert (service.health(session.id).last_durable_seq, service.health(session.id).queued) == (0, count)
            await service.flush(session.id)
            assert service.health(session.id).last_error is None
        assert stored_events(new_location) == list(session.events)

    @on_a_loop
    async def test_s24_unknown_outcomes(self, new_location: OpenStore) -> None:
        """S24: after a write whose outcome is unknown the log holds its events once, whether it was done or not."""
        faulty = FaultyStore(new_location())
        unknown = OutcomeUnknown("the contract", "the answer was lost")
        async with self.coordinator(faulty, window_ms=60_000) as service:
            session = new_session()
            service.attach(session)
            for queue in (faulty.before, faulty.after, faulty.before, faulty.after):
                queue.append(unknown)
                add_note(session)
                with pytest.raises(WriteFailed):
                    await service.flush(session.id)
                add_note(session)
                await service.flush(session.id)
        assert stored_events(new_location) == list(session.events)

    @on_a_loop
    async def test_s25_many_sessions(self, new_location: OpenStore) -> None:
        """S25: many sessions that grow at once are each stored in order, and one flush is for all."""
        async with self.coordinator(new_location(), window_ms=60_000) as service:
            sessions = [new_session(f"session-{number}") for number in range(20)]
            for session in sessions:
                service.attach(session)
            for _ in range(5):
                for session in sessions:
                    add_note(session)
                await asyncio.sleep(0)
            flush = asyncio.ensure_future(service.flush())
            await asyncio.sleep(0)
            for session in sessions:
                add_note(session)
            await flush
            for session in sessions:
                assert stored_events(new_location, session.id) == list(session.events)
            assert len(await service.list()) == 20

    @on_a_loop
    async def test_s26_after_the_end(self, new_location: OpenStore) -> None:
        """S26: a closed service refuses, closing again is harmless, and every session is free for the next one."""
        service = self.coordinator(new_location())
        session = new_session(notes=2)
        service.attach(session)
        await service.create(make_header("by-id"))
        await service.append("by-id", make_batch(0).events)
        await service.close()
        await service.close()
        with pytest.raises(PersistenceClosed):
            service.attach(new_session("late"))
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

        acknowledged = (*OPEN_TURN, NOTE)

        async def work(report: Callable[[object], None]) -> None:
            service = self.coordinator(new_location())
            session = new_session()
            service.attach(session)
            open_turn(session)
            await service.flush()
            add_note(session)
            await service.flush()
            report(service.health(session.id).last_durable_seq)

        async def look() -> None:
            async with self.coordinator(new_location()) as service:
                assert types_of((await service.inspect("session-1")).events) == acknowledged
                for _ in range(2):
                    assert types_of((await service.load("session-1")).events) == acknowledged + CLOSERS

        assert run_until_killed(lambda report: asyncio.run(work(report))) == [len(acknowledged) - 1]
        asyncio.run(asyncio.wait_for(look(), PATIENCE_S))
