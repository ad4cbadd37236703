"""The coordinator: who follows, claims, repairs and lets go of sessions (BEHAVIOUR §9.2 to §9.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dsh_persistence import (
    LiveTurnOpen,
    MemoryLogStore,
    PersistenceClosed,
    SessionBusy,
    SessionCorrupt,
    SessionNotFound,
    SessionPersistence,
    WriteFailed,
)
from dsh_session import EncodedBatch, Session, SessionEvent, SessionHeader

Start = Callable[..., SessionPersistence]
NewSession = Callable[..., Session]
Until = Callable[[Callable[[], object]], Awaitable[None]]
FULL = OSError(28, "No space left on device")
MODEL = {"kind": "model", "provider": "p", "model": "m"}


def open_turn(session: Session) -> None:
    """Append a turn whose two tool calls are announced, and the first of them started."""
    place = {"turn": session.state.last_turn + 1, "step": 1}
    session.append("turn/start", {"turn": place["turn"]})
    session.append("step/start", place)
    if not session.state.surface.nodes:
        message: dict[str, Any] = {"role": "system", "id": "s", "source": {"kind": "system-prompt"}, "content": []}
        session.append("system/message", {**place, "message": message}, surface_op="append")
    calls = [{"type": "tool-call", "id": call, "name": "bash", "arguments": "{}"} for call in ("a", "b")]
    message = {"role": "assistant", "id": f"m{session.next_seq}", "source": MODEL, "content": calls}
    session.append("assistant/message", {**place, "message": message, "stream": []}, surface_op="append")
    session.append("tool/call", {**place, "callId": "a", "name": "bash", "arguments": "{}"})


def types(memory: MemoryLogStore, session_id: str = "session-1") -> list[str]:
    return [event.type for event in memory.read(session_id).events]


OPEN = ["turn/start", "step/start", "system/message", "assistant/message", "tool/call"]
CLOSERS = ["tool/result", "tool/result", "step/end", "turn/end"]


@pytest.fixture
def interrupted(memory: MemoryLogStore, new_session: NewSession) -> Session:
    """A stored log whose writer died inside a turn."""
    session = new_session()
    open_turn(session)
    with memory.create(session.header) as writer:
        writer.append(session.batch(0))
    return session


async def test_attach_writes_what_is_there_and_what_comes(
    start: Start, new_session: NewSession, memory: MemoryLogStore
) -> None:
    """§9.4: a session that exists already is written from its first event on; attaching again is harmless."""
    service, session = start(), new_session()
    session.append("plugin:test/note", {})
    service.attach(session)
    service.attach(session)
    session.append("plugin:test/note", {})
    await service.flush(session.id)
    assert list(memory.read(session.id).events) == list(session.events)


async def test_attach_before_the_first_event(start: Start, new_session: NewSession, memory: MemoryLogStore) -> None:
    """Attaching an empty session touches nothing; its location is known all the same."""
    service, session = start(), new_session()
    assert service.locate(session.header) == memory.locate(session.header)
    service.attach(session)
    await asyncio.sleep(0.02)
    assert list(memory.list()) == []
    await service.detach(session)
    session.append("plugin:test/note", {})
    await asyncio.sleep(0.02)
    assert list(memory.list()) == []


async def test_attach_refuses_a_second_session_of_the_id(start: Start, new_session: NewSession) -> None:
    """§9.4: one live session an id; the first goes on being followed."""
    service, session = start(window_ms=60_000), new_session()
    service.attach(session)
    session.append("plugin:test/note", {})
    with pytest.raises(SessionBusy):
        service.attach(new_session())
    with pytest.raises(SessionBusy):
        await service.resume(session.id)
    assert service.health(session.id).queued == 1


@pytest.mark.usefixtures("slow_retries")
async def test_a_stored_id_shows_at_the_first_write(
    start: Start, new_session: NewSession, interrupted: Session, memory: MemoryLogStore
) -> None:
    """§9.4: a fresh session cannot take a stored id: its first flush says so, and the log is untouched."""
    service, session = start(), new_session()
    service.attach(session)
    session.append("plugin:test/note", {})
    with pytest.raises(WriteFailed, match="already has a log"):
        await service.flush(session.id)
    assert list(memory.read(session.id).events) == list(interrupted.events)
    with pytest.raises(ExceptionGroup):
        await service.close()


async def test_detach_frees_the_session(start: Start, new_session: NewSession, memory: MemoryLogStore) -> None:
    """Detaching writes what is queued and gives the claim up; another object of that id detaches nothing."""
    service, session = start(window_ms=60_000), new_session()
    service.attach(session)
    session.append("plugin:test/note", {})
    await service.detach(new_session())
    assert service.health(session.id).queued == 1
    await service.detach(session)
    await service.detach(session)
    assert types(memory) == ["plugin:test/note"]
    with pytest.raises(SessionNotFound):
        service.health(session.id)
    memory.open(session.id).close()


@pytest.mark.usefixtures("slow_retries")
async def test_a_failed_detach_goes_on_following(
    start: Start, new_session: NewSession, faults: Any, memory: MemoryLogStore
) -> None:
    """When the last events cannot be written detaching raises, and nothing has been let go of."""
    service, session = start(window_ms=60_000), new_session()
    service.attach(session)
    session.append("plugin:test/note", {})
    faults.failures = [FULL]
    with pytest.raises(WriteFailed):
        await service.detach(session)
    assert service.health(session.id).queued == 1
    await service.detach(session)
    assert types(memory) == ["plugin:test/note"]


async def test_resume_closes_an_interrupted_turn_once(
    start: Start, interrupted: Session, memory: MemoryLogStore
) -> None:
    """CASES A17, GENERATIONS §9: the first resume closes the turn and marks itself; another adds nothing, or a mark."""
    service = start()
    session = await service.resume(interrupted.id)
    await service.flush(session.id)
    assert types(memory) == [*OPEN, *CLOSERS, "session/end-seed"]
    assert session.state.turn is None
    await service.detach(session)

    session = await service.resume(interrupted.id)
    assert types(memory) == [*OPEN, *CLOSERS, "session/end-seed"]
    open_turn(session)
    session.append("turn/start", {"turn": 3}) if session.state.turn is None else None
    await service.detach(session)

    session = await service.resume(interrupted.id)
    await service.detach(session)
    second = ["turn/start", "step/start", "assistant/message", "tool/call"]
    expected = [*OPEN, *CLOSERS, "session/end-seed", *second, *CLOSERS, "session/end-seed"]
    assert types(memory) == expected


async def test_resume_of_a_balanced_log_marks_itself(
    start: Start, new_session: NewSession, memory: MemoryLogStore
) -> None:
    """GENERATIONS §9: the first live event of a resumed session is an end-seed unless the log ends in one."""
    service, session = start(), new_session()
    session.append("plugin:test/note", {})
    service.attach(session)
    await service.detach(session)
    resumed = await service.resume(session.id)
    assert (resumed.header, [event.type for event in resumed.events][1:]) == (session.header, ["session/end-seed"])
    resumed.append("plugin:test/note", {})
    await service.detach(resumed)
    assert types(memory) == ["plugin:test/note", "session/end-seed", "plugin:test/note"]


async def test_resume_keeps_the_claim(start: Start, interrupted: Session, memory: MemoryLogStore) -> None:
    """A resumed session is claimed until it is detached."""
    service = start()
    session = await service.resume(interrupted.id)
    with pytest.raises(SessionBusy):
        memory.open(session.id)
    await service.detach(session)
    memory.open(session.id).close()


async def test_resume_refuses(start: Start, memory: MemoryLogStore, interrupted: Session) -> None:
    """What is not there, held by somebody else, or broken in meaning cannot be resumed, and no claim stays behind."""
    service = start()
    with pytest.raises(SessionNotFound):
        await service.resume("nobody")
    with memory.open(interrupted.id), pytest.raises(SessionBusy):
        await service.resume(interrupted.id)
    header = SessionHeader(id="broken", created_at=0)
    turn_end = SessionEvent(type="turn/end", seq=0, time=0, encoded=b'{"turn":1,"reason":{"kind":"completed"}}')
    with memory.create(header) as writer:
        writer.append(EncodedBatch(first_seq=0, events=(turn_end,)))
    with pytest.raises(SessionCorrupt, match="no turn is open"):
        await service.resume("broken")
    memory.open("broken").close()
    await service.resume(interrupted.id)


async def test_resume_that_cannot_repair_lets_go(
    start: Start, interrupted: Session, faults: Any, memory: MemoryLogStore
) -> None:
    """When the closers cannot be written the resume fails, the log is as it was, and the claim is free."""
    service = start()
    faults.failures = [FULL]
    with pytest.raises(WriteFailed):
        await service.resume(interrupted.id)
    assert types(memory) == OPEN
    memory.open(interrupted.id).close()
    await service.resume(interrupted.id)


async def test_cancelling_a_resume_that_opens(
    start: Start, interrupted: Session, faults: Any, memory: MemoryLogStore, until: Until
) -> None:
    """A resume cancelled while the log is being opened does not keep the claim it gets afterwards."""
    service = start()
    faults.opening.clear()
    resume = asyncio.create_task(service.resume(interrupted.id))
    await until(faults.reached.is_set)
    resume.cancel()
    with pytest.raises(asyncio.CancelledError):
        await resume
    faults.opening.set()
    await until(lambda: faults.closed == [interrupted.id])
    memory.open(interrupted.id).close()
    await service.resume(interrupted.id)


async def test_cancelling_a_resume_that_repairs(
    start: Start, interrupted: Session, faults: Any, memory: MemoryLogStore, until: Until
) -> None:
    """A resume cancelled while its closers are written lets the write end before it gives up the claim."""
    service = start()
    faults.gate.clear()
    resume = asyncio.create_task(service.resume(interrupted.id))
    await until(lambda: faults.batches)
    resume.cancel()
    await asyncio.sleep(0.05)
    assert faults.closed == []
    faults.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await resume
    await until(lambda: faults.closed == [interrupted.id])
    assert types(memory) == [*OPEN, *CLOSERS]
    memory.open(interrupted.id).close()


async def test_cold_load_commits_the_repair(start: Start, interrupted: Session, memory: MemoryLogStore) -> None:
    """§9.2, §9.3: a load of a log nobody lives in closes its turn durably, once, and keeps no claim."""
    service = start()
    for _ in range(2):
        loaded = await service.load(interrupted.id)
        assert [event.type for event in loaded.events] == [*OPEN, *CLOSERS]
        assert loaded.revision == memory.read(interrupted.id).revision
    assert types(memory) == [*OPEN, *CLOSERS]
    memory.open(interrupted.id).close()
    with pytest.raises(SessionNotFound):
        await service.load("nobody")


async def test_cold_load_reserves_the_id(
    start: Start, interrupted: Session, new_session: NewSession, faults: Any, until: Until
) -> None:
    """§9.2: while a cold load runs nobody else in this process may attach, resume or append; a load waits its turn."""
    service = start()
    faults.opening.clear()
    load = asyncio.create_task(service.load(interrupted.id))
    await until(faults.reached.is_set)
    with pytest.raises(SessionBusy):
        service.attach(new_session())
    with pytest.raises(SessionBusy):
        await service.resume(interrupted.id)
    with pytest.raises(SessionBusy):
        await service.append(interrupted.id, list(interrupted.events))
    with pytest.raises(SessionBusy):
        await service.create(interrupted.header)
    second = asyncio.create_task(service.load(interrupted.id))
    await asyncio.sleep(0.02)
    assert not second.done()
    faults.opening.set()
    assert (await load).revision == (await second).revision
    await service.resume(interrupted.id)


async def test_load_of_a_live_session(start: Start, new_session: NewSession) -> None:
    """§9.2: a live session loads as it is, flushed and never repaired; inside a turn, or empty, it does not."""
    service, session = start(window_ms=60_000), new_session()
    service.attach(session)
    with pytest.raises(SessionNotFound):
        await service.load(session.id)
    session.append("turn/start", {"turn": 1})
    with pytest.raises(LiveTurnOpen):
        await service.load(session.id)
    session.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    assert list((await service.load(session.id)).events) == list(session.events)
    assert session.next_seq == 2


async def test_inspect_changes_nothing(
    start: Start, interrupted: Session, memory: MemoryLogStore, new_session: NewSession
) -> None:
    """§9.2 (seed): inspecting gives the stored prefix with its turn open, cold or live, and writes nothing."""
    service = start(window_ms=60_000)
    before = memory.read(interrupted.id).revision
    found = await service.inspect(interrupted.id)
    assert ([event.type for event in found.events], found.revision) == (OPEN, before)
    assert memory.read(interrupted.id).revision == before
    live = new_session("live")
    service.attach(live)
    live.append("plugin:test/note", {})
    with pytest.raises(SessionNotFound):
        await service.inspect("live")
    await service.flush("live")
    live.append("plugin:test/note", {})
    assert len((await service.inspect("live")).events) == 1
    with memory.open(interrupted.id):
        assert (await service.inspect(interrupted.id)).revision == before


async def test_read_from(start: Start, interrupted: Session) -> None:
    """§9.2: the raw stored suffix without closers; past the end nothing; a negative seq is an error."""
    service = start()
    for seq in (0, 3, 5, 99):
        assert list(await service.read_from(interrupted.id, seq)) == list(interrupted.events)[seq:]
    with pytest.raises(SessionNotFound):
        await service.read_from("nobody", 0)
    with pytest.raises(ValueError, match="-1"):
        await service.read_from(interrupted.id, -1)


async def test_list(start: Start, interrupted: Session, new_session: NewSession, memory: MemoryLogStore) -> None:
    """§9.2: every stored session with its revision; a followed session without events is not stored."""
    service = start()
    service.attach(new_session("empty"))
    (listed,) = await service.list()
    assert (listed.header, listed.revision) == (interrupted.header, memory.read(interrupted.id).revision)


async def test_close_writes_and_releases(
    start: Start, new_session: NewSession, faults: Any, memory: MemoryLogStore
) -> None:
    """Closing drains every session, releases claims and store, and may be repeated."""
    service, sessions = start(window_ms=60_000), [new_session("a"), new_session("b")]
    for session in sessions:
        service.attach(session)
        session.append("plugin:test/note", {})
    async with service:
        pass
    await service.close()
    assert sorted(types(memory, "a") + types(memory, "b")) == ["plugin:test/note"] * 2
    assert (sorted(faults.closed[:2]), faults.closed[2:]) == (["a", "b"], ["store"])


@pytest.mark.usefixtures("slow_retries")
async def test_close_says_what_is_unwritten(
    start: Start, new_session: NewSession, faults: Any, memory: MemoryLogStore
) -> None:
    """CASES A20: closing raises for every session with unwritten events, and releases everything all the same."""
    service, sessions = start(window_ms=60_000), [new_session("a"), new_session("b")]
    for session in sessions:
        service.attach(session)
        session.append("plugin:test/note", {})
    await service.flush("a")
    sessions[0].append("plugin:test/note", {})
    faults.failures = [FULL, FULL]
    with pytest.raises(ExceptionGroup) as caught:
        await service.close()
    assert sorted(error.session_id for error in caught.value.exceptions if isinstance(error, WriteFailed)) == ["a", "b"]
    assert (sorted(faults.closed[:2]), faults.closed[2:]) == (["a", "b"], ["store"])
    memory.open("a").close()


async def test_close_waits_for_the_write_under_way(
    start: Start, new_session: NewSession, faults: Any, memory: MemoryLogStore, until: Until
) -> None:
    """A cancelled close gives no writer up while it writes; flushes that still wait are answered."""
    service, session = start(), new_session()
    service.attach(session)
    faults.gate.clear()
    session.append("plugin:test/note", {})
    await until(lambda: faults.batches)
    session.append("plugin:test/note", {})
    flush = asyncio.create_task(service.flush(session.id))
    close = asyncio.create_task(service.close())
    await asyncio.sleep(0.02)
    close.cancel()
    await asyncio.sleep(0.02)
    assert faults.closed == []
    faults.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await close
    with pytest.raises(WriteFailed, match="the persistence service is closed"):
        await flush
    assert faults.batches == [(0, 1)]
    assert types(memory) == ["plugin:test/note"]


async def test_a_closed_service(start: Start, new_session: NewSession, interrupted: Session) -> None:
    """After closing every operation says that the service is closed."""
    service = start()
    await service.close()
    with pytest.raises(PersistenceClosed):
        service.attach(new_session())
    for call in (
        service.resume(interrupted.id),
        service.load(interrupted.id),
        service.inspect(interrupted.id),
        service.read_from(interrupted.id, 0),
        service.list(),
    ):
        with pytest.raises(PersistenceClosed):
            await call
    await service.flush()


async def test_close_during_a_resume(
    start: Start, interrupted: Session, faults: Any, memory: MemoryLogStore, until: Until
) -> None:
    """A resume that is overtaken by closing raises and leaves no claim."""
    service = start()
    faults.opening.clear()
    resume = asyncio.create_task(service.resume(interrupted.id))
    await until(faults.reached.is_set)
    close = asyncio.create_task(service.close())
    await asyncio.sleep(0.02)
    faults.opening.set()
    await close
    with pytest.raises(PersistenceClosed):
        await resume
    memory.open(interrupted.id).close()
