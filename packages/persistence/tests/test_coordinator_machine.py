"""The coordinator under any order of events, writes, failures and time (DURABILITY §6; G1, G2, G10, G12, G17, G18).

The loop's clock is the test's own: a timer runs when a step moves the clock to it, and never because a test took long.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from gated_store import Faults, GatedStore
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dsh_persistence import (
    ForeignChange,
    LiveTurnOpen,
    MemoryLogStore,
    OutcomeUnknown,
    QueueFull,
    SessionBusy,
    SessionNotFound,
    SessionPersistence,
    WriteFailed,
)
from dsh_persistence._threads import GroupCommitThread
from dsh_session import Session, SessionEvent, SessionHeader

IDS = ("a", "b", "c")
IDS_OF_NOBODY = ("x", "y")
QUEUE_BYTES = 64 << 10
LOST = OutcomeUnknown("/log", "the rollback failed too")
FAILURES = (
    OSError(28, "No space left on device"),
    LOST,
    Faults.after_write(LOST),
    ForeignChange("/log", "it was removed"),
    None,
)
session_ids = st.sampled_from(IDS)


class HandMovedLoop(asyncio.SelectorEventLoop):
    """A loop whose time stands still until it is moved; other threads wake it as ever."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__()

    def time(self) -> float:
        return self.now


