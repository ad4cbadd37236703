"""What a ``LogStore`` promises when writes fail, processes die, and outcomes are unknown; one test a promise."""

# These are tests, and assertions are how they speak; imports inside a package are relative.
# ruff: noqa: S101, TID252

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from dsh_session import EncodedBatch, SessionEvent

from .._seam import GroupCommit, LogStore, LogWriter, Receipt
from ..errors import OutcomeUnknown, PersistenceError, SeqConflict, SessionBusy, SessionNotFound
from ._machine import SETTINGS, StoreMachine
from ._material import make_batch, make_event, make_header
from ._workers import Answer, OpenStore, Plan, ProcessWorker, Request, can_fork
from .faults import CHANGES, Fault, failing

_MANY = 200
AppendGroup = Callable[[Sequence[tuple[LogWriter, EncodedBatch]]], Sequence[Receipt | Exception]]


class OutcomePromises:
    """The promises from P27 on; they use the fixture of ``LogStoreContract``."""

    machine_settings: ClassVar[settings] = SETTINGS
    """How long the state machine of P39 looks; a subclass may ask for more."""

    def test_p27_resend_adopts(self, new_location: OpenStore) -> None:
        """P27: resending what is stored writes nothing and gives the same receipt, also after opening again."""
        header, first, second = make_header(), make_batch(0, 3), make_batch(3, 2)
        with new_location().create(header) as writer:
            receipts = [writer.append(first), writer.append(second)]
            revision = new_location().read(header.id).revision
            assert [writer.resend(first), writer.resend(second), writer.resend(make_batch(0, 5))][:2] == receipts
            assert writer.next_seq == 5
        with new_location().open(header.id) as writer:
            assert [writer.resend(first), writer.resend(second)] == receipts
            assert writer.next_seq == 5
            assert new_location().read(header.id).revision == revision
            writer.append(make_batch(5))
        assert _stored(new_location(), header.id) == make_batch(0, 6).events

    def test_p28_resend_completes(self, new_location: OpenStore) -> None:
        """P28: of a batch that is missing, or stored in part, resending writes what is missing, once."""
        whole, header = make_batch(0, 5), make_header()
        with new_location().create(make_header("whole")) as writer:
            receipt = writer.resend(whole)
        with new_location().create(header) as writer:
            writer.append(make_batch(0, 2))
            assert writer.resend(whole) == receipt
            writer.append(make_batch(5))
        with new_location().open(header.id) as writer:
            assert writer.resend(make_batch(4, 4)).next_seq == writer.next_seq == 8
            assert writer.resend(make_batch(8, 0)).next_seq == 8
            writer.append(make_batch(8))
        assert _stored(new_location(), header.id) == make_batch(0, 9).events
        assert _stored(new_location(), "whole") == whole.events

    def test_p29_resend_of_something_else(self, new_location: OpenStore) -> None:
        """P29: resending a batch that differs from what is stored, or lies beyond it, changes nothing."""
        store, header = new_location(), make_header()
        other = EncodedBatch(first_seq=1, events=(make_event(1), make_event(2, {"n": "another"}), make_event(3)))
        later = EncodedBatch(first_seq=2, events=(make_event(2, time=1),))
        with store.create(header) as writer:
            writer.append(make_batch(0, 3))
            revision = store.read(header.id).revision
            for batch in (other, later, make_batch(4)):
                with pytest.raises(SeqConflict):
                    writer.resend(batch)
            assert (store.read(header.id).revision, writer.next_seq) == (revision, 3)
            writer.append(make_batch(3))
        assert _stored(store, header.id) == make_batch(0, 4).events

    def test_p30_digests(self, new_location: OpenStore) -> None:
        """P30: the digest of a batch is the same in every log and store, and differs when the data differs."""
        digests: list[bytes] = []
        for session_id, batch in (
            ("one", make_batch(0, 3)),
            ("two", make_batch(0, 3)),
            ("three", EncodedBatch(first_seq=0, events=(*make_batch(0, 2).events, make_event(2, {"n": -2})))),
        ):
            with new_location().create(make_header(session_id)) as writer:
                digests.append(writer.append(batch).digest)
        assert digests[0] == digests[1] != digests[2]
        assert all(digests)

    def test_p31_checkpoints_and_empty_logs(self, new_location: OpenStore) -> None:
        """P31: a checkpoint changes nothing that a reader sees, and nothing but an event makes a log appear."""
        store, header = new_location(), make_header()
        with store.create(header) as writer:
            writer.checkpoint()
            assert writer.repair() is None
            writer.resend(make_batch(0, 0))
            assert list(store.list()) == []
        with pytest.raises(SessionNotFound):
            store.read(header.id)
        with store.create(header) as writer:
            writer.append(make_batch(0, 2))
            revision = store.read(header.id).revision
            for _ in range(2):
                writer.checkpoint()
            assert store.read(header.id).revision == revision
            writer.append(make_batch(2))
        writer.checkpoint()
        assert _stored(store, header.id) == make_batch(0, 3).events

    def test_p32_reading_changes_nothing(self, new_location: OpenStore) -> None:
        """P32: locating, reading, streaming, following and listing change no name, byte, mode or time on disk."""
        header = make_header()
        for end in (2, 4):
            with new_location().create(header) if end == 2 else new_location().open(header.id) as writer:
                writer.append(make_batch(end - 2, 2))
                _require_unchanged(new_location, header.id)
            _require_unchanged(new_location, header.id)
        assert _stored(new_location(), header.id) == make_batch(0, 4).events

    def test_p33_group_commit(self, new_location: OpenStore) -> None:
        """P33: ``append_group`` is there where it is declared; it answers in order, with what ``append`` gives."""
        store = new_location()
        append_group = _group_commit(store)
        assert list(append_group([])) == []
        headers = [make_header(f"session-{number}") for number in range(4)]
        with store.create(make_header("alone")) as alone:
            expected = [alone.append(make_batch(0, 2)), alone.append(make_batch(2, 3))]
        with contextlib.ExitStack() as stack:
            writers: list[LogWriter] = [stack.enter_context(store.create(header)) for header in headers]
            for receipt, batch in zip(expected, (make_batch(0, 2), make_batch(2, 3)), strict=True):
                assert list(append_group([(writer, batch) for writer in writers])) == [receipt] * 4
            mixed = [(writer, make_batch(5, count)) for count, writer in enumerate(writers)]
            found = list(append_group(mixed))
            assert [isinstance(one, Receipt) and one.next_seq for one in found] == [5, 6, 7, 8]
            writers[1].append(make_batch(6))
        for header, count in zip(headers, (5, 7, 7, 8), strict=True):
            assert _stored(new_location(), header.id) == make_batch(0, count).events

    def test_p34_failures_in_a_group(self, new_location: OpenStore) -> None:
        """P34: what fails in a group writes nothing and holds nobody up; its error stands in its place."""
        store = new_location()
        append_group = _group_commit(store)
        with store.create(make_header("taken")) as writer:
            writer.append(make_batch(0))
        with (
            store.create(make_header("first")) as first,
            store.create(make_header("taken")) as taken,
            store.create(make_header("early")) as early,
            store.create(make_header("last")) as last,
        ):
            group: list[tuple[LogWriter, EncodedBatch]] = [
                (first, make_batch(0, 2)), (taken, make_batch(0, 2)), (early, make_batch(3)), (last, make_batch(0, 2)),
            ]  # fmt: skip
            found = append_group(group)
            kinds = [type(one).__name__ for one in found]
            assert kinds == ["Receipt", "SessionAlreadyStored", "SeqConflict", "Receipt"]
            assert isinstance(early.append(make_batch(0)), Receipt)
        stored = {session_id: len(_stored(new_location(), session_id)) for session_id in ("first", "taken", "last")}
        assert stored == {"first": 2, "taken": 1, "last": 2}

    def test_p35_claims_between_processes(self, new_location: OpenStore) -> None:
        """P35: a writer of another process keeps the session busy, and its claim ends when it is killed."""
        if not new_location().capabilities.cross_process_claim:
            pytest.skip("the store declares no claims between processes")
        _require_fork()
        header = make_header()
        with _process(new_location) as worker:
            _done(worker, Request(0, "create", header.id))
            _done(worker, Request(0, "append", header.id, make_batch(0, 2)))
            for _ in range(2):
                with pytest.raises(SessionBusy):
                    new_location().open(header.id)
            assert _stored(new_location(), header.id) == make_batch(0, 2).events
        with new_location().open(header.id) as writer:
            writer.append(make_batch(2))
            with _process(new_location) as worker:
                answer = worker.do(Request(0, "open", header.id))
                assert answer is not None
                assert answer.error == "SessionBusy"
        assert _stored(new_location(), header.id) == make_batch(0, 3).events

    def test_p36_acknowledged_is_there_after_a_kill(self, new_location: OpenStore) -> None:
        """P36: when a process is killed, every event that was acknowledged to it is there, and the log goes on."""
        _require_durable(new_location)
        header = make_header()
        for first in range(0, 6, 2):
            with _process(new_location) as worker:
                if first:
                    assert _done(worker, Request(0, "open", header.id)).next_seq == first
                    _done(worker, Request(0, "repair", header.id))
                else:
                    _done(worker, Request(0, "create", header.id))
                for seq in (first, first + 1):
                    _done(worker, Request(0, "append", header.id, make_batch(seq)))
            assert _stored(new_location(), header.id) == make_batch(0, first + 2).events
        with new_location().open(header.id) as writer:
            writer.repair()
            writer.append(make_batch(6))
        assert _stored(new_location(), header.id) == make_batch(0, 7).events

    @pytest.mark.parametrize("fresh", [True, False])
    @pytest.mark.parametrize("fault", [Fault.KILL, Fault.TORN])
    def test_p37_killed_in_the_middle(self, new_location: OpenStore, fault: Fault, *, fresh: bool) -> None:
        """P37: killed at any call of an append, a log keeps what it had; a repair keeps what a reader saw of the batch.

        Repairing again does nothing, and resending the batch gives it once.
        """
        _require_durable(new_location)
        for nth in _each():
            if not _kill_and_recover(new_location, f"killed-{nth}", Plan(fault, nth, calls=CHANGES), fresh=fresh):
                break

    @pytest.mark.parametrize("fresh", [True, False])
    @pytest.mark.parametrize("times", [1, 2, 3])
    @pytest.mark.parametrize("fault", [Fault.EIO, Fault.SHORT])
    def test_p38_failed_calls(self, new_location: OpenStore, fault: Fault, times: int, *, fresh: bool) -> None:
        """P38: when any calls of an append fail, its batch is not there, or its outcome is reported as unknown.

        Trying again gives it once, and no sync is trusted that follows a failed one.
        """
        for nth in _each():
            if not _fail_and_retry(new_location, f"failed-{nth}", Plan(fault, nth, times, CHANGES), fresh=fresh):
                break

    def test_p39_any_order_of_events(self, new_location: OpenStore) -> None:
        """P39: whatever two processes do to two sessions, with faults and kills, agrees with the model."""
        run_state_machine_as_test(cast("Any", lambda: StoreMachine(new_location)), settings=self.machine_settings)


