"""How much may wait to be written, who is refused and who waits (DURABILITY G17)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dsh_persistence import MemoryLogStore, QueueFull, SessionPersistence, WriteFailed, _write_behind
from dsh_persistence._backlog import Backlog
from dsh_session import Session, SessionEvent, SessionHeader, encode_data

Start = Callable[..., SessionPersistence]
NewSession = Callable[..., Session]
Until = Callable[[Callable[[], object]], Awaitable[None]]
FULL = OSError(28, "No space left on device")
KIB = 1 << 10
TYPE = "plugin:test/note"


def fill(session: Session, size_bytes: int = KIB) -> int:
    """Append events until one is refused; return how many there are."""
    with pytest.raises(QueueFull):
        for _ in range(1000):
            session.append(TYPE, "x" * size_bytes)
    return session.next_seq


def test_limit_has_bounds(memory: MemoryLogStore) -> None:
    """A limit below one byte is a mistake."""
    with pytest.raises(ValueError, match="queue_bytes"):
        SessionPersistence(memory, queue_bytes=0)


async def test_beyond_the_limit_nothing_is_taken(start: Start, new_session: NewSession, faults: Any) -> None:
    """G17: with a stalled disk the queue stays below its limit, and what is refused is not in the session."""
    service, session = start(queue_bytes=64 * KIB), new_session()
    service.attach(session)
    faults.gate.clear()
    count = fill(session)
    assert 40 < count < 64
    with pytest.raises(QueueFull) as caught:
        session.append(TYPE, "x" * KIB)
    error = caught.value
    assert (error.session_id, error.limit_bytes, error.last_error) == (session.id, 64 * KIB, None)
    assert 62 * KIB < error.queued_bytes <= 64 * KIB
    assert error.queued_bytes == service.health(session.id).queued_bytes
    assert "await flush" in str(error)
    assert (session.next_seq, len(session.events)) == (count, count)
    with pytest.raises(QueueFull):
        session.extend([SessionEvent(type=TYPE, seq=count, time=0, encoded=b'"%s"' % (b"x" * KIB), ignorable=True)])
    faults.gate.set()
    await service.flush(session.id)
    assert service.health(session.id).queued_bytes == 0
    session.append(TYPE, "x" * KIB)


@pytest.mark.usefixtures("slow_retries")
async def test_a_refusal_names_the_failure(start: Start, new_session: NewSession, faults: Any) -> None:
    """Whoever is refused learns why nothing is written."""
    service, session = start(queue_bytes=64 * KIB), new_session()
    service.attach(session)
    faults.failures = [FULL]
    session.append(TYPE, 0)
    with pytest.raises(WriteFailed):
        await service.flush(session.id)
    fill(session)
    with pytest.raises(QueueFull, match="No space left") as caught:
        session.append(TYPE, "x" * KIB)
    assert caught.value.last_error is FULL


async def test_room_waits(start: Start, new_session: NewSession, faults: Any, memory: MemoryLogStore) -> None:
    """A producer that awaits room before each event is never refused, however slow the disk; it waits instead."""
    service, session = start(queue_bytes=64 * KIB, window_ms=60_000), new_session()
    service.attach(session)
    await service.room(session.id)
    await service.room("nobody")
    for _ in range(300):
        await service.room(session.id)
        session.append(TYPE, "x" * KIB)
    assert len(faults.batches) >= 4
    faults.gate.clear()
    while service.health(session.id).queued_bytes < 33 * KIB:
        session.append(TYPE, "x" * KIB)
    room = asyncio.create_task(service.room(session.id))
    await asyncio.sleep(0.02)
    assert not room.done()
    faults.gate.set()
    await room
    assert service.health(session.id).queued == 0


@pytest.mark.usefixtures("slow_retries")
async def test_room_raises(start: Start, new_session: NewSession, faults: Any) -> None:
    """Where the disk refuses, waiting for room says so, instead of waiting for ever."""
    service, session = start(queue_bytes=64 * KIB, window_ms=60_000), new_session()
    service.attach(session)
    fill(session)
    faults.failures = [FULL]
    with pytest.raises(WriteFailed) as caught:
        await service.room(session.id)
    assert caught.value.__cause__ is FULL
    await service.room(session.id)
    session.append(TYPE, "x" * KIB)


@pytest.mark.usefixtures("slow_retries")
async def test_one_sessions_trouble_is_not_the_others(start: Start, new_session: NewSession, faults: Any) -> None:
    """A session that cannot be written fills the queue, and another one still works, share by share."""
    service, sick, well = start(queue_bytes=64 * KIB, window_ms=60_000), new_session("sick"), new_session("well")
    service.attach(sick)
    service.attach(well)
    fill(sick)
    for _ in range(10):
        well.append(TYPE, "x" * 100 * KIB)  # of any size, where nothing else of its own waits
        with pytest.raises(QueueFull):
            well.append(TYPE, "x" * KIB)
        await service.flush("well")
        well.append(TYPE, 0)
        well.append(TYPE, 1)
        await service.flush("well")
    with pytest.raises(QueueFull):
        sick.append(TYPE, "x" * KIB)


def test_the_default_limit() -> None:
    """By default 64 MiB may wait, and a session's own share of it is 1 MiB."""
    backlog = Backlog(64 << 20)
    backlog.queued_bytes = 64 << 20
    assert not backlog.refuses(1 << 10, (1 << 20) - (1 << 10))
    assert backlog.refuses(1 << 10, 1 << 20)
    assert not backlog.refuses(1 << 24, 0)


