"""Who may follow a session, and what becomes of a log that is there already (BEHAVIOUR §9.4, §9.7)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dsh_persistence import (
    LiveTurnOpen,
    MemoryLogStore,
    SessionAlreadyStored,
    SessionBusy,
    SessionPersistence,
    WriteFailed,
)
from dsh_session import EncodedBatch, Session, SessionEvent, SessionExists, SessionHeader, SessionMeta, Sessions

Start = Callable[..., SessionPersistence]
NewSession = Callable[..., Session]
Until = Callable[[Callable[[], object]], Awaitable[None]]
FULL = OSError(28, "No space left on device")


def note(session: Session, count: int = 1) -> None:
    for _ in range(count):
        session.append("plugin:test/note", {"n": session.next_seq})


def store(memory: MemoryLogStore, session: Session, count: int | None = None) -> None:
    """Store the first events of a session, as an earlier service did."""
    with memory.create(session.header) as writer:
        writer.append(EncodedBatch(first_seq=0, events=tuple(session.events[:count])))


def stored(memory: MemoryLogStore, session_id: str = "session-1") -> list[SessionEvent]:
    return list(memory.read(session_id).events)


async def test_adoption_of_a_stored_session(
    start: Start, new_session: NewSession, memory: MemoryLogStore, faults: Any
) -> None:
    """CC 879: a live session that is stored already is followed from there on; nothing is written twice."""
    service, session = start(), new_session()
    note(session, 3)
    store(memory, session)
    before = memory.read(session.id).revision
    service.attach(session)
    await service.flush(session.id)
    assert memory.read(session.id).revision == before
    note(session)
    await service.flush(session.id)
    assert (stored(memory), faults.batches[-1]) == (list(session.events), (3, 1))
    health = service.health(session.id)
    assert (health.last_durable_seq, health.queued, health.queued_bytes, health.last_error) == (3, 0, 0, None)


async def test_adoption_writes_the_suffix(
    start: Start, new_session: NewSession, memory: MemoryLogStore, faults: Any
) -> None:
    """CC 915, 947: what the stored log lacks is written, its tail repaired, and the turn in progress is not closed."""
    service, session = start(), new_session()
    session.append("turn/start", {"turn": 1})
    session.append("step/start", {"turn": 1, "step": 1})
    store(memory, session)
    note(session, 2)
    service.attach(session)
    await service.flush(session.id)
    assert stored(memory) == list(session.events)
    assert (session.state.turn, faults.repaired, faults.batches[-1]) == (1, [session.id], (2, 2))
    await service.detach(session)
    memory.open(session.id).close()


@pytest.mark.usefixtures("slow_retries")
@pytest.mark.parametrize(
    ("cwd", "begins", "difference"),
    [
        ("/w", 2, "its event 2 is not the live session's"),
        ("/w", 0, "its event 0 is not the live session's"),
        ("/other", 3, "it belongs to /w, the live session to /other"),
        (None, 3, "it belongs to /w, the live session to no directory"),
    ],
)
async def test_a_stored_log_of_another_session(
    start: Start, new_session: NewSession, memory: MemoryLogStore, *, cwd: str | None, begins: int, difference: str
) -> None:
    """CC 980, 1111, 1195-1231: it shows at the flush and in the health, never to the producer; the log is untouched."""
    service, other = start(), new_session()
    note(other, 3)
    store(memory, other)
    session = new_session(cwd=cwd)
    session.extend(other.events[:begins])
    for number in range(3):
        session.append("plugin:test/note", {"mine": number})
    service.attach(session)
    with pytest.raises(WriteFailed, match=difference) as caught:
        await service.flush(session.id)
    assert isinstance(caught.value.__cause__, SessionAlreadyStored)
    assert caught.value.__cause__.difference == difference
    note(session)
    assert service.health(session.id).last_error is caught.value.__cause__
    assert (stored(memory), memory.read(session.id).header) == (list(other.events), other.header)
    memory.open(session.id).close()  # a claim that came to nothing is given up


@pytest.mark.usefixtures("slow_retries")
async def test_a_stored_log_that_is_longer(start: Start, new_session: NewSession, memory: MemoryLogStore) -> None:
    """A log that goes on where the live session has not been is another one's."""
    service, other, session = start(), new_session(), new_session()
    note(other, 3)
    store(memory, other)
    session.extend(other.events[:2])
    service.attach(session)
    with pytest.raises(WriteFailed, match="it has 3 events, the live session 2"):
        await service.flush(session.id)