def _stored(store: LogStore, session_id: str) -> tuple[SessionEvent, ...]:
    return tuple(store.read(session_id).events)


def _found(store: LogStore, session_id: str) -> tuple[SessionEvent, ...]:
    """Return what is stored, nothing for a log that does not exist."""
    try:
        return _stored(store, session_id)
    except SessionNotFound:
        return ()


def _require_unchanged(new_location: OpenStore, session_id: str) -> None:
    """Use everything that only reads, twice, and compare what lies on disk, and what the store says of it."""
    store = new_location()
    location = store.locate(make_header(session_id))
    artifact = None if location is None else location.path
    before = _picture(artifact), store.read(session_id).revision
    for _ in range(2):
        events = tuple(store.read(session_id).events)
        assert tuple(store.read(session_id, from_seq=1).events) == events[1:]
        assert tuple(store.scan(session_id)) == events
        assert tuple(store.tail(session_id, store.tail(session_id).cursor).events) == ()
        assert [entry.problem for entry in new_location().list()] == [None]
        store.locate(make_header(session_id))
    assert (_picture(artifact), store.read(session_id).revision) == before


def _picture(artifact: str | None) -> dict[str, Any]:
    """Describe everything beside a session's artifact."""
    if artifact is None:
        return {}
    folder = Path(artifact).parent
    found: dict[str, Any] = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        found[str(path)] = (status.st_mode, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, content)
    return found