async def test_appending_by_id_waits(start: Start, memory: MemoryLogStore, faults: Any, until: Until) -> None:
    """Appends by id are not refused for want of room: they wait until there is some, and keep their order."""
    service = start(queue_bytes=8 * KIB)
    await service.create(SessionHeader(id="a", created_at=0))
    faults.gate.clear()

    def note(seq: int) -> SessionEvent:
        return SessionEvent(type=TYPE, seq=seq, time=0, encoded=encode_data(TYPE, "x" * KIB), ignorable=True)

    appends = [asyncio.create_task(service.append("a", [note(seq)])) for seq in range(40)]
    await until(lambda: faults.batches)
    await asyncio.sleep(0.01)
    assert service.health("a").queued_bytes < 8 * KIB
    faults.gate.set()
    await asyncio.gather(*appends)
    assert [event.seq for event in memory.read("a").events] == list(range(40))


async def test_long_queues_are_written_in_bounded_batches(
    start: Start, new_session: NewSession, faults: Any, memory: MemoryLogStore
) -> None:
    """A batch takes 8 MiB at most, or one larger event; the rest follows at once, whatever the window."""
    service, session = start(window_ms=60_000), new_session()
    service.attach(session)
    for size_mib in (3, 3, 3, 12, 1, 8, 2):
        session.append(TYPE, "x" * (size_mib << 20))
    faults.gate.clear()
    flush = asyncio.create_task(service.flush(session.id))
    await asyncio.sleep(0.01)
    flush.cancel()  # nobody waits any more
    faults.gate.set()
    while service.health(session.id).queued:
        await asyncio.sleep(0.01)
    assert faults.batches == [(0, 2), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1)]
    assert list(memory.read(session.id).events) == list(session.events)
    assert service.health(session.id).queued_bytes == 0


@pytest.mark.usefixtures("slow_retries")
async def test_a_huge_queue_is_retained(
    start: Start, new_session: NewSession, faults: Any, memory: MemoryLogStore
) -> None:
    """WB 253: 150,000 events whose write failed are kept, in order, and written by the next flush."""
    service, session = start(window_ms=60_000), new_session()
    service.attach(session)
    encoded = encode_data(TYPE, {})
    session.extend(
        [SessionEvent(type=TYPE, seq=seq, time=0, encoded=encoded, ignorable=True) for seq in range(150_000)]
    )
    faults.failures = [FULL]
    with pytest.raises(WriteFailed) as caught:
        await service.flush(session.id)
    assert caught.value.queued == 150_000
    await service.flush(session.id)
    assert [event.seq for event in memory.read(session.id).events] == list(range(150_000))
    assert max(size for _, size in faults.batches) <= _write_behind.BATCH_BYTES // 256


async def test_the_queue_of_a_released_session_counts_no_more(
    start: Start, new_session: NewSession, faults: Any, until: Until
) -> None:
    """What a service gives up unwritten takes no room from the others."""
    service, session = start(queue_bytes=64 * KIB), new_session()
    service.attach(session)
    faults.gate.clear()
    session.append(TYPE, "x" * KIB)
    await until(lambda: faults.batches)
    fill(session)
    close = asyncio.create_task(service.close())
    await asyncio.sleep(0.01)
    close.cancel()
    await asyncio.sleep(0.01)
    assert service._backlog.queued_bytes == 0
    faults.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await close
    assert service._backlog.queued_bytes == 0
    session.append(TYPE, "x" * KIB)  # and nobody guards the session any more
