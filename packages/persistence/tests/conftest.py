"""A coordinator over a store in memory that can be made to fail, or to wait, from outside."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dsh_persistence import LogStore, MemoryLogStore, SessionPersistence, _write_behind
from dsh_session import Session, SessionEvent, SessionHeader

# Test modules cannot import each other under importlib mode; this makes ``gated_store`` importable.
sys.path.insert(0, str(Path(__file__).parent))

from gated_store import Faults, GatedStore


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

    def make(store: LogStore = memory, **options: Any) -> SessionPersistence:
        made.append(SessionPersistence(GatedStore(store, faults), **options))
        return made[-1]

    yield make
    faults.failures.clear()
    faults.gate.set()
    faults.opening.set()
    for one in made:
        with contextlib.suppress(ExceptionGroup):
            await one.close()


@pytest.fixture
def new_session() -> Callable[..., Session]:
    def make(session_id: str = "session-1", *, cwd: str | None = "/w", stored: Sequence[SessionEvent] = ()) -> Session:
        return Session(SessionHeader(id=session_id, created_at=1, cwd=cwd), stored=stored)

    return make


@pytest.fixture
def until() -> Callable[..., Any]:
    """Wait until a condition holds; a test that waits in vain fails after many seconds."""

    async def wait(condition: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.002)

    return wait