def _group_commit(store: LogStore) -> AppendGroup:
    if not store.capabilities.group_commit:
        pytest.skip("the store declares no group commit")
    return cast("GroupCommit", store).append_group


def _require_durable(new_location: OpenStore) -> None:
    if not new_location().capabilities.durable:
        pytest.skip("the store does not declare that its logs outlive the process")
    _require_fork()


def _require_fork() -> None:
    if not can_fork():
        pytest.skip("this platform cannot fork a process to kill")


@contextlib.contextmanager
def _process(new_location: OpenStore) -> Generator[ProcessWorker]:
    """Run a process that is killed at the end."""
    worker = ProcessWorker(new_location)
    try:
        yield worker
    finally:
        worker.end()


def _done(worker: ProcessWorker, request: Request) -> Answer:
    answer = worker.do(request)
    assert answer is not None, f"the process died of {request.verb}"
    assert answer.error is None, answer
    return answer


def _each() -> Iterator[int]:
    """Count calls from the first one on. Only those that change something: how often a store looks may grow."""
    yield from range(1, _MANY)
    pytest.fail(f"an append makes more than {_MANY} calls that change something")


def _kill_and_recover(new_location: OpenStore, session_id: str, plan: Plan, *, fresh: bool) -> bool:
    """Kill a process in the middle of an append and go on with the log; tell whether it got there."""
    known = () if fresh else make_batch(0, 2).events
    batch = make_batch(len(known), 3)
    whole = (*known, *batch.events)
    with _process(new_location) as worker:
        _done(worker, Request(0, "create", session_id))
        if known:
            _done(worker, Request(0, "append", session_id, make_batch(0, 2)))
        answer = worker.do(Request(0, "append", session_id, batch, plan))
    store = new_location()
    found = _found(store, session_id)
    if answer is not None:
        assert (answer.error, found) == (None, whole)
        return False
    assert len(found) >= len(known)
    assert found == whole[: len(found)]
    if not found:
        with pytest.raises(SessionNotFound):
            store.open(session_id)
    with store.open(session_id) if found else store.create(make_header(session_id)) as writer:
        writer.repair()
        assert writer.repair() is None
        assert _found(new_location(), session_id) == found
        assert writer.resend(batch).next_seq == len(whole)
    _require_writable(new_location(), session_id, whole)
    return True


