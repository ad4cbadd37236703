"""The write-behind rules (BEHAVIOUR §9.1), seen through the coordinator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dsh_persistence import ForeignChange, Health, MemoryLogStore, SessionPersistence, WriteFailed, _write_behind
from dsh_session import Session

Start = Callable[..., SessionPersistence]
NewSession = Callable[..., Session]
Until = Callable[[Callable[[], object]], Awaitable[None]]
FULL = OSError(28, "No space left on device")


def note(session: Session, count: int = 1) -> None:
    for _ in range(count):
        session.append("plugin:test/note", {"n": session.next_seq})


def stored(memory: MemoryLogStore, session_id: str = "session-1") -> list[int]:
    return [event.data["n"] for event in memory.read(session_id).events]


@pytest.mark.parametrize("window_ms", [-1, 2**31, -0.5])
def test_window_has_bounds(memory: MemoryLogStore, window_ms: float) -> None:
    """9.1: the window is a number of milliseconds up to 2147483647; 0 is allowed and means at once."""
    with pytest.raises(ValueError, match="window_ms"):
        SessionPersistence(memory, window_ms=window_ms)


async def test_events_of_one_burst_share_a_batch(
    start: Start, new_session: NewSession, faults: Any, memory: MemoryLogStore, until: Until
) -> None:
    """Window 0: the write begins with the loop's next turn, so what is appended in one go is one batch."""
    service, session = start(), new_session()
    service.attach(session)
    note(session, 3)
    assert faults.batches == []
    await until(lambda: service.health(session.id).queued == 0)
    assert (faults.batches, stored(memory)) == ([(0, 3)], [0, 1, 2])


async def test_a_window_gathers_events(start: Start, new_session: NewSession, faults: Any, until: Until) -> None:
    """9.2: the first event opens one window; later ones join it and never postpone its end."""
    service, session = start(window_ms=150), new_session()
    service.attach(session)
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not faults.batches:
        note(session)
        await asyncio.sleep(0.02)
        assert loop.time() - began < 20
    first, size = faults.batches[0]
    assert first == 0
    assert 2 <= size
    await until(lambda: service.health(session.id).queued == 0)


async def test_a_long_window_waits_for_flush(start: Start, new_session: NewSession, faults: Any) -> None:
    """9.2, 9.7: inside the window nothing is written; a flush does not wait for its end."""
    service, session = start(window_ms=2**31 - 1), new_session()
    service.attach(session)
    note(session, 2)
    await asyncio.sleep(0.05)
    assert faults.batches == []
    await service.flush(session.id)
    assert faults.batches == [(0, 2)]


async def test_one_write_at_a_time(
    start: Start, new_session: NewSession, faults: Any, memory: MemoryLogStore, until: Until
) -> None:
    """9.3, 9.4: events that arrive during a write form the follow-up batch, which begins when the write has ended."""
    service, session = start(), new_session()
    service.attach(session)
    faults.gate.clear()
    note(session)
    await until(lambda: faults.batches == [(0, 1)])
    for _ in range(3):
        note(session)
        await asyncio.sleep(0.01)
    assert faults.batches == [(0, 1)]
    faults.gate.set()
    await until(lambda: service.health(session.id).queued == 0)
    assert (faults.batches, stored(memory)) == ([(0, 1), (1, 3)], [0, 1, 2, 3])


@pytest.mark.usefixtures("quick_retries")
async def test_a_failed_batch_keeps_its_place(
    start: Start, new_session: NewSession, faults: Any, memory: MemoryLogStore, until: Until
) -> None:
    """9.5, CASES A20: a failed batch stays in front and is retried by itself, with what came meanwhile behind it."""
    service, session = start(), new_session()
    service.attach(session)
    faults.failures = [FULL, FULL]
    note(session, 2)
    await until(lambda: service.health(session.id).last_error is FULL)
    note(session)
    await until(lambda: service.health(session.id).queued == 0)
    assert stored(memory) == [0, 1, 2]
    assert [first for first, _ in faults.batches] == [0, 0, 0]
    assert service.health(session.id).last_error is None


