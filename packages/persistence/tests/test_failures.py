"""Writes that fail, once or often, or in a way that leaves open what became of them (DURABILITY G10, G12)."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dsh_persistence import (
    ForeignChange,
    MemoryLogStore,
    OutcomeUnknown,
    RowTooLarge,
    SeqConflict,
    SessionPersistence,
    WriteFailed,
    _write_behind,
)
from dsh_session import Session, SessionEvent

Start = Callable[..., SessionPersistence]
NewSession = Callable[..., Session]
Until = Callable[[Callable[[], object]], Awaitable[None]]
FULL = OSError(28, "No space left on device")
UNKNOWN = OutcomeUnknown("/log", "the rollback failed too")


def note(session: Session, count: int = 1) -> None:
    for _ in range(count):
        session.append("plugin:test/note", {"n": session.next_seq})


def stored(memory: MemoryLogStore, session_id: str = "session-1") -> list[SessionEvent]:
    return list(memory.read(session_id).events)


@pytest.mark.usefixtures("slow_retries")
@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR])
async def test_a_failed_flush_claims_nothing(
    start: Start, new_session: NewSession, memory: MemoryLogStore, faults: Any, *, times: int, number: int
) -> None:
    """G10: each failure raises, the events stay in order, and a later flush stores them once."""
    service, session = start(window_ms=60_000), new_session()
    service.attach(session)
    note(session)
    await service.flush()
    faults.failures = [OSError(number, "it failed") for _ in range(times)]
    for count in range(times):
        note(session)
        with pytest.raises(WriteFailed) as caught:
            await service.flush(session.id)
        assert (caught.value.queued, service.health(session.id).last_durable_seq) == (count + 1, 0)
    await service.flush(session.id)
    assert stored(memory) == list(session.events)


@pytest.mark.usefixtures("slow_retries")
@pytest.mark.parametrize("written", [True, False])
async def test_an_unknown_outcome_is_settled_first(
    start: Start, new_session: NewSession, memory: MemoryLogStore, faults: Any, *, written: bool
) -> None:
    """G12: the very same batch is sent again before anything new is written, whether it is there already or not."""
    service, session = start(window_ms=60_000), new_session()
    service.attach(session)
    note(session)
    await service.flush()
    faults.failures = [faults.after_write(UNKNOWN) if written else UNKNOWN]
    note(session, 2)
    with pytest.raises(WriteFailed) as caught:
        await service.flush(session.id)
    assert (caught.value.__cause__, caught.value.queued) == (UNKNOWN, 2)
    note(session, 3)
    await service.flush(session.id)
    assert (faults.batches, faults.resent) == ([(0, 1), (1, 2), (3, 3)], [(1, 2)])
    assert stored(memory) == list(session.events)


@pytest.mark.usefixtures("slow_retries")
async def test_an_unknown_outcome_stays_unknown_until_it_is_settled(
    start: Start, new_session: NewSession, memory: MemoryLogStore, faults: Any
) -> None:
    """G12: sending again may fail as well, in any way; nothing else is tried before it has succeeded."""
    service, session = start(window_ms=60_000), new_session()
    service.attach(session)
    faults.failures = [faults.after_write(UNKNOWN), FULL, FULL, UNKNOWN, faults.after_write(UNKNOWN), FULL]
    for _ in range(6):
        note(session)
        with pytest.raises(WriteFailed):
            await service.flush(session.id)
    await service.flush(session.id)
    assert (faults.batches, faults.resent) == ([(0, 1), (1, 5)], [(0, 1)] * 6)
    assert stored(memory) == list(session.events)


@pytest.mark.usefixtures("quick_retries")
async def test_an_unknown_outcome_is_settled_by_the_clock(
    start: Start, new_session: NewSession, memory: MemoryLogStore, faults: Any, until: Until
) -> None:
    """G12: without a new event and without a flush the session becomes writable again, also after a first batch."""
    service, session = start(), new_session()
    service.attach(session)
    faults.failures = [faults.after_write(UNKNOWN), UNKNOWN]
    note(session)
    await until(lambda: service.health(session.id).last_error is None and not service.health(session.id).queued)
    assert stored(memory) == list(session.events)


@pytest.mark.usefixtures("slow_retries")
async def test_a_resume_whose_outcome_is_unknown(
    start: Start, new_session: NewSession, memory: MemoryLogStore, faults: Any
) -> None:
    """G8, G12: closers that may or may not be there are found, or written, by the next resume; never twice."""
    session = new_session()
    session.append("turn/start", {"turn": 1})
    with memory.create(session.header) as writer:
        writer.append(session.batch(0))
    service = start()
    faults.failures = [faults.after_write(UNKNOWN)]
    with pytest.raises(WriteFailed):
        await service.resume(session.id)
    resumed = await service.resume(session.id)
    assert [event.type for event in resumed.events] == ["turn/start", "turn/end", "session/end-seed"]


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize(
    "error",
    [
        ForeignChange("/log", "it was removed"),
        RowTooLarge("/log", limit_bytes=16 << 20, seq=0),
        SeqConflict("session-1", expected=4, found=0),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_lasting_failures_wait_for_somebody(
    start: Start, new_session: NewSession, faults: Any, until: Until, *, error: Exception, caplog: Any
) -> None:
    """What time does not cure is tried again by an append, after a pause, and by a flush, never by the clock alone."""
    service, session = start(), new_session()
    service.attach(session)
    faults.failures = [error, error, error]
    with caplog.at_level(logging.WARNING, logger="dsh_persistence"):
        note(session)
        await until(lambda: service.health(session.id).last_error is error)
        await asyncio.sleep(0.05)
    assert len(faults.batches) == 1
    assert "1 event(s) are kept: " in caplog.text
    note(session)
    await until(lambda: len(faults.batches) == 2)
    with pytest.raises(WriteFailed):
        await service.flush(session.id)
    await service.flush(session.id)


async def test_appends_do_not_hurry_a_failing_disk(
    start: Start, new_session: NewSession, faults: Any, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    """While writes fail, new events join the queue and wait for the next try; they do not bring it forward."""
    monkeypatch.setattr(_write_behind, "RETRY_DELAYS_S", (0.3, 0.3))
    service, session = start(), new_session()
    service.attach(session)
    faults.failures = [FULL, ForeignChange("/log", "it was removed")]
    note(session)
    await until(lambda: service.health(session.id).last_error)
    for tries in (1, 2):
        await until(lambda tries=tries: len(faults.batches) == tries)  # type: ignore[misc]
        await until(lambda: service.health(session.id).last_error)
        for _ in range(5):
            note(session)
            await asyncio.sleep(0.01)
        assert len(faults.batches) == tries
    await until(lambda: not service.health(session.id).queued)
    assert faults.batches == [(0, 1), (0, 6), (0, 11)]


@pytest.mark.usefixtures("slow_retries")
async def test_close_raises_for_an_unknown_outcome(
    start: Start, new_session: NewSession, memory: MemoryLogStore, faults: Any
) -> None:
    """What may be unwritten is unwritten as far as a close can say; the claim is given up all the same."""
    service, session = start(window_ms=60_000), new_session()
    service.attach(session)
    faults.failures = [faults.after_write(UNKNOWN), FULL]
    note(session)
    with pytest.raises(WriteFailed):
        await service.flush(session.id)
    with pytest.raises(ExceptionGroup):
        await service.close()
    memory.open(session.id).close()
