"""An agent: one session, one turn at a time."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from dsh_context import Context
from dsh_session import Session

from ._model import ModelRoute
from ._services import MODEL, TOOLS, AgentFailed, TurnEnded
from ._tools import ToolExecution
from ._turn import Message, Turn, TurnContext

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """How a turn ended."""

    turn: int
    reason: Mapping[str, Any]
    """``kind`` is completed, max-tokens, error, aborted … as in the log (FORMAT §5)."""
    text: str
    """The last assistant message's text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """Where a delegated session comes from."""

    parent: str
    """The session that delegated to it."""
    root: str
    """The session at the top of the chain of delegations, or the farthest one that is known."""


class Agent:
    """Drives one session. Made by ``Agents``."""

    def __init__(
        self,
        ctx: Context,
        session: Session,
        *,
        route: ModelRoute,
        system_prompt: str,
        lineage: Lineage | None = None,
    ) -> None:
        self.session = session
        self.lineage = lineage
        """None for a session that nobody delegated."""
        self._ctx = ctx
        self._route = route
        self._system_prompt = system_prompt
        self._header_reason: str | None = "initial" if session.state.request_header_seq is None else "resume"
        self._turns = asyncio.Lock()
        self._waiting: list[Message] = []
        self._waker: asyncio.Task[None] | None = None
        self._shall_wake = self._is_stopped = False

    async def prompt(self, text: str) -> TurnResult:
        """Run one turn on a human's message; a second call waits for the first.

        Returns also when the model failed: ``reason.kind`` tells. Cancelling the call closes the turn as aborted.
        """
        async with self._turns:
            return await self._take_turn(_message(text, {"kind": "user"}))

    def inject(self, text: str, source: Mapping[str, Any]) -> Callable[[], None]:
        """Have a message of ``source`` enter the next turn, before the turn's own; the returned function takes it back.

        Taking back does nothing once the message has entered.
        """
        message = _message(text, source)
        self._waiting.append(message)

        def take_back() -> None:
            if message in self._waiting:
                self._waiting.remove(message)

        return take_back

    def followup(self, text: str, source: Mapping[str, Any]) -> Callable[[], None]:
        """``inject``, and open a turn for it: at once, or after the turns that run and wait, unless one takes it along.

        Nobody awaits such a turn: what it raises becomes ``AgentFailed``.
        """
        take_back = self.inject(text, source)
        if not self._is_stopped:
            self._shall_wake = True
            if self._waker is None:
                # The agent owns this task: ``stop`` awaits it.
                self._waker = asyncio.get_running_loop().create_task(self._wake())
        return take_back

    async def stop(self) -> None:
        """Open no turns by itself any more, and end the one that runs for a followup. Idempotent."""
        self._is_stopped = True
        if self._waker is not None:
            self._waker.cancel()
            await asyncio.wait([self._waker])

    async def _wake(self) -> None:
        try:
            while self._shall_wake:
                self._shall_wake = False
                await self._take_followup()
        finally:
            self._waker = None

    async def _take_followup(self) -> None:
        try:
            async with self._turns:
                if self._waiting:
                    await self._take_turn()
        except Exception as error:  # this is the main of a turn that nobody awaits
            logger.exception("in a turn that session %s opened by itself", self.session.id)
            await self._ctx.emit(AgentFailed(agent=self, error=error))

    async def _take_turn(self, *own: Message) -> TurnResult:
        """Run one turn on what waits and ``own``; the caller holds the lock."""
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
        prompts = [*self._waiting, *own]
        self._waiting.clear()
        try:
            reason = await turn.run(prompts)
        finally:
            await self._ended(turn)
        return TurnResult(turn=turn.number, reason=reason, text=self._last_text())

    async def _ended(self, turn: Turn) -> None:
        """Announce the end of a turn, and wait: the turn-end flush listens here."""
        self._header_reason = None
        end = self.session.events[-1]
        if end.type != "turn/end":
            return  # the log would not even take its start
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


def _message(text: str, source: Mapping[str, Any]) -> Message:
    return {"content": [{"type": "text", "text": text}], "source": source, "role": "user", "id": _new_id()}


def _new_id() -> str:
    return str(uuid.uuid4())
