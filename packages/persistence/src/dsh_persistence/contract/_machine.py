"""A state machine of Hypothesis: a store and the model get the same calls, and must agree after each."""

# Assertions are how a contract speaks.
# ruff: noqa: S101, TID252

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dsh_session import EncodedBatch, SessionEvent

from .. import errors
from .._memory import MemoryLogStore, MemoryLogWriter
from ..errors import PersistenceError, SessionNotFound
from ._material import make_event, make_header
from ._workers import Answer, OpenStore, Plan, Request, Verb, Worker, workers
from .faults import Fault

SETTINGS = settings(
    max_examples=20,
    stateful_step_count=25,
    deadline=None,
    database=None,
    print_blob=False,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
"""A few seconds a store; a subclass of the contract may ask for more."""

_RUNS = itertools.count()
_SEATS = 2
_NAMES = ("a", "b")
_REFUSALS = {"SessionBusy", "SessionAlreadyStored"}
"""A new log whose id is taken may be refused as either."""
_ERRORS = {"OSError", *(kind.__name__ for kind in vars(errors).values() if isinstance(kind, type))}
"""What a fault may make of a call."""

seats = st.integers(0, _SEATS - 1)
sessions = st.sampled_from(_NAMES)
picks = st.integers(0, 2 * _SEATS - 1)
counts = st.integers(1, 4)
mishaps = st.sampled_from([Fault.EIO, Fault.ENOSPC, Fault.EINTR, Fault.SHORT])


def plan_of(fault: Fault, nth: int, times: int = 1) -> Plan:
    """Return a plan; a failing run shows this call."""
    return Plan(fault, nth, times)


plans = st.one_of(
    st.none(),
    st.none(),
    st.builds(plan_of, mishaps, nth=st.integers(1, 30), times=st.integers(1, 3)),
    st.builds(plan_of, st.sampled_from([Fault.KILL, Fault.TORN]), nth=st.integers(1, 30)),
)

T = TypeVar("T")


class StoreMachine(RuleBasedStateMachine):
    """Two seats, each a process where the store allows it, use two sessions; faults and kills strike in between.

    What was acknowledged is in the model. A batch of unknown outcome is in ``unsettled`` while its writer lives; when
    the writer is gone, what a reader sees of the batch is what counts.
    """

    def __init__(self, open_store: OpenStore) -> None:
        super().__init__()
        self.model = MemoryLogStore()
        self.writers: dict[tuple[int, str], MemoryLogWriter] = {}
        self.reader = open_store()
        self.starts = workers(open_store, _SEATS)
        self.workers: dict[int, Worker] = {}
        self.unsettled: dict[str, tuple[int, EncodedBatch]] = {}
        """The batch whose outcome a living writer does not know, and the writer's seat."""
        self.unsent: dict[str, EncodedBatch] = {}
        """The last batch of a session whose sender is gone and never learned what became of it."""
        self.tried: set[tuple[int, str]] = set()
        """Whose first append of a new log failed: they may or may not hold its claim."""
        self.failed: dict[tuple[int, str], EncodedBatch] = {}
        self.digests: dict[tuple[SessionEvent, ...], bytes] = {}
        self.run = next(_RUNS)
        self.made = itertools.count()

    def teardown(self) -> None:
        """Kill whoever still works."""
        for worker in self.workers.values():
            worker.end()
        self.reader.close()

    # What can happen. No rule depends on what came of another: where a store uses threads, the nth of its calls is not
    # always the same one, and what is drawn next must not differ when an example is played again.

    @rule(seat=seats, name=sessions, count=counts, plan=plans, loses=st.booleans())
    def append(self, seat: int, name: str, count: int, plan: Plan | None, *, loses: bool) -> None:
        """Append through the seat's writer, or a new one; what has failed before is tried again."""
        session_id = self._id(name)
        if (seat, session_id) not in self.writers:
            self._seat(seat, name)
        writer = self.writers.get((seat, session_id))
        if writer is None or self._owes(seat, session_id):
            return
        batch = self.failed.pop((seat, session_id), None)
        if batch is None or batch.first_seq != writer.next_seq:
            batch = self._batch(writer.next_seq, count)
        answer = self._do(seat, "append", name, batch, plan=plan, loses=loses and plan is None)
        self._appended(seat, session_id, batch, answer)

    @rule(seat=seats, name=sessions, plan=plans, repairs=plans)
    def open(self, seat: int, name: str, plan: Plan | None, repairs: Plan | None) -> None:
        """Open a log and repair it, also one that another seat holds or that is not there."""
        self._leave(seat, name)
        self._open(seat, name, plan, repairs)

    @rule(seat=seats, name=sessions)
    def create(self, seat: int, name: str) -> None:
        """Get a writer for a new log, also where there is one already: its first append will say so."""
        if not self._owes(seat, self._id(name)):
            self._leave(seat, name)
            self._create(seat, name)

    @rule(which=picks, back=st.integers(0, 6), count=st.integers(0, 3), plan=plans)
    def resend(self, which: int, back: int, count: int, plan: Plan | None) -> None:
        """Settle what is owed, or send again what is stored already, and something more."""
        if not self.writers:
            return
        seat, session_id, writer = self._pick(which)
        if self._owes(seat, session_id):
            batch = self.unsettled[session_id][1]
        elif session_id in self.unsent:
            batch = self.unsent.pop(session_id)
        else:
            first = max(0, writer.next_seq - back)
            known = self._events(session_id)[first:] if writer.next_seq else ()
            batch = EncodedBatch(first_seq=first, events=(*known, *self._batch(writer.next_seq, count).events))
        self._appended(seat, session_id, batch, self._ask(Request(seat, "resend", session_id, batch, plan)))

    @rule(which=picks, verb=st.sampled_from(["append", "resend"]), gap=st.sampled_from([-1, 1, 5]))
    def misplace(self, which: int, verb: Verb, gap: int) -> None:
        """Send a batch that does not fit the log's end, or differs from what is stored."""
        if not self.writers:
            return
        seat, session_id, writer = self._pick(which)
        if writer.next_seq + gap >= 0 and not self._owes(seat, session_id):
            batch = self._batch(writer.next_seq + gap, 1)
            answer = self._ask(Request(seat, verb, session_id, batch))
            assert answer is not None
            assert answer.error == "SeqConflict", answer

    @precondition(lambda self: self.reader.capabilities.group_commit)
    @rule(seat=seats, count=counts, plan=plans)
    def append_group(self, seat: int, count: int, plan: Plan | None) -> None:
        """Append to both sessions at once."""
        ids = [self._id(name) for name in _NAMES]
        for name in _NAMES:
            if (seat, self._id(name)) not in self.writers:
                self._seat(seat, name)
        if any((seat, one) not in self.writers or self._owes(seat, one) for one in ids):
            return
        first, second = (self._batch(self.writers[seat, one].next_seq, count) for one in ids)
        answer = self._ask(Request(seat, "append_group", ids[0], first, plan, also=((ids[1], second),)))
        if answer is None:
            self.unsettled = {ids[0]: (seat, first), ids[1]: (seat, second)} | self.unsettled
            self._died(seat)
            return
        assert answer.error is None, answer
        for session_id, batch, one in zip(ids, (first, second), answer.also, strict=True):
            self._appended(seat, session_id, batch, one._replace(fired=answer.fired))

    @rule(which=picks, verb=st.sampled_from(["checkpoint", "close"]), plan=plans)
    def rest(self, which: int, verb: Verb, plan: Plan | None) -> None:
        """Checkpoint or close, which never fail."""
        if not self.writers:
            return
        seat, session_id, _ = self._pick(which)
        answer = self._ask(Request(seat, verb, session_id, plan=plan))
        if answer is None:
            self._died(seat)
        else:
            assert answer.error is None, answer
            if verb == "close":
                self._gone(seat, session_id)

    @rule(seat=seats)
    def crash(self, seat: int) -> None:
        """Kill whoever works for a seat, with everything that it holds."""
        worker = self.workers.pop(seat % len(self.starts), None)
        if worker is not None:
            worker.end()
            self._died(seat)

    @rule()
    def list(self) -> None:
        """List the sessions; those of other runs are there as well, so this is not done after every call."""
        listed = {entry.header.id: entry.revision for entry in self.reader.list() if entry.header is not None}
        for session_id in map(self._id, _NAMES):
            if session_id not in self.unsettled:
                assert (session_id in listed) == bool(self._events(session_id))
            if self._events(session_id):
                assert listed[session_id] == self.reader.read(session_id).revision

    # What must hold

    @invariant()
    def agrees(self) -> None:
        """Reading, streaming and following show what the model has, and nothing else."""
        for session_id in map(self._id, _NAMES):
            expected, found = self._events(session_id), self._stored(session_id)
            if session_id in self.unsettled:
                _, batch = self.unsettled[session_id]
                least, most = len(expected), (*expected[: batch.first_seq], *batch.events)
                assert least <= len(found)
                assert found == (expected + most[least:])[: len(found)]
                continue
            assert found == expected
            if expected:
                assert tuple(self.reader.scan(session_id)) == expected
                assert self._followed(session_id) == expected
                half = self.reader.read(session_id, from_seq=len(expected) // 2)
                assert tuple(half.events) == expected[len(expected) // 2 :]

    # How it is done

    def _id(self, name: str) -> str:
        return f"run-{self.run}-{name}"

    def _batch(self, first_seq: int, count: int) -> EncodedBatch:
        """Return events that no other call of this run has made."""
        made = [{"n": seq, "made": next(self.made)} for seq in range(first_seq, first_seq + count)]
        events = tuple(make_event(seq, data) for seq, data in enumerate(made, first_seq))
        return EncodedBatch(first_seq=first_seq, events=events)

    def _events(self, session_id: str) -> tuple[SessionEvent, ...]:
        try:
            return tuple(self.model.read(session_id).events)
        except SessionNotFound:
            return ()

    def _stored(self, session_id: str) -> tuple[SessionEvent, ...]:
        try:
            found = tuple(self.reader.read(session_id).events)
        except SessionNotFound:
            return ()
        assert found, f"{session_id} is stored without an event"
        return found

    def _followed(self, session_id: str) -> tuple[SessionEvent, ...]:
        found: list[SessionEvent] = []
        cursor = None
        while (tail := self.reader.tail(session_id, cursor)).events:
            found += tail.events
            cursor = tail.cursor
        return tuple(found)

    def _owes(self, seat: int, session_id: str) -> bool:
        return self.unsettled.get(session_id, (None,))[0] == seat

    def _pick(self, which: int) -> tuple[int, str, MemoryLogWriter]:
        (seat, session_id), writer = sorted(self.writers.items())[which % len(self.writers)]
        return seat, session_id, writer

    def _seat(self, seat: int, name: str) -> None:
        """Get a writer, for the stored log where there is one."""
        if self._events(self._id(name)):
            self._open(seat, name)
        else:
            self._create(seat, name)

    def _create(self, seat: int, name: str) -> None:
        answer = self._do(seat, "create", name)
        assert answer is not None
        assert answer.error is None, answer
        self.writers[seat, self._id(name)] = self.model.create(make_header(self._id(name)))

    def _open(self, seat: int, name: str, plan: Plan | None = None, repairs: Plan | None = None) -> None:
        session_id = self._id(name)
        answer = self._do(seat, "open", name, plan=plan)
        if answer is None:
            self._died(seat)
        elif answer.error is not None:
            self._refused(answer, seat, session_id, lambda: self.model.open(session_id).close())
        else:
            writer = self.writers[seat, session_id] = _agreed(lambda: self.model.open(session_id))
            assert answer.next_seq == writer.next_seq
            self._repair(seat, name, repairs)

    def _do(
        self,
        seat: int,
        verb: Verb,
        name: str,
        batch: EncodedBatch | None = None,
        *,
        plan: Plan | None = None,
        loses: bool = False,
    ) -> Answer | None:
        return self._ask(Request(seat, verb, self._id(name), batch, plan, loses))

    def _ask(self, request: Request) -> Answer | None:
        place = request.seat % len(self.starts)
        if place not in self.workers:
            self.workers[place] = self.starts[place]()
        answer = self.workers[place].do(request)
        if answer is None:
            assert request.plan is not None, f"the process died of {request.verb}"
            del self.workers[place]
        else:
            assert not answer.distrusted, f"{request.verb} trusted a sync that came after a failed one"
        return answer

    def _appended(self, seat: int, session_id: str, batch: EncodedBatch, answer: Answer | None) -> None:
        """Bring the model to where an append or a resend of ``batch`` has led."""
        if answer is None or answer.error == "OutcomeUnknown":
            if session_id not in self.unsettled:  # or else this one was refused: another seat holds the session
                self.unsettled[session_id] = (seat, batch)
            if answer is None:
                self._died(seat)
            return
        writer = self.writers[seat, session_id]
        if answer.error is not None:
            self.failed[seat, session_id] = batch
            self._refused(answer, seat, session_id, lambda: writer.resend(batch))
            return
        receipt = _agreed(lambda: writer.resend(batch))
        assert answer.next_seq == receipt.next_seq
        assert self.digests.setdefault(batch.events, answer.digest) == answer.digest
        self.tried.discard((seat, session_id))
        if self._owes(seat, session_id):
            del self.unsettled[session_id]

    def _refused(self, answer: Answer, seat: int, session_id: str, act: Callable[[], object]) -> None:
        """Check an error: a fault has caused it, or the model raises it as well. Either way nothing has changed."""
        if answer.fired:
            assert answer.error in _ERRORS, answer
            if session_id not in self._stored_ids():
                self.tried.add((seat, session_id))
            return
        others = {other for other, one in self.tried if one == session_id and other != seat}
        unsettled = session_id in self.unsettled and not self._owes(seat, session_id)
        if (others or unsettled) and answer.error in _REFUSALS:
            return
        try:
            act()
        except PersistenceError as error:
            expected = type(error).__name__
        else:
            expected = "success"
        same = answer.error == expected or {answer.error, expected} <= _REFUSALS
        assert same, f"{answer.error} instead of {expected}: {answer.text}"

    def _repair(self, seat: int, name: str, plan: Plan | None) -> None:
        answer = self._do(seat, "repair", name, plan=plan)
        if answer is None:
            self._died(seat)
        elif answer.error is not None:
            assert answer.fired, answer
            self._leave(seat, name)
        else:
            assert answer.next_seq == self.writers[seat, self._id(name)].next_seq
            again = self._do(seat, "repair", name)
            assert again is not None
            assert (again.error, again.repaired) == (None, False)

    def _leave(self, seat: int, name: str) -> None:
        if (seat, self._id(name)) in self.writers:
            answer = self._do(seat, "close", name)
            assert answer is not None
            assert answer.error is None, answer
            self._gone(seat, self._id(name))

    def _died(self, seat: int) -> None:
        """All who worked in the process of this seat are gone."""
        place = seat % len(self.starts)
        for other, session_id in [key for key in self.writers if key[0] % len(self.starts) == place]:
            self._gone(other, session_id)

    def _gone(self, seat: int, session_id: str) -> None:
        """A writer has ended: its claim is free, and a batch of unknown outcome is there as far as it can be read."""
        self.writers.pop((seat, session_id)).close()
        self.failed.pop((seat, session_id), None)
        self.tried.discard((seat, session_id))
        if not self._owes(seat, session_id):
            return
        _, batch = self.unsettled.pop(session_id)
        self.unsent[session_id] = batch
        known, found = self._events(session_id), self._stored(session_id)
        rest = (*known[: batch.first_seq], *batch.events)[len(known) :]
        more = found[len(known) :]
        assert found == known + rest[: len(more)]
        if more:
            with self.model.open(session_id) if known else self.model.create(make_header(session_id)) as writer:
                writer.append(EncodedBatch(first_seq=len(known), events=more))

    def _stored_ids(self) -> set[str]:
        return {entry.header.id for entry in self.model.list() if entry.header is not None}


def _agreed(act: Callable[[], T]) -> T:
    """Do in the model what the store has done."""
    try:
        return act()
    except PersistenceError as error:
        raise AssertionError(f"the store did what the model refuses: {error}") from error
