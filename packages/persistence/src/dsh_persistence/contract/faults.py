"""Faults as reusable parts: of the medium, below any store that works through ``os``, and of a store itself.

``failing`` fails file-system calls of this process by number, so that a test can enumerate them: the first, the second,
until a run passes without reaching its fault. ``FaultyStore`` fails appends of any store, before or after the fact.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Any, NamedTuple, Self, cast

from dsh_session import EncodedBatch, SessionEvent, SessionHeader

from .._seam import (  # noqa: TID252  # imports inside a package are relative
    Capabilities,
    GroupCommit,
    ListedSession,
    LogStore,
    LogTail,
    LogWriter,
    Receipt,
    Repair,
    SessionLocation,
    StoredPrefix,
)

WRITES = frozenset({"write", "pwrite"})
SYNCS = frozenset({"fsync", "fdatasync"})
CHANGES = WRITES | SYNCS | {"ftruncate", "link", "mkdir", "rename", "replace", "unlink"}
"""The functions of ``os`` that change what lies on disk, or make it durable."""
CALLS = CHANGES | {"close", "fstat", "listdir", "lstat", "open", "pread", "scandir", "stat"}
"""The functions of ``os`` that can be counted and failed, those that the platform has."""
_fstat = os.fstat  # its own questions are not counted


class Fault(Enum):
    """What happens to a call. Errors come before any effect, except that a failed ``close`` has closed."""

    EIO = "EIO"
    ENOSPC = "ENOSPC"
    EINTR = "EINTR"
    SHORT = "short"
    """A write writes the first half and says so; what is failed right after it finds the disk full."""
    KILL = "kill"
    """The process dies before the call."""
    TORN = "torn"
    """The process dies in the middle of a write, or before any other call."""


class Called(NamedTuple):
    """One counted call."""

    name: str
    failed: bool
    file: tuple[int, int] | None
    """Device and inode of the regular file whose descriptor it was given."""


@dataclass(slots=True)
class Injector:
    """Counts calls, and fails those from ``nth`` on, ``times`` of them; every call of every thread counts."""

    fault: Fault
    nth: int
    """1 for the next call; 0 fails none."""
    times: int = 1
    paused: bool = False
    """While set, calls are neither counted nor failed."""
    trace: list[Called] = field(default_factory=list)

    @property
    def reached(self) -> bool:
        """Whether there were as many calls as it takes; when not, all of them have been tried."""
        return 0 < self.nth <= len(self.trace)

    @property
    def fired(self) -> bool:
        """Whether anything has failed."""
        return any(called.failed for called in self.trace)

    @property
    def trusted_a_second_sync(self) -> bool:
        """Whether a sync was believed of a file whose sync had failed, and that has not been written or cut since.

        A kernel may drop what it could not write, and call the next sync a success.
        """
        dirty: set[tuple[int, int]] = set()
        lost: set[tuple[int, int]] = set()
        trusted: set[tuple[int, int]] = set()
        for name, failed, file in self.trace:
            if file is None:
                continue
            if name in SYNCS:
                if failed and file in dirty:
                    lost.add(file)
                elif not failed and file in lost:
                    trusted.add(file)
                dirty.discard(file)
            elif name in WRITES or (name == "ftruncate" and not failed):
                dirty.add(file)
                lost.discard(file)
                trusted.discard(file)
        return bool(trusted)

    def call(self, name: str, real: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Stand in for ``real``."""
        if self.paused:
            return real(*args, **named)
        number = len(self.trace) + 1
        failed = 0 < self.nth <= number < self.nth + self.times
        if self.fault is Fault.SHORT and self.times == 1:
            failed = failed and name in WRITES  # nothing else can be short
        self.trace.append(Called(name, failed, _file(args[0]) if args else None))
        if not failed:
            return real(*args, **named)
        if self.fault is Fault.SHORT and name in WRITES and number == self.nth:
            return _half(real, *args)
        if self.fault in (Fault.KILL, Fault.TORN):
            if self.fault is Fault.TORN and name in WRITES:
                _half(real, *args)
            os.kill(os.getpid(), signal.SIGKILL)
        if name == "close":
            real(*args, **named)
        code: int = errno.ENOSPC if self.fault is Fault.SHORT else getattr(errno, self.fault.value)
        raise OSError(code, os.strerror(code), *(arg for arg in args[:1] if not isinstance(arg, int)))


