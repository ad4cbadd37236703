"""Why a turn shall end before it is done (BEHAVIOUR §6.2, §6.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Literal, TypeAlias

CancelCause: TypeAlias = Literal["user", "parent", "hook", "disposed"]
"""Who ended a turn: the human, the agent that delegated, an extension, or the end of the agent itself."""


class Cancellation:
    """A turn's way to be told to end; the first cause wins."""

    def __init__(self) -> None:
        self._reason: Mapping[str, str] | None = None
        self.task: asyncio.Task[None] | None = None
        """The task that runs the turn."""

    @property
    def is_requested(self) -> bool:
        """Whether somebody wants the turn to end."""
        return self._reason is not None

    @property
    def reason(self) -> Mapping[str, str]:
        """Who does, as the log says it; a task that was cancelled without a word goes with its event loop."""
        return self._reason or {"kind": "disposed"}

    def request(self, cause: CancelCause, reason: str = "") -> None:
        """Interrupt whatever the turn awaits; ``reason`` is what a hook says."""
        if self._reason is not None:
            return
        self._reason = {"kind": cause, "reason": reason} if cause == "hook" else {"kind": cause}
        if self.task is not None:
            self.task.cancel()

    def check(self) -> None:
        """Raise ``CancelledError`` when the turn shall end: foreign code may have swallowed the first one."""
        if self._reason is not None:
            raise asyncio.CancelledError
