"""What ``SessionPersistence`` promises of stored sessions and of those written by id, one test a promise."""

# These are tests, and assertions are how they speak; imports inside a package are relative.
# ruff: noqa: S101, TID252

from __future__ import annotations

from typing import ClassVar

import pytest

from dsh_session import EventRefused, SessionEvent

from .._service import SessionPersistence
from ..errors import SeqConflict, SessionAlreadyStored, SessionBusy, SessionNotFound
from ._material import CLOSERS, HARD_DATA, OPEN_TURN, make_batch, make_event, make_header, open_turn
from ._scenarios import NOTE, add_note, new_session, on_a_loop, stored_events, types_of
from ._workers import OpenStore


class StoredPromises:
    """The promises of reading, loading and appending by id; they use the fixture of ``PersistenceContract``."""

    coordinator: ClassVar[type[SessionPersistence]] = SessionPersistence
    """What is put over the store."""

    @on_a_loop
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
        assert stored_events(new_location) == events

    @on_a_loop
    async def test_s02_nothing_before_the_first_event(self, new_location: OpenStore) -> None:
        """S2: creating, attaching, flushing and appending nothing store nothing, and an empty session is not found."""
        async with self.coordinator(new_location()) as service:
            await service.create(make_header("created"))
            await service.append("created", [])
            session = new_session()
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

    @on_a_loop
    async def test_s03_an_interrupted_turn(self, new_location: OpenStore) -> None:
        """S3: inspecting shows a crashed turn open and changes nothing; a load closes it, once and durably."""
        crashed = new_session()
        open_turn(crashed)
        with new_location().create(crashed.header) as writer:
            writer.append(crashed.batch(0))
        before = new_location().read(crashed.id).revision
        async with self.coordinator(new_location()) as service:
            for _ in range(2):
                stored = await service.inspect(crashed.id)
                assert (list(stored.events), stored.revision) == (list(crashed.events), before)
            loaded = await service.load(crashed.id)
            assert types_of(loaded.events) == OPEN_TURN + CLOSERS
            assert loaded.revision != before
            assert (await service.load(crashed.id)).revision == loaded.revision
            await service.append(crashed.id, [make_event(loaded.next_seq)])
        assert types_of(stored_events(new_location)) == (*OPEN_TURN, *CLOSERS, NOTE)

    @on_a_loop
    async def test_s04_unsettled_calls(self, new_location: OpenStore) -> None:
        """S4: a call that was announced gets a retryable result, one that was started gets an unknown outcome."""
        crashed = new_session()
        open_turn(crashed)
        with new_location().create(crashed.header) as writer:
            writer.append(crashed.batch(0))
        async with self.coordinator(new_location()) as service:
            closers = list((await service.load(crashed.id)).events)[len(OPEN_TURN) :]
            assert types_of(closers) == CLOSERS
            started, announced, _, turn = closers
            assert (started.data["error"]["code"], started.source_event_seqs) == ("TOOL_OUTCOME_UNKNOWN", (4,))
            assert (announced.data["error"]["code"], announced.source_event_seqs) == ("TOOL_NOT_STARTED", None)
            assert turn.data["reason"] == {"kind": "interrupted"}
            resumed = await service.resume(crashed.id)
            assert resumed.state.turn is None
            open_turn(resumed)

    @on_a_loop
    async def test_s05_suffixes(self, new_location: OpenStore) -> None:
        """S5: ``read_from`` gives exactly the stored events from a seq on, none past the end, and changes nothing."""
        async with self.coordinator(new_location()) as service:
            session = new_session(notes=5)
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

    @on_a_loop
    async def test_s06_revisions(self, new_location: OpenStore) -> None:
        """S6: listed revisions are equal while nothing is written, and differ after an append."""
        async with self.coordinator(new_location()) as service:
            session = new_session(notes=1)
            service.attach(session)
            await service.flush()
            revisions = [(await service.list())[0].revision for _ in range(2)]
            add_note(session)
            await service.flush()
            revisions.append((await service.list())[0].revision)
        assert revisions[0] == revisions[1] != revisions[2]

    @on_a_loop
    async def test_s07_seqs(self, new_location: OpenStore) -> None:
        """S7: events must continue the log without a gap; of a batch that does not, nothing is taken."""
        async with self.coordinator(new_location()) as service:
            await service.create(make_header())
            await service.append("session-1", make_batch(0, 2).events)
            for seqs in ((0,), (3,), (2, 4), (2, 2)):
                with pytest.raises(SeqConflict):
                    await service.append("session-1", [make_event(seq) for seq in seqs])
            await service.append("session-1", make_batch(2).events)
        assert stored_events(new_location) == list(make_batch(0, 3).events)

    @on_a_loop
    async def test_s08_what_is_no_event(self, new_location: OpenStore) -> None:
        """S8: of a batch with data that is no JSON, or with an unknown type, nothing is taken, and the log goes on."""
        bad = (
            SessionEvent(type=NOTE, seq=1, time=0, encoded=b"{", ignorable=True),
            SessionEvent(type=NOTE, seq=1, time=0, encoded=b'{"n":NaN}', ignorable=True),
            SessionEvent(type="acme/unknown", seq=1, time=0, encoded=b"{}"),
        )
        async with self.coordinator(new_location()) as service:
            await service.create(make_header())
            for event in bad:
                with pytest.raises(EventRefused):
                    await service.append("session-1", [make_event(0), event])
            await service.append("session-1", make_batch(0, 2).events)
        assert stored_events(new_location) == list(make_batch(0, 2).events)

    @on_a_loop
    async def test_s12_events_are_copied(self, new_location: OpenStore) -> None:
        """S12: what a caller does to its list of events after the call changes nothing that is stored."""
        async with self.coordinator(new_location()) as service:
            await service.create(make_header())
            events = list(make_batch(0, 3).events)
            append = service.append("session-1", events)
            events.clear()
            await append
        assert stored_events(new_location) == list(make_batch(0, 3).events)

    @on_a_loop
    async def test_s19_a_fresh_service(self, new_location: OpenStore) -> None:
        """S19: a service that knows nothing of a stored session appends to it where it ends."""
        for first in range(3):
            async with self.coordinator(new_location()) as service:
                if first == 0:
                    await service.create(make_header())
                await service.append("session-1", make_batch(first).events)
        assert stored_events(new_location) == list(make_batch(0, 3).events)

    @on_a_loop
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

    @on_a_loop
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
        assert stored_events(new_location) == list(make_batch(0).events)
