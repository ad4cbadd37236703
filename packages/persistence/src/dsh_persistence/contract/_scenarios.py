"""What the tests of the coordinator are made with: scenarios on a loop, live sessions, and what is stored of them."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dsh_session import Session, SessionEvent

from .._service import SessionPersistence  # noqa: TID252  # imports inside a package are relative
from ._material import make_header
from ._workers import OpenStore

PATIENCE_S = 60
NOTE = "plugin:contract/note"

Scenario = Callable[[Any, OpenStore], Coroutine[Any, Any, None]]


def on_a_loop(scenario: Scenario) -> Callable[[Any, OpenStore], None]:
    """Make a test of a coroutine, so that the contract needs no plugin of anybody's pytest."""

    @functools.wraps(scenario)
    def test(self: Any, new_location: OpenStore) -> None:
        asyncio.run(asyncio.wait_for(scenario(self, new_location), PATIENCE_S))

    return test


def new_session(session_id: str = "session-1", *, notes: int = 0, **fields: Any) -> Session:
    """Return a session that belongs to nobody, with so many notes in it."""
    session = Session(make_header(session_id, **fields))
    for _ in range(notes):
        add_note(session)
    return session


def add_note(session: Session) -> SessionEvent:
    """Append an event that no rule looks at."""
    return session.append(NOTE, {"n": session.next_seq})


def stored_events(new_location: OpenStore, session_id: str = "session-1") -> list[SessionEvent]:
    """Return what is stored, as another store sees it."""
    return list(new_location().read(session_id).events)


def types_of(events: Sequence[SessionEvent]) -> tuple[str, ...]:
    """Return what happened, without the data."""
    return tuple(event.type for event in events)


@asynccontextmanager
async def unwritten(service: SessionPersistence) -> AsyncGenerator[SessionPersistence]:
    """Close a service that cannot write everything; that it says so is another promise."""
    try:
        yield service
    finally:
        with pytest.raises(ExceptionGroup):
            await service.close()