@contextlib.contextmanager
def failing(fault: Fault, *, nth: int, times: int = 1, calls: frozenset[str] = CALLS) -> Generator[Injector]:
    """Fail the ``nth`` of these calls from here on, and those right after it, ``times`` in all.

    With ``nth=0`` calls are only counted. Not to be nested.
    """
    injector = Injector(fault, nth, times)
    real = {name: getattr(os, name) for name in calls if hasattr(os, name)}

    def stand_in(name: str) -> Callable[..., Any]:
        return lambda *args, **named: injector.call(name, real[name], args, named)

    for name in real:
        setattr(os, name, stand_in(name))
    try:
        yield injector
    finally:
        for name, function in real.items():
            setattr(os, name, function)


def _half(write: Callable[..., int], fd: int, data: Any, *rest: Any) -> int:
    return write(fd, memoryview(data)[: (len(data) + 1) // 2], *rest)


def _file(first: object) -> tuple[int, int] | None:
    if not isinstance(first, int):
        return None
    try:
        status = _fstat(first)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


class FaultyStore:
    """A store whose appends fail on demand; what gets through is the inner store's own work.

    Reading, opening and repairing are never touched.
    """

    def __init__(self, inner: LogStore) -> None:
        self.inner = inner
        self.before: deque[Exception | None] = deque()
        """One is taken for each append or resend: raised before anything is written, or None to let it pass."""
        self.after: deque[Exception | None] = deque()
        """One is taken for each that has been written: raised in place of its receipt, which is lost."""

    @property
    def name(self) -> str:
        """The inner store's."""
        return self.inner.name

    @property
    def capabilities(self) -> Capabilities:
        """The inner store's."""
        return self.inner.capabilities

    def locate(self, header: SessionHeader) -> SessionLocation | None:
        """Ask the inner store."""
        return self.inner.locate(header)

    def create(self, header: SessionHeader) -> FaultyWriter:
        """Put faults around a writer of the inner store."""
        return FaultyWriter(self, self.inner.create(header))

    def open(self, session_id: str) -> FaultyWriter:
        """Put faults around a writer of the inner store."""
        return FaultyWriter(self, self.inner.open(session_id))

    def read(self, ref: str | SessionLocation, *, from_seq: int = 0) -> StoredPrefix:
        """Ask the inner store."""
        return self.inner.read(ref, from_seq=from_seq)

    def scan(self, ref: str | SessionLocation) -> Iterator[SessionEvent]:
        """Ask the inner store."""
        return self.inner.scan(ref)

    def tail(self, ref: str | SessionLocation, cursor: Mapping[str, int] | None = None) -> LogTail:
        """Ask the inner store."""
        return self.inner.tail(ref, cursor)

    def list(self) -> Iterator[ListedSession]:
        """Ask the inner store."""
        return self.inner.list()

    def append_group(self, items: Sequence[tuple[LogWriter, EncodedBatch]]) -> Sequence[Receipt | Exception]:
        """Hand on those that do not fail before; lose the receipts of those that fail after."""
        answers: list[Receipt | Exception | None] = [self.before.popleft() if self.before else None for _ in items]
        passing = [
            (cast("FaultyWriter", writer).inner, batch)
            for (writer, batch), answer in zip(items, answers, strict=True)
            if answer is None
        ]
        done = iter(cast("GroupCommit", self.inner).append_group(passing))
        for place, answer in enumerate(answers):
            if answer is None:
                found = next(done)
                lost = self.after.popleft() if self.after and isinstance(found, Receipt) else None
                answers[place] = found if lost is None else lost
        return cast("list[Receipt | Exception]", answers)

    def close(self) -> None:
        """Close the inner store."""
        self.inner.close()

    def fail(self, write: Callable[[], Receipt]) -> Receipt:
        """Write with the next faults around it."""
        if self.before and (error := self.before.popleft()) is not None:
            raise error
        receipt = write()
        if self.after and (error := self.after.popleft()) is not None:
            raise error
        return receipt


class FaultyWriter:
    """The claim on one log of a ``FaultyStore``."""

    def __init__(self, store: FaultyStore, inner: LogWriter) -> None:
        self.inner = inner
        self._store = store

    @property
    def stored(self) -> StoredPrefix | None:
        """The inner writer's."""
        return self.inner.stored

    @property
    def next_seq(self) -> int:
        """The inner writer's."""
        return self.inner.next_seq

    def append(self, batch: EncodedBatch) -> Receipt:
        """Append, or fail."""
        return self._store.fail(lambda: self.inner.append(batch))

    def resend(self, batch: EncodedBatch) -> Receipt:
        """Resend, or fail."""
        return self._store.fail(lambda: self.inner.resend(batch))

    def repair(self) -> Repair | None:
        """Repair the inner log."""
        return self.inner.repair()

    def checkpoint(self) -> None:
        """Pass it on."""
        self.inner.checkpoint()

    def close(self) -> None:
        """Close the inner writer."""
        self.inner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