class CoordinatorMachine(RuleBasedStateMachine):
    """A few live sessions, a few of nobody's, and the store as the judge."""

    @initialize(window_ms=st.sampled_from([0, 50]), group_commit=st.booleans())
    def begin(self, *, window_ms: int, group_commit: bool) -> None:
        self.loop = HandMovedLoop()
        self.runner = asyncio.Runner(loop_factory=lambda: self.loop)
        self.memory = MemoryLogStore(group_commit=group_commit)
        self.faults = Faults()
        self.window_s = window_ms / 1000
        store = GatedStore(self.memory, self.faults)
        self.service = self.run(_make(store, window_ms=window_ms))
        self.live: dict[str, Session] = {}
        self.appended: dict[str, list[SessionEvent]] = {one: [] for one in IDS + IDS_OF_NOBODY}
        """What was handed over for sessions that do not live."""
        self.flushes: list[tuple[asyncio.Task[None], str, int]] = []
        """Each flush with the session and the seq that it covers when it succeeds."""

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    def settle(self) -> None:
        """Let the loop and the threads do whatever they can at this moment."""
        self.run(self._settle())

    async def _settle(self) -> None:
        turns = 0
        while turns < 6:
            await asyncio.sleep(0)
            turns = 0 if self.gate_open and self._is_writing() else turns + 1

    def _is_writing(self) -> bool:
        """Whether a thread has something to do, those included that a group's thread hands things on to."""
        writers = self.service._writers
        others = writers._others._under_way if isinstance(writers, GroupCommitThread) else 0
        return writers._under_way + others > 0

    @property
    def gate_open(self) -> bool:
        return self.faults.gate.is_set()

    def events(self, session_id: str) -> list[SessionEvent]:
        """Everything that was ever handed over for a session, in order."""
        return list(self.live[session_id].events) if session_id in self.live else self.appended[session_id]

    def accept_closers(self, session_id: str) -> None:
        """Nobody lives there, so what a repair has added is part of the log from now on."""
        stored, events = self.stored(session_id), self.appended[session_id]
        assert stored[: len(events)] == events
        assert {event.type for event in stored[len(events) :]} <= {"turn/end"}
        self.appended[session_id] = stored

    def stored(self, session_id: str) -> list[SessionEvent]:
        try:
            return list(self.memory.read(session_id).events)
        except SessionNotFound:
            return []

    @rule(session_id=session_ids, count=st.integers(1, 3), size=st.sampled_from([0, 2000, 20_000]))
    def append(self, session_id: str, count: int, size: int) -> None:
        session = self.live.get(session_id)
        if session is None:
            return
        for _ in range(count):
            before = session.next_seq
            try:
                session.append("plugin:test/note", {"n": before, "text": "x" * size})
            except QueueFull:
                assert session.next_seq == before
        self.settle()

    @rule(session_id=session_ids)
    def turn(self, session_id: str) -> None:
        """Open a turn, or close the open one."""
        session = self.live.get(session_id)
        if session is None:
            return
        turn = session.state.turn
        with contextlib.suppress(QueueFull):
            if turn is None:
                session.append("turn/start", {"turn": session.state.last_turn + 1})
            else:
                session.append("turn/end", {"turn": turn, "reason": {"kind": "completed"}})

    @rule(session_id=st.sampled_from(IDS_OF_NOBODY), count=st.integers(0, 3), size=st.sampled_from([0, 2000]))
    @precondition(lambda self: self.gate_open)
    def append_by_id(self, session_id: str, count: int, size: int) -> None:
        """Hand events over by id; after a failure the same ones come again, in front of the new ones."""
        events = self.appended[session_id]
        health = None
        with contextlib.suppress(SessionNotFound):
            health = self.service.health(session_id)
        begin = len(events) if health is None or health.last_error is None else health.last_durable_seq + 1
        text = b'"%s"' % (b"x" * size)
        new = [
            SessionEvent(type="plugin:test/note", seq=seq, time=0, encoded=text, ignorable=True)
            for seq in range(len(events), len(events) + count)
        ]
        try:
            self.run(self._append_by_id(session_id, [*events[begin:], *new]))
        except WriteFailed:
            taken = self.service._followed[session_id].session.next_seq
            assert taken in {len(events), len(events) + count}
            new = new[: taken - len(events)]
        else:
            assert not count or self.stored(session_id) == [*events, *new]
        events += new

    async def _append_by_id(self, session_id: str, events: list[SessionEvent]) -> None:
        with contextlib.suppress(SessionBusy):
            if not self.appended[session_id]:
                await self.service.create(_header(session_id))
        await self.service.append(session_id, events)

    @rule(session_id=st.sampled_from(IDS_OF_NOBODY))
    @precondition(lambda self: self.gate_open)
    def release(self, session_id: str) -> None:
        with contextlib.suppress(WriteFailed):
            self.run(self.service.release(session_id))
            assert self.stored(session_id) == self.events(session_id)

    @rule(failures=st.lists(st.sampled_from(FAILURES), min_size=1, max_size=3))
    def fail(self, failures: list[BaseException | None]) -> None:
        self.faults.failures = failures

    @rule()
    def hold(self) -> None:
        """Let writes begin, and not end."""
        self.faults.gate.clear()

    @rule()
    def let_go(self) -> None:
        self.faults.gate.set()
        self.settle()

    @rule(seconds=st.sampled_from([0.001, 0.05, 0.2, 1.0, 5.0, 30.0]))
    def tick(self, seconds: float) -> None:
        self.loop.now += seconds
        self.settle()

    @rule(session_id=session_ids)
    def flush(self, session_id: str) -> None:
        covered = len(self.events(session_id))
        self.flushes.append((self.run(_begin(self.service.flush(session_id))), session_id, covered))
        self.settle()

    @rule(session_id=st.sampled_from(IDS + IDS_OF_NOBODY))
    @precondition(lambda self: self.gate_open)
    def load(self, session_id: str) -> None:
        """A load gives everything there is, durably and balanced, or says why not."""
        session = self.live.get(session_id)
        in_turn = session is not None and session.state.turn is not None
        try:
            loaded = self.run(self.service.load(session_id))
        except LiveTurnOpen:
            assert in_turn
            return
        except SessionNotFound:
            assert self.events(session_id) == []
            return
        except (WriteFailed, OSError, OutcomeUnknown, ForeignChange):
            loaded = None
        if session is None and session_id in IDS:
            self.accept_closers(session_id)
        if loaded is not None:
            assert not in_turn
            assert list(loaded.events) == self.events(session_id) == self.stored(session_id)
            assert loaded.events.validate().turn is None

    @rule(session_id=session_ids)
    @precondition(lambda self: self.gate_open)
    def begin_session(self, session_id: str) -> None:
        """Attach a new session where there is none; an id that is stored is resumed."""
        if session_id in self.live:
            return
        if not self.stored(session_id):
            session = Session(_header(session_id))
            self.run(_call(lambda: self.service.attach(session)))
        else:
            try:
                session = self.run(self.service.resume(session_id))
            except WriteFailed:
                self.accept_closers(session_id)
                return
            assert list(session.events)[: len(self.appended[session_id])] == self.appended[session_id]
            assert session.state.turn is None
        self.live[session_id] = session

    @rule(session_id=session_ids)
    @precondition(lambda self: self.gate_open)
    def detach(self, session_id: str) -> None:
        session = self.live.get(session_id)
        if session is None:
            return
        with contextlib.suppress(WriteFailed):
            self.run(self.service.detach(session))
            assert self.stored(session_id) == list(session.events)
            self.appended[session_id] = self.stored(session_id)
            del self.live[session_id]
            if session.next_seq:
                self.memory.open(session_id).close()

    @rule(session_id=session_ids)
    @precondition(lambda self: self.gate_open)
    def remount(self, session_id: str) -> None:
        """A service that was replaced: another copy of the live session is adopted where the last one stopped."""
        session = self.live.get(session_id)
        if session is None or not session.next_seq:
            return
        with contextlib.suppress(WriteFailed):
            self.run(self.service.detach(session))
            self.run(_call(lambda: self.service.attach(session)))

    @rule()
    def quiesce(self) -> None:
        """G18: without failures everything is durable after the window, or the longest pause, and the write."""
        self.faults.failures = []
        self.faults.gate.set()
        self.settle()
        self.loop.now += 31 if self._failing() else self.window_s
        self.settle()
        for one in IDS + IDS_OF_NOBODY:
            with contextlib.suppress(SessionNotFound):
                if isinstance(self.service.health(one).last_error, ForeignChange):  # waits for somebody
                    self.run(self.service.flush(one))
                assert self.service.health(one).queued == 0
                assert self.stored(one) == self.events(one)
        self.loop.now += self.window_s
        self.settle()
        assert all(task.done() for task, _, _ in self.flushes)

    def _failing(self) -> bool:
        return any(follower.health.last_error for follower in self.service._followed.values())

    @invariant()
    def what_is_stored_was_handed_over(self) -> None:
        if not hasattr(self, "service"):
            return
        for one in IDS + IDS_OF_NOBODY:
            stored = self.stored(one)
            assert stored == self.events(one)[: len(stored)]

    @invariant()
    def what_is_acknowledged_is_stored(self) -> None:
        if not hasattr(self, "service"):
            return
        for task, session_id, covered in [entry for entry in self.flushes if entry[0].done()]:
            if task.exception() is None:
                assert len(self.stored(session_id)) >= covered
            else:
                assert isinstance(task.exception(), WriteFailed)
        self.flushes = [entry for entry in self.flushes if not entry[0].done()]
        total = 0
        for follower in self.service._followed.values():
            health = follower.health
            assert len(self.stored(health.session_id)) > health.last_durable_seq
            waiting = follower.session.events[health.last_durable_seq + 1 :]
            assert (health.queued, health.queued_bytes) == (len(waiting), sum(one.size_bytes for one in waiting))
            total += health.queued_bytes
        assert self.service._backlog.queued_bytes == total

    def teardown(self) -> None:
        if not hasattr(self, "service"):
            return
        try:
            self.quiesce()
            self.what_is_acknowledged_is_stored()
            self.run(self.service.close())
            assert not self.faults.overlap, "one writer was used by two threads at a time"
            for one in IDS + IDS_OF_NOBODY:
                if self.stored(one):
                    self.memory.open(one).close()
        finally:
            self.faults.gate.set()
            self.runner.close()


async def _make(store: GatedStore, *, window_ms: float) -> SessionPersistence:
    return SessionPersistence(store, window_ms=window_ms, queue_bytes=QUEUE_BYTES)


async def _begin(work: Any) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work)


async def _call(work: Any) -> None:
    work()


def _header(session_id: str) -> SessionHeader:
    return SessionHeader(id=session_id, created_at=1, cwd="/w")


TestCoordinatorMachine = CoordinatorMachine.TestCase
TestCoordinatorMachine.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,  # the sources may be read-only
)