@pytest.mark.usefixtures("quick_retries")
async def test_adoption_waits_for_the_holder(
    start: Start, new_session: NewSession, memory: MemoryLogStore, until: Until
) -> None:
    """While somebody else holds the stored log the events wait, and are written when it is free."""
    service, session = start(), new_session()
    note(session, 2)
    store(memory, session, 1)
    with memory.open(session.id):
        service.attach(session)
        await until(lambda: isinstance(service.health(session.id).last_error, SessionBusy))
        note(session)
    await until(lambda: not service.health(session.id).queued)
    assert stored(memory) == list(session.events)


async def test_events_during_an_adoption(
    start: Start, new_session: NewSession, memory: MemoryLogStore, faults: Any, until: Until
) -> None:
    """CC 1403: events and flushes that arrive while the log is being opened are neither lost nor written twice."""
    service, session = start(), new_session()
    note(session, 2)
    store(memory, session, 1)
    faults.opening.clear()
    service.attach(session)
    await until(lambda: faults.batches)
    flush = asyncio.create_task(service.flush(session.id))
    note(session, 2)
    await asyncio.sleep(0.01)
    faults.opening.set()
    await flush
    assert stored(memory) == list(session.events)


async def test_what_an_adopted_log_lacks_waits_for_no_window(
    start: Start, new_session: NewSession, memory: MemoryLogStore, until: Until
) -> None:
    """G18: opening the log is part of the write, so the rest follows at once, though nobody waits any more."""
    service, session = start(window_ms=2**31 - 1), new_session()
    note(session, 3)
    store(memory, session, 1)
    service.attach(session)
    flush = asyncio.create_task(service.flush(session.id))
    await asyncio.sleep(0)
    flush.cancel()
    await until(lambda: service.health(session.id).queued == 0)
    assert stored(memory) == list(session.events)


async def test_no_adoption_after_the_end(
    start: Start, new_session: NewSession, memory: MemoryLogStore, faults: Any, until: Until
) -> None:
    """A service that is being closed opens no log any more: nobody would give up the claim."""
    service, session = start(), new_session()
    note(session, 2)
    store(memory, session, 1)
    faults.gate.clear()
    service.attach(session)
    await until(lambda: faults.batches)
    close = asyncio.create_task(service.close())
    await asyncio.sleep(0.01)
    close.cancel()
    await asyncio.sleep(0.01)
    faults.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await close
    await asyncio.sleep(0.05)
    assert (faults.repaired, faults.closed) == ([], [session.id, "store"])
    memory.open(session.id).close()


async def test_release_during_an_adoption(
    start: Start, new_session: NewSession, memory: MemoryLogStore, faults: Any, until: Until
) -> None:
    """A service that is closed while it opens a log gives the claim up once it has it."""
    service, session = start(), new_session()
    note(session, 2)
    store(memory, session, 1)
    faults.opening.clear()
    service.attach(session)
    await until(faults.reached.is_set)
    close = asyncio.create_task(service.close())
    await asyncio.sleep(0.01)
    close.cancel()
    await asyncio.sleep(0.01)
    faults.opening.set()
    with pytest.raises(asyncio.CancelledError):
        await close
    memory.open(session.id).close()


