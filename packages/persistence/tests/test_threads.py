"""How writes of many sessions share threads, and what they cost the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from dsh_persistence import LogWriter, MemoryLogStore, Receipt, SessionPersistence, WriteFailed
from dsh_persistence._memory import MemoryLogWriter
from dsh_persistence._threads import SYNC_THREADS, Job, WriterThreads
from dsh_session import EncodedBatch, Session

Start = Callable[..., SessionPersistence]
NewSession = Callable[..., Session]
Until = Callable[[Callable[[], object]], Awaitable[None]]
FULL = OSError(28, "No space left on device")


def note(session: Session) -> None:
    session.append("plugin:test/note", {"n": session.next_seq})


def attach(service: SessionPersistence, new_session: NewSession, count: int) -> list[Session]:
    sessions = [new_session(f"session-{number}") for number in range(count)]
    for session in sessions:
        service.attach(session)
    return sessions


@pytest.fixture
def wake_ups(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[object]]:
    """Count how often other threads wake the loop from now on."""

    def count() -> list[object]:
        loop = asyncio.get_running_loop()
        woken: list[object] = []
        real = loop.call_soon_threadsafe

        def counting(callback: Any, *args: Any, **options: Any) -> Any:
            woken.append(callback)
            return real(callback, *args, **options)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counting)
        return woken

    return count


async def test_one_wake_up_a_batch(
    start: Start, new_session: NewSession, faults: Any, wake_ups: Callable[[], list[object]]
) -> None:
    """Whatever a batch holds, and whoever waits for it, the loop is woken once."""
    service, session = start(), new_session()
    service.attach(session)
    woken = wake_ups()
    for _ in range(20):
        note(session)
        note(session)
        await asyncio.gather(*(service.flush(session.id) for _ in range(3)))
    assert (len(faults.batches), len(woken)) == (20, 20)


async def test_a_flush_starts_at_once(start: Start, new_session: NewSession, faults: Any) -> None:
    """A flush hands the batch to a thread before it first waits: no turn of the loop passes in between."""
    service, session = start(), new_session()
    service.attach(session)
    note(session)
    flush = service.flush(session.id)
    flush.send(None)
    assert faults.reached.wait(10)
    flush.close()


async def test_syncs_of_several_sessions_overlap(start: Start, new_session: NewSession, until: Until) -> None:
    """As many sessions are written at a time as there are threads, and never one by two of them."""
    together = threading.Barrier(SYNC_THREADS)

    class Meeting(MemoryLogStore):
        def extend(self, session_id: str, batch: EncodedBatch) -> None:
            together.wait(20)
            super().extend(session_id, batch)

    service = start(Meeting())
    for session in attach(service, new_session, 4 * SYNC_THREADS):
        note(session)
    await service.flush()


async def test_a_thousand_sessions(start: Start, new_session: NewSession, memory: MemoryLogStore) -> None:
    """1,000 sessions share a handful of threads; one session needs one."""
    service = start()
    one, *others = attach(service, new_session, 1000)
    note(one)
    await service.flush(one.id)
    assert len(_writers()) == 1
    for session in others:
        note(session)
    await service.flush()
    assert len(_writers()) == SYNC_THREADS
    assert len(list(memory.list())) == 1000
    await service.close()
    assert _writers() == []


def _writers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("dsh-persistence")]


async def test_group_commit(
    start: Start, new_session: NewSession, faults: Any, wake_ups: Callable[[], list[object]], until: Until
) -> None:
    """A store that commits groups gets all ready batches in one call; what arrives meanwhile is the next one."""
    memory = MemoryLogStore(group_commit=True)
    service = start(memory)
    sessions = attach(service, new_session, 16)
    woken = wake_ups()
    faults.gate.clear()
    note(sessions[0])
    await until(lambda: faults.batches)
    for session in sessions[1:]:
        note(session)
    flush = asyncio.create_task(service.flush())
    await asyncio.sleep(0.02)
    assert (len(faults.batches), len(woken)) == (1, 0)
    faults.gate.set()
    await flush
    assert faults.groups == [15]
    assert len(woken) in (1, 2)  # the second call may end before the loop has come to the first one's wake-up
    assert len(list(memory.list())) == 16


async def test_a_group_closes_no_writer_before_its_append(
    start: Start, new_session: NewSession, faults: Any, until: Until
) -> None:
    """A writer that is given up while its append still waits for its turn is closed after it."""
    memory = MemoryLogStore(group_commit=True)
    service = start(memory)
    first, second = attach(service, new_session, 2)
    faults.gate.clear()
    note(first)
    await until(lambda: faults.batches)
    note(second)
    flush = asyncio.create_task(service.flush(second.id))
    await asyncio.sleep(0)
    released = service._followed[second.id].release()
    faults.gate.set()
    await released
    await flush
    assert (len(memory.read(second.id).events), faults.closed) == (1, [second.id])


async def test_opening_a_log_holds_no_group_up(start: Start, new_session: NewSession, until: Until) -> None:
    """While a session adopts its stored log, which may be long, others are written."""
    opening, gate = threading.Event(), threading.Event()

    class Slow(MemoryLogStore):
        def open(self, session_id: str) -> MemoryLogWriter:
            opening.set()
            assert gate.wait(30)
            return super().open(session_id)

    memory = Slow(group_commit=True)
    service = start(memory)
    first, second = attach(service, new_session, 2)
    note(first)
    with memory.create(first.header) as writer:
        writer.append(first.batch(0))
    adopted = asyncio.create_task(service.flush(first.id))
    await until(opening.is_set)
    note(second)
    await asyncio.wait_for(service.flush(second.id), 20)
    assert not adopted.done()
    gate.set()
    await adopted
    assert len(memory.read(second.id).events) == 1


@pytest.mark.usefixtures("slow_retries")
async def test_a_failure_in_a_group_is_its_own(start: Start, new_session: NewSession, faults: Any) -> None:
    """One session's failure is told to that session; the others of the group are durable."""
    memory = MemoryLogStore(group_commit=True)
    service = start(memory, window_ms=60_000)
    sessions = attach(service, new_session, 4)
    for session in sessions:
        note(session)
    faults.failures = [None, None, FULL, None]
    with pytest.raises(ExceptionGroup) as caught:
        await service.flush()
    (error,) = caught.value.exceptions
    assert isinstance(error, WriteFailed)
    assert error.__cause__ is FULL
    assert len(list(memory.list())) == 3
    await service.flush()
    assert len(list(memory.list())) == 4


