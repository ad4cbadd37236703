"""A coordinator over a store in memory that can be made to fail, or to wait, from outside."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Self

import pytest

from dsh_persistence import (
    Capabilities,
    ListedSession,
    LogStore,
    LogTail,
    LogWriter,
    MemoryLogStore,
    Receipt,
    Repair,
    SessionLocation,
    SessionPersistence,
    StoredPrefix,
    _write_behind,
)
from dsh_session import EncodedBatch, Session, SessionEvent, SessionHeader


class Faults:
    """What the medium does next, and what it was asked to do."""

    def __init__(self) -> None:
        self.failures: list[BaseException | None] = []
        """One entry is taken for each append: an error to raise, or None to let it pass."""
        self.gate = threading.Event()
        """Appends wait here while it is not set."""
        self.gate.set()
        self.opening = threading.Event()
        """Opening waits here while it is not set."""
        self.opening.set()
        self.reached = threading.Event()
        """Set when an append or an open has arrived at its gate."""
        self.batches: list[tuple[int, int]] = []
        """First seq and size of every batch that was tried."""
        self.writing = 0
        self.overlap = False
        """Whether two calls have used one writer at a time."""
        self.closed: list[str] = []


class FaultyWriter:
    def __init__(self, inner: LogWriter, faults: Faults, session_id: str) -> None:
        self._inner = inner
        self._faults = faults
        self._id = session_id

    @property
    def stored(self) -> StoredPrefix | None:
        return self._inner.stored

    @property
    def next_seq(self) -> int:
        return self._inner.next_seq

    def append(self, batch: EncodedBatch) -> Receipt:
        faults = self._faults
        faults.overlap |= faults.writing > 0
        faults.writing += 1
        try:
            faults.batches.append((batch.first_seq, len(batch.events)))
            faults.reached.set()
            assert faults.gate.wait(30)
            if faults.failures and (error := faults.failures.pop(0)) is not None:
                raise error
            return self._inner.append(batch)
        finally:
            faults.writing -= 1

    def resend(self, batch: EncodedBatch) -> Receipt:
        return self._inner.resend(batch)

    def repair(self) -> Repair | None:
        return self._inner.repair()

    def checkpoint(self) -> None:
        self._inner.checkpoint()

    def close(self) -> None:
        self._faults.overlap |= self._faults.writing > 0
        self._faults.closed.append(self._id)
        self._inner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FaultyStore:
    """Puts faults before a store; what the store does is untouched."""

    name = "faulty"

    def __init__(self, inner: LogStore, faults: Faults) -> None:
        self.inner = inner
        self._faults = faults

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    def locate(self, header: SessionHeader) -> SessionLocation | None:
        return self.inner.locate(header)

    def create(self, header: SessionHeader) -> FaultyWriter:
        return FaultyWriter(self.inner.create(header), self._faults, header.id)

    def open(self, session_id: str) -> FaultyWriter:
        self._faults.reached.set()
        assert self._faults.opening.wait(30)
        return FaultyWriter(self.inner.open(session_id), self._faults, session_id)

    def read(self, ref: str | SessionLocation, *, from_seq: int = 0) -> StoredPrefix:
        return self.inner.read(ref, from_seq=from_seq)

    def scan(self, ref: str | SessionLocation) -> Iterator[SessionEvent]:
        return self.inner.scan(ref)

    def tail(self, ref: str | SessionLocation, cursor: Mapping[str, int] | None = None) -> LogTail:
        return self.inner.tail(ref, cursor)

    def list(self) -> Iterator[ListedSession]:
        return self.inner.list()

    def close(self) -> None:
        self._faults.closed.append("store")
        self.inner.close()


@pytest.fixture
def memory() -> MemoryLogStore:
    return MemoryLogStore()


@pytest.fixture
def faults() -> Iterator[Faults]:
    faults = Faults()
    yield faults
    faults.gate.set()
    faults.opening.set()
    assert not faults.overlap, "one writer was used by two threads at a time"


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry almost at once."""
    monkeypatch.setattr(_write_behind, "RETRY_DELAYS_S", (0.01,))


@pytest.fixture
def slow_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never retry within a test."""
    monkeypatch.setattr(_write_behind, "RETRY_DELAYS_S", (3600.0,))


@pytest.fixture
async def start(memory: MemoryLogStore, faults: Faults) -> AsyncIterator[Callable[..., SessionPersistence]]:
    """Make coordinators over the one store; what they leave unwritten at the end is no matter here."""
    made: list[SessionPersistence] = []

    def make(**options: Any) -> SessionPersistence:
        made.append(SessionPersistence(FaultyStore(memory, faults), **options))
        return made[-1]

    yield make
    faults.failures.clear()
    faults.gate.set()
    faults.opening.set()
    for one in made:
        await one.close()


@pytest.fixture
def new_session() -> Callable[..., Session]:
    def make(session_id: str = "session-1") -> Session:
        return Session(SessionHeader(id=session_id, created_at=1, cwd="/w"))

    return make


@pytest.fixture
def until() -> Callable[..., Any]:
    """Wait until a condition holds; a test that waits in vain fails after many seconds."""

    async def wait(condition: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.002)

    return wait