async def test_a_live_session_takes_over(
    start: Start, new_session: NewSession, memory: MemoryLogStore, faults: Any
) -> None:
    """CC 1135, 1157: what append was given, and goes on in a live session, is claimed; only the rest is written."""
    service, session = start(), new_session()
    note(session, 2)
    header = SessionHeader(id=session.id, created_at=99, cwd="/w", agent_preset="stored")
    await service.create(header)
    await service.append(session.id, list(session.events))
    service.attach(session)
    await service.flush(session.id)
    assert faults.batches == [(0, 2)]
    note(session, 2)
    await service.flush(session.id)
    assert (faults.batches[1:], stored(memory)) == ([(2, 2)], list(session.events))
    assert memory.read(session.id).header == header
    with pytest.raises(SessionBusy):
        await service.append(session.id, list(session.events))
    await service.detach(session)
    memory.open(session.id).close()


async def test_a_live_session_takes_over_nothing(start: Start, new_session: NewSession, memory: MemoryLogStore) -> None:
    """CC 1091: a session that was only created is claimed, and the live one's events written from the first on."""
    service, session = start(), new_session()
    note(session, 2)
    await service.create(session.header)
    service.attach(session)
    await service.flush()
    assert stored(memory) == list(session.events)


async def test_a_live_session_takes_over_what_is_unwritten(
    start: Start, new_session: NewSession, memory: MemoryLogStore, faults: Any, until: Until
) -> None:
    """A write under way, or one that failed, is the live session's from then on."""
    service, session = start(), new_session()
    note(session, 3)
    await service.create(session.header)
    faults.gate.clear()
    faults.failures = [FULL]
    append = asyncio.create_task(service.append(session.id, list(session.events[:2])))
    await until(lambda: faults.batches)
    service.attach(session)
    faults.gate.set()
    with pytest.raises(WriteFailed):
        await append
    await service.flush(session.id)
    assert stored(memory) == list(session.events)
    assert service.health(session.id).queued_bytes == 0


@pytest.mark.parametrize(
    ("cwd", "first", "difference"),
    [("/w", {"n": "x"}, "event 0"), ("/x", {"n": 0}, "belongs to /w"), (None, {"n": 0}, "no directory")],
)
async def test_a_take_over_that_collides(
    start: Start, new_session: NewSession, memory: MemoryLogStore, *, cwd: str | None, first: Any, difference: str
) -> None:
    """CC 1111, 1195-1231: a session that does not go on from what append was given is refused, and appends go on."""
    service, mine = start(), new_session()
    note(mine, 2)
    await service.create(mine.header)
    await service.append(mine.id, [mine.events[0]])
    session = new_session(cwd=cwd)
    session.append("plugin:test/note", first)
    with pytest.raises(SessionAlreadyStored, match=difference):
        service.attach(session)
    await service.append(mine.id, [mine.events[1]])
    assert stored(memory) == list(mine.events)


async def test_an_unused_session_frees_its_id(start: Start, new_session: NewSession, memory: MemoryLogStore) -> None:
    """CC 1006: one that was never written and has no events gives way, and learns of it if it is used after all."""
    service, first, second = start(), new_session(), new_session()
    service.attach(first)
    service.attach(second)
    note(second)
    with pytest.raises(SessionBusy, match="took over"):
        note(first)
    with pytest.raises(SessionBusy, match="another live session"):
        service.attach(new_session())
    await service.flush()
    assert (first.next_seq, stored(memory)) == (0, list(second.events))


async def test_a_detached_id_is_stored(start: Start, new_session: NewSession, memory: MemoryLogStore) -> None:
    """CC 1035: detaching drains before the claim ends, and a new session of that id then collides."""
    service, session = start(window_ms=60_000), new_session()
    service.attach(session)
    note(session, 2)
    await service.detach(session)
    assert stored(memory) == list(session.events)
    reuse = new_session()
    reuse.append("plugin:test/note", "another")
    service.attach(reuse)
    with pytest.raises(WriteFailed):
        await service.flush(reuse.id)
    assert stored(memory) == list(session.events)