@pytest.mark.usefixtures("slow_retries")
async def test_a_group_call_that_breaks_the_seam(start: Start, new_session: NewSession, until: Until) -> None:
    """A store whose group call raises fails all batches of the group; nobody waits for ever."""

    class Broken(MemoryLogStore):
        def append_group(self, items: Sequence[tuple[LogWriter, EncodedBatch]]) -> list[Receipt | Exception]:
            raise RuntimeError("broken store")

    service = SessionPersistence(Broken(group_commit=True), window_ms=60_000)
    for session in attach(service, new_session, 3):
        note(session)
    with pytest.raises(ExceptionGroup) as caught:
        await service.flush()
    assert 2 <= len(caught.value.exceptions) <= 3
    with pytest.raises(ExceptionGroup):
        await service.close()


async def test_adoption_in_a_group(start: Start, new_session: NewSession, faults: Any) -> None:
    """A stored log is adopted whether or not its first write comes in a group."""
    memory = MemoryLogStore(group_commit=True)
    service = start(memory, window_ms=60_000)
    sessions = attach(service, new_session, 3)
    for session in sessions:
        note(session)
        with memory.create(session.header) as writer:
            writer.append(session.batch(0))
        note(session)
    await service.flush()
    assert [len(memory.read(session.id).events) for session in sessions] == [2, 2, 2]
    await service.close()
    for session in sessions:
        memory.open(session.id).close()


def test_jobs_outlive_their_loop() -> None:
    """What was handed over is done although the loop has ended; there is nobody left to tell, and nothing breaks."""
    done = threading.Event()
    threads = WriterThreads(count=1)
    hold = threading.Event()

    async def submit() -> None:
        threads.submit(Job(lambda: hold.wait(20), lambda error: None))
        threads.submit(Job(done.set, lambda error: None))

    asyncio.run(submit())
    hold.set()
    assert done.wait(20)
    threads.stop()


async def test_without_any_thread_events_are_written_all_the_same(
    start: Start, new_session: NewSession, memory: MemoryLogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the limit of threads is reached a write is made on the loop: nothing hangs, and closing works as well."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    persistence = start()
    session = new_session()
    persistence.attach(session)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    note(session)
    await asyncio.wait_for(persistence.flush(session.id), 30)
    note(session)
    await asyncio.wait_for(persistence.close(), 30)
    monkeypatch.undo()
    assert memory.read(session.id).next_seq == 2
