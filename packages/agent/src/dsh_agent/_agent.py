"""An agent: one session, one turn at a time."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from dsh_context import Context
from dsh_session import Session

from ._model import ModelRoute
from ._services import MODEL, TOOLS, AgentFailed, TurnEnded
from ._tools import ToolExecution
from ._turn import Turn, TurnContext

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """How a turn ended."""

    turn: int
    reason: Mapping[str, Any]
    """``kind`` is completed, max-tokens, error, aborted … as in the log (FORMAT §5)."""
    text: str
    """The last assistant message's text."""


class Agent:
    """Drives one session. Made by ``Agents``."""

    def __init__(self, ctx: Context, session: Session, *, route: ModelRoute, system_prompt: str) -> None:
        self.session = session
        self._ctx = ctx
        self._route = route
        self._system_prompt = system_prompt
        self._header_reason: str | None = "initial" if session.state.request_header_seq is None else "resume"
        self._turns = asyncio.Lock()

    async def prompt(self, text: str) -> TurnResult:
        """Run one turn on a human's message; a second call waits for the first.

        Returns also when the model failed: ``reason.kind`` tells. Cancelling the call closes the turn as aborted.
        """
        message = {
            "content": [{"type": "text", "text": text}],
            "source": {"kind": "user"},
            "role": "user",
            "id": _new_id(),
        }
        async with self._turns:
            turn = Turn(
                TurnContext(
                    session=self.session,
                    model=self._ctx.require(MODEL),
                    route=self._route,
                    tools=self._ctx.require(TOOLS),
                    system_prompt=self._system_prompt,
                    header_reason=self._header_reason,
                    new_id=_new_id,
                    clock=self.session.clock,
                    execution=partial(ToolExecution, agent=self),
                )
            )
            try:
                reason = await turn.run([message])
            finally:
                await self._ended(turn)
            return TurnResult(turn=turn.number, reason=reason, text=self._last_text())

    async def _ended(self, turn: Turn) -> None:
        """Announce the end of a turn, and wait: the turn-end flush listens here."""
        self._header_reason = None
        end = self.session.events[-1]
        try:
            await self._ctx.emit(TurnEnded(agent=self, turn=turn.number, reason=end.data["reason"]))
        except ExceptionGroup as errors:
            # The turn is closed in the log, so the log cannot say it; later work goes on.
            logger.exception("after turn %d of session %s", turn.number, self.session.id)
            await self._ctx.emit(AgentFailed(agent=self, error=errors))

    def _last_text(self) -> str:
        for message in reversed(self.session.messages()):
            if message["role"] == "assistant":
                return "".join(block["text"] for block in message["content"] if block["type"] == "text")
        return ""


def _new_id() -> str:
    return str(uuid.uuid4())