@pytest.mark.usefixtures("quick_retries")
async def test_the_producer_sees_one_warning(
    start: Start, new_session: NewSession, faults: Any, caplog: pytest.LogCaptureFixture, until: Until
) -> None:
    """9.5: a background failure is logged once for a row of failures; appending never raises."""
    service, session = start(), new_session()
    service.attach(session)
    faults.failures = [FULL, FULL, FULL]
    with caplog.at_level(logging.WARNING, logger="dsh_persistence"):
        note(session)
        await until(lambda: service.health(session.id).queued == 0)
    assert [record.getMessage() for record in caplog.records] == [
        "writing session session-1 failed, 1 event(s) are kept and retried: [Errno 28] No space left on device"
    ]


@pytest.mark.usefixtures("slow_retries")
async def test_flush_retries_at_once(
    start: Start, new_session: NewSession, faults: Any, memory: MemoryLogStore
) -> None:
    """9.6, 9.7: a flush does not wait for the next retry; when its own attempt fails it raises and keeps the events."""
    service, session = start(), new_session()
    service.attach(session)
    faults.failures = [FULL, FULL]
    note(session, 2)
    for _ in range(2):
        with pytest.raises(WriteFailed) as caught:
            await service.flush(session.id)
        assert (caught.value.session_id, caught.value.queued, caught.value.__cause__) == ("session-1", 2, FULL)
    await service.flush(session.id)
    assert stored(memory) == [0, 1]


@pytest.mark.usefixtures("slow_retries")
async def test_flush_ignores_the_failure_of_an_earlier_write(
    start: Start, new_session: NewSession, faults: Any, memory: MemoryLogStore, until: Until
) -> None:
    """9.7: a flush waits out the write under way and ignores its failure; what counts is an attempt of its own."""
    service, session = start(), new_session()
    service.attach(session)
    faults.gate.clear()
    faults.failures = [FULL]
    note(session)
    await until(lambda: faults.batches == [(0, 1)])
    flush = asyncio.create_task(service.flush(session.id))
    await asyncio.sleep(0)
    faults.gate.set()
    await flush
    assert (faults.batches, stored(memory)) == ([(0, 1), (0, 1)], [0])


async def test_flush_covers_what_arrives_meanwhile(
    start: Start, new_session: NewSession, faults: Any, memory: MemoryLogStore, until: Until
) -> None:
    """9.7, 9.8: a flush ends when nothing is queued, events admitted during it included; then windows apply again."""
    service, session = start(window_ms=2**31 - 1), new_session()
    service.attach(session)
    faults.gate.clear()
    note(session)
    flush = asyncio.create_task(service.flush(session.id))
    await until(lambda: faults.batches == [(0, 1)])
    note(session, 2)
    faults.gate.set()
    await flush
    assert (faults.batches, stored(memory)) == ([(0, 1), (1, 2)], [0, 1, 2])
    note(session)
    await asyncio.sleep(0.05)
    assert len(faults.batches) == 2