def _fail_and_retry(new_location: OpenStore, session_id: str, plan: Plan, *, fresh: bool) -> bool:
    """Fail calls of an append and try again until it is acknowledged; tell whether there were calls to fail."""
    known = () if fresh else make_batch(0, 2).events
    batch = make_batch(len(known), 3)
    whole = (*known, *batch.events)
    with new_location().create(make_header(session_id)) as writer:
        if known:
            writer.append(make_batch(0, 2))
        send = writer.append
        with failing(plan.fault, nth=plan.nth, times=plan.times, calls=plan.calls) as injector:
            for _ in range(plan.times + 1):
                try:
                    assert send(batch).next_seq == len(whole)
                    break
                except (OSError, PersistenceError) as error:
                    unknown = isinstance(error, OutcomeUnknown)
                assert injector.fired, "an append failed although no call of it did"
                injector.paused = True
                found = _found(new_location(), session_id)
                injector.paused = False
                if unknown:
                    send = writer.resend
                if send == writer.append:
                    assert found == known, "an append raised, and something of its batch is there"
                assert known == found[: len(known)]
                assert found == whole[: len(found)]
            else:
                pytest.fail(f"the batch could not be written, although only {plan.times} calls failed")
        if injector.trusted_a_second_sync:
            pytest.fail(f"a sync was trusted that came after a failed one, call {plan.nth} of the append")
    _require_writable(new_location(), session_id, whole)
    return injector.reached


def _require_writable(store: LogStore, session_id: str, events: tuple[SessionEvent, ...]) -> None:
    """Check that a log holds these events and goes on with the next one."""
    more = make_batch(len(events))
    with store.open(session_id) as writer:
        assert writer.repair() is None
        writer.append(more)
    assert _stored(store, session_id) == (*events, *more.events)