async def test_a_load_waits_for_a_detach(
    start: Start, new_session: NewSession, memory: MemoryLogStore, faults: Any, until: Until
) -> None:
    """Spec 1410 ff.: a load that arrives while a session is let go of waits for it; an attach is told."""
    service, session = start(), new_session()
    service.attach(session)
    note(session)
    faults.gate.clear()
    detach = asyncio.create_task(service.detach(session))
    await until(lambda: faults.batches)
    load = asyncio.create_task(service.load(session.id))
    for one in (new_session(), session):
        with pytest.raises(SessionBusy, match="a detach under way"):
            service.attach(one)
    faults.gate.set()
    await detach
    assert list((await load).events) == list(session.events)
    await service.detach(session)


async def test_publication_during_a_load_is_rolled_back(
    start: Start, new_session: NewSession, memory: MemoryLogStore, faults: Any, until: Until
) -> None:
    """Spec 546, 642: while an id is loaded or resumed no live session can be published under it, and none stays."""
    session = new_session()
    note(session)
    store(memory, session)
    service, sessions = start(), Sessions()
    stop = sessions.observe(service.attach)
    for operation in (service.load, service.resume):
        faults.reached.clear()
        faults.opening.clear()
        opening = asyncio.create_task(operation(session.id))
        await until(faults.reached.is_set)
        with pytest.raises(SessionBusy):
            sessions.create(session.id, meta=SessionMeta(cwd="/w"))
        assert (sessions.get(session.id), list(sessions)) == (None, [])
        faults.opening.set()
        result = await opening
    # A resumed session comes in through the same door: it is followed already, so nothing happens.
    sessions.enter(result)
    assert sessions.get(session.id) is result
    with pytest.raises(SessionExists):
        sessions.create(session.id, meta=SessionMeta(cwd="/w"))
    note(result)
    await service.flush()
    assert stored(memory) == list(result.events)
    stop()


async def test_a_forks_seed_is_stored_once(start: Start, new_session: NewSession, memory: MemoryLogStore) -> None:
    """CC 774, 797: a fork's seed and its mark are written when it is published; a resume does not write them again."""
    service, sessions = start(), Sessions(new_id=lambda: "fork")
    sessions.observe(service.attach)
    parent = new_session()
    note(parent, 2)
    fork = sessions.fork(parent)
    await service.flush("fork")
    assert [event.type for event in stored(memory, "fork")] == ["plugin:test/note"] * 2 + ["session/end-seed"]
    await service.detach(fork)
    resumed = await service.resume("fork")
    note(resumed)
    await service.flush("fork")
    assert (stored(memory, "fork"), resumed.next_seq) == (list(resumed.events), 4)


async def test_load_rechecks_when_its_turn_comes(
    start: Start, new_session: NewSession, memory: MemoryLogStore, faults: Any, until: Until
) -> None:
    """CC 278: a load that waits behind an append finds that the session has begun to live meanwhile."""
    service, session = start(), new_session()
    note(session)
    store(memory, session)
    note(session)
    faults.opening.clear()
    append = asyncio.create_task(service.append(session.id, [session.events[1]]))
    await until(faults.reached.is_set)
    load = asyncio.create_task(service.load(session.id))
    await asyncio.sleep(0.01)
    faults.gate.clear()
    faults.opening.set()
    await until(lambda: faults.batches)
    service.attach(session)
    session.append("turn/start", {"turn": 1})
    faults.gate.set()
    await append
    with pytest.raises(LiveTurnOpen):
        await load
    session.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    assert list((await service.load(session.id)).events) == list(session.events)


async def test_load_never_returns_a_turn_that_began_meanwhile(
    start: Start, new_session: NewSession, memory: MemoryLogStore, faults: Any, until: Until
) -> None:
    """CC 245: a turn that opens, and is even written, while a load flushes is no part of a balanced log."""
    service, session = start(), new_session()
    service.attach(session)
    note(session)
    faults.gate.clear()
    load = asyncio.create_task(service.load(session.id))
    await until(lambda: faults.batches)
    session.append("turn/start", {"turn": 1})
    faults.gate.set()
    with pytest.raises(LiveTurnOpen):
        await load
    session.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    await service.detach(session)
    assert len((await service.load(session.id)).events) == 3