@pytest.mark.usefixtures("slow_retries")
async def test_concurrent_flushes_share_attempts(start: Start, new_session: NewSession, faults: Any) -> None:
    """9.7: each flush is owed an attempt that began after its call, and those that wait together share one."""
    service, session = start(window_ms=60_000), new_session()
    service.attach(session)
    faults.failures = [FULL]
    note(session)
    results = await asyncio.gather(*(service.flush(session.id) for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [WriteFailed, type(None), type(None)]
    assert faults.batches == [(0, 1), (0, 1)]


async def test_flush_of_an_empty_session_writes_nothing(
    start: Start, new_session: NewSession, faults: Any, memory: MemoryLogStore
) -> None:
    """A session without events stays unstored, whoever flushes."""
    service, session = start(), new_session()
    service.attach(session)
    await service.flush(session.id)
    await service.flush()
    await service.flush("nobody follows this one")
    assert (faults.batches, list(memory.list())) == ([], [])


async def test_a_cancelled_flush_does_not_cancel_the_write(
    start: Start, new_session: NewSession, faults: Any, memory: MemoryLogStore, until: Until
) -> None:
    """Cancelling an await stops the waiting only: the write ends by itself, and others go on waiting for it."""
    service, session = start(window_ms=60_000), new_session()
    service.attach(session)
    faults.gate.clear()
    note(session)
    cancelled = asyncio.create_task(service.flush(session.id))
    patient = asyncio.create_task(service.flush(session.id))
    await until(lambda: faults.batches == [(0, 1)])
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    faults.gate.set()
    await patient
    assert stored(memory) == [0]


@pytest.mark.usefixtures("slow_retries")
async def test_flush_of_all(start: Start, new_session: NewSession, faults: Any, memory: MemoryLogStore) -> None:
    """Flushing everything tries every session; what fails is raised together, the others are durable."""
    service = start(window_ms=60_000)
    sessions = [new_session(f"session-{number}") for number in range(3)]
    for session in sessions:
        service.attach(session)
        note(session)
    faults.failures = [FULL, None, FULL]
    with pytest.raises(ExceptionGroup) as caught:
        await service.flush()
    assert [type(error) for error in caught.value.exceptions] == [WriteFailed, WriteFailed]
    assert len(list(memory.list())) == 1
    await service.flush()
    assert len(list(memory.list())) == 3


@pytest.mark.usefixtures("quick_retries")
async def test_health_is_reported(start: Start, new_session: NewSession, faults: Any, until: Until) -> None:
    """Listeners hear each failure and the first success after it; a listener that raises harms nobody."""
    service, session = start(), new_session()
    heard: list[Health] = []

    def failing(health: Health) -> None:
        raise LookupError("broken listener")

    service.subscribe(failing)
    dispose = service.subscribe(heard.append)
    service.attach(session)
    assert service.health(session.id) == Health(
        session_id="session-1", last_durable_seq=-1, queued=0, queued_bytes=0, last_error=None
    )
    faults.failures = [FULL, FULL]
    note(session, 2)
    await until(lambda: service.health(session.id).queued == 0)
    note(session)
    await service.flush(session.id)
    assert [(one.last_durable_seq, one.queued, one.last_error) for one in heard] == [
        (-1, 2, FULL),
        (-1, 2, FULL),
        (1, 0, None),
    ]
    dispose()
    dispose()
    faults.failures = [FULL]
    note(session)
    with pytest.raises(WriteFailed):
        await service.flush(session.id)
    assert len(heard) == 3


@pytest.mark.parametrize("end", ["detach", "close"])
async def test_nothing_is_lost_between_flush_and_end(
    start: Start, new_session: NewSession, memory: MemoryLogStore, end: str
) -> None:
    """An event that arrives just as the last write has ended is written before the claim is given up."""
    service, session = start(window_ms=60_000), new_session()
    service.attach(session)
    note(session)

    async def note_after_flush() -> None:
        await service.flush(session.id)
        note(session)

    await asyncio.gather(note_after_flush(), service.detach(session) if end == "detach" else service.close())
    assert stored(memory) == [0, 1]
    memory.open(session.id).close()


async def test_what_time_does_not_cure_is_not_tried_by_the_clock(
    start: Start, new_session: NewSession, faults: Any, monkeypatch: pytest.MonkeyPatch, memory: MemoryLogStore
) -> None:
    """A log that changed under its writer stays changed: only an append or a flush tries again, and then it shows."""
    monkeypatch.setattr(_write_behind, "RETRY_DELAYS_S", (0.01,))
    service, session = start(), new_session()
    service.attach(session)
    faults.failures = [ForeignChange("/x", "it was removed"), FULL]
    note(session)
    with pytest.raises(WriteFailed, match="are kept: /x: it was removed"):
        await service.flush(session.id)
    await asyncio.sleep(0.2)
    assert len(faults.batches) == 1
    with pytest.raises(WriteFailed, match="No space"):  # and this one is tried again by itself
        await service.flush(session.id)
    while service.health(session.id).queued:
        await asyncio.sleep(0.01)
    assert (stored(memory), len(faults.batches)) == ([0], 3)
