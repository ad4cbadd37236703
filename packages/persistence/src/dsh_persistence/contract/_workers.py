"""Who uses a store in the contract: writers in a process of their own, which can be killed, or in this one."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Literal, NamedTuple, Protocol, cast

from dsh_session import EncodedBatch

from .._seam import GroupCommit, LogStore, LogWriter, Receipt  # noqa: TID252  # imports inside a package are relative
from ..errors import OutcomeUnknown, PersistenceError  # noqa: TID252  # as above
from ._material import make_header
from .faults import CALLS, Fault, FaultyStore, failing

OpenStore = Callable[[], LogStore]
Verb = Literal["create", "open", "append", "append_group", "resend", "repair", "checkpoint", "close"]

_PATIENCE_S = 60
_WATCH_S = 1.0


class Plan(NamedTuple):
    """Which file-system calls of one request fail, as ``failing`` has it."""

    fault: Fault
    nth: int
    times: int = 1
    calls: frozenset[str] = CALLS


class Request(NamedTuple):
    """One call on the writer that a seat has of a session."""

    seat: int
    verb: Verb
    session_id: str
    batch: EncodedBatch | None = None
    plan: Plan | None = None
    loses: bool = False
    """Whether the receipt is lost: the batch is written and its outcome reported as unknown."""
    also: tuple[tuple[str, EncodedBatch], ...] = ()
    """The other members of a group."""


class Answer(NamedTuple):
    """What a call returned or raised, as plain data that crosses processes."""

    error: str | None = None
    """The name of the error's class."""
    text: str = ""
    next_seq: int | None = None
    """Where the log goes on: by the receipt, or for ``open`` by the stored log."""
    digest: bytes = b""
    fired: bool = False
    """Whether a planned fault was reached."""
    repaired: bool = False
    distrusted: bool = False
    """Whether a success rests on a sync that was tried again with nothing written in between."""
    also: tuple[Answer, ...] = ()


class Worker(Protocol):
    """Somebody who uses a store."""

    def do(self, request: Request) -> Answer | None:
        """Do as asked; None when the process has died of it."""
        ...

    def end(self) -> None:
        """Be gone at once, by being killed where that is possible."""
        ...


class LocalWorker:
    """Works in this process; when it ends its writers are closed."""

    def __init__(self, open_store: OpenStore, *, mortal: bool = False) -> None:
        """Plans to kill are passed over unless it is ``mortal``: its process is there to be killed."""
        self._open_store = open_store
        self._mortal = mortal
        self._stores: dict[int, FaultyStore] = {}
        self._writers: dict[tuple[int, str], LogWriter] = {}

    def do(self, request: Request) -> Answer:
        """Call the store or a writer, and put what comes of it in words."""
        store = self._store(request.seat)
        store.after.append(OutcomeUnknown(store.name, "the receipt was lost") if request.loses else None)
        plan = request.plan
        if plan is None or (plan.fault in (Fault.KILL, Fault.TORN) and not self._mortal):
            plan = Plan(Fault.EIO, nth=0)
        with failing(plan.fault, nth=plan.nth, times=plan.times, calls=plan.calls) as injector:
            answer = _answer(lambda: self._act(request))
        store.after.clear()
        distrusted = answer.error is None and injector.trusted_a_second_sync
        return answer._replace(fired=injector.fired, distrusted=distrusted)

    def end(self) -> None:
        """Close the writers."""
        for writer in self._writers.values():
            writer.close()
        for store in self._stores.values():
            store.close()
        self._writers.clear()
        self._stores.clear()

    def _store(self, seat: int) -> FaultyStore:
        if seat not in self._stores:
            self._stores[seat] = FaultyStore(self._open_store())
        return self._stores[seat]

    def _act(self, request: Request) -> Answer:
        key = (request.seat, request.session_id)
        batch = cast("EncodedBatch", request.batch)
        match request.verb:
            case "create":
                self._writers[key] = self._store(request.seat).create(make_header(request.session_id))
            case "open":
                writer = self._writers[key] = self._store(request.seat).open(request.session_id)
                return Answer(next_seq=None if writer.stored is None else writer.stored.next_seq)
            case "append":
                return _received(self._writers[key].append(batch))
            case "append_group":
                return self._group(request)
            case "resend":
                return _received(self._writers[key].resend(batch))
            case "repair":
                repaired = self._writers[key].repair() is not None
                return Answer(repaired=repaired, next_seq=self._writers[key].next_seq)
            case "checkpoint":
                self._writers[key].checkpoint()
            case "close":
                self._writers.pop(key).close()
        return Answer()

    def _group(self, request: Request) -> Answer:
        batches = [(request.session_id, cast("EncodedBatch", request.batch)), *request.also]
        items = [(self._writers[request.seat, session_id], batch) for session_id, batch in batches]
        answers = cast("GroupCommit", self._store(request.seat)).append_group(items)
        return Answer(also=tuple(_received(answer) for answer in answers))


