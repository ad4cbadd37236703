"""One operation a session at a time, for what opens and claims a log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from .errors import SessionBusy


class _Turn:
    __slots__ = ("holder", "lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0
        self.holder: str | None = None


class Turns:
    """Who is opening which session. An id that nobody opens takes no memory."""

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}

    def holder(self, session_id: str) -> str | None:
        """Return what is under way with the session, for example ``a load``; None when nothing is."""
        turn = self._turns.get(session_id)
        return None if turn is None else turn.holder

    @asynccontextmanager
    async def take(
        self, session_id: str, holder: str, *, wait_for: tuple[str, ...] | None = None
    ) -> AsyncGenerator[None]:
        """Hold the session; whoever waits gets it in the order of the calls.

        Raises ``SessionBusy`` when it is held for something that is not in ``wait_for``; None waits for whatever it is.
        """
        turn = self._turns.setdefault(session_id, _Turn())
        if wait_for is not None and turn.holder is not None and turn.holder not in wait_for:
            raise SessionBusy(session_id, f"{turn.holder} under way")
        turn.users += 1
        try:
            async with turn.lock:
                turn.holder = holder
                try:
                    yield
                finally:
                    turn.holder = None
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[session_id]