class ProcessWorker:
    """Works in a process of its own, forked from this one, so that nothing it needs has to be importable.

    A fork happens between calls, when no thread of the contract works on a store.
    """

    def __init__(self, open_store: OpenStore) -> None:
        context = multiprocessing.get_context("fork")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(open_store, theirs, os.getpid()), daemon=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of a test runner take no part in it
            self._process.start()
        theirs.close()

    def do(self, request: Request) -> Answer | None:
        """Have it done there."""
        self._ours.send(request)
        try:
            if not self._ours.poll(_PATIENCE_S):
                raise AssertionError(f"no answer to {request.verb} within {_PATIENCE_S} s")
            answer = cast("Answer", self._ours.recv())
        except EOFError:
            self.end()
            return None
        return answer

    def end(self) -> None:
        """Kill it, as ``kill -9`` does, and wait until it is gone."""
        if self._ours.closed:
            return
        self._ours.close()
        self._process.kill()
        self._process.join()
        self._process.close()


def run_until_killed(act: Callable[[Callable[[object], None]], None]) -> Sequence[object]:
    """Run ``act`` in a forked process and kill that when it is done; return what it reported with its argument."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_act_and_wait, args=(act, theirs), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # as above
        process.start()
    theirs.close()
    reports: list[object] = []
    with contextlib.suppress(EOFError):
        while ours.poll(_PATIENCE_S) and (report := ours.recv()) is not None:
            reports.append(report)
    process.kill()
    process.join()
    process.close()
    ours.close()
    return reports


def _act_and_wait(act: Callable[[Callable[[object], None]], None], connection: Connection) -> None:
    act(connection.send)
    connection.send(None)
    time.sleep(_PATIENCE_S)


def can_fork() -> bool:
    """Tell whether this platform can run a ``ProcessWorker``."""
    return "fork" in multiprocessing.get_all_start_methods()


def _serve(open_store: OpenStore, connection: Connection, parent: int) -> None:
    worker = LocalWorker(open_store, mortal=True)
    with contextlib.suppress(EOFError, OSError):
        while True:
            while not connection.poll(_WATCH_S):
                if os.getppid() != parent:  # nobody is left who could kill this process
                    os._exit(1)
            connection.send(worker.do(connection.recv()))


def _answer(act: Callable[[], Answer]) -> Answer:
    try:
        return act()
    except (OSError, PersistenceError) as error:
        return _failed(error)
    except Exception as error:  # noqa: BLE001  # a defect of the store is reported by the one who asked
        return _failed(error)._replace(text="".join(traceback.format_exception(error)))


def _received(answer: Receipt | Exception) -> Answer:
    if isinstance(answer, Receipt):
        return Answer(next_seq=answer.next_seq, digest=answer.digest)
    return _failed(answer)


def _failed(error: Exception) -> Answer:
    name = "OSError" if isinstance(error, OSError) else type(error).__name__
    return Answer(error=name, text=str(error))


def workers(open_store: OpenStore, seats: int) -> Sequence[Callable[[], Worker]]:
    """Say how to start the worker of each seat: processes where the store outlives them, one each where claims do."""
    capabilities = open_store().capabilities
    kind = ProcessWorker if capabilities.durable and can_fork() else LocalWorker
    return [lambda: kind(open_store)] * (seats if capabilities.cross_process_claim else 1)
