"""One turn: steps of model and tools until the model is done (BEHAVIOUR §6.2, GENERATIONS §4, §5)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dsh_session import interrupted_closers, repair_closers

from ._calls import Calls
from ._decisions import PromptSubmit, TurnStopping
from ._inbox import Message
from ._requests import Requests
from ._turn_context import TurnContext
from .errors import CheckpointFailed, ModelFailed

_COMPLETED: Mapping[str, Any] = {"kind": "completed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """How a turn ended."""

    turn: int
    reason: Mapping[str, Any]
    """``kind`` is completed, blocked, max-tokens, error or aborted, as in the log (FORMAT §5)."""
    text: str
    """What the model said last in the turn; empty when it said nothing."""
    feedback: str = ""
    """Why an extension kept the messages out, where the turn was blocked."""


class Turn:
    """Runs one turn over what waits in the inbox; whatever happens, the log is balanced afterwards."""

    def __init__(self, context: TurnContext, requests: Requests) -> None:
        self._c = context
        self._session = context.session
        self._requests = requests
        self.number = context.session.state.last_turn + 1
        self.claimed: list[str] = []
        """Ids of the messages that the turn has taken out of the inbox."""
        self.reason: Mapping[str, Any] | None = None
        """Why it ended; None as long as the log has neither its start nor its end."""
        self.error: Exception | None = None
        """What kept the turn from being run or closed, which is nobody's failure but the loop's or the log's."""
        self.failure: Exception | None = None
        """What the turn ended with, where it ended in an error."""
        self.feedback = ""
        """Why it was blocked."""
        self._continuations = 0

    async def run(self) -> None:
        """Run the turn to its end. Raises nothing: ``reason`` and ``error`` tell."""
        self._requests.text = ""
        try:
            self._open()
        except Exception as error:  # noqa: BLE001  # the main of a turn: the log may take nothing
            self.error = self.failure = error
            return
        reason = await self._run()
        try:
            self._close(reason)
            self.reason = reason
        except Exception as error:  # noqa: BLE001  # the main of a turn: the log may take nothing
            self.error = self.error or error
            self.failure = self.failure or error

    async def _run(self) -> Mapping[str, Any]:
        """Run all steps, and return why the turn ends."""
        try:
            return await self._steps()
        except asyncio.CancelledError:
            return {"kind": "aborted", "reason": self._c.cancellation.reason}
        except ModelFailed as failed:
            self.failure = failed
            return {"kind": "error", "error": dict(failed.failure)}
        except Exception as error:  # noqa: BLE001  # the main of a turn: it ends with what nothing else has caught
            self.failure = error
            if not isinstance(error, CheckpointFailed):
                self.error = error
            return {"kind": "error", "error": {"message": str(error), "code": "UNKNOWN"}}

    def _open(self) -> None:
        # A log that would not even take the end of the turn before it has to take that first.
        self._session.extend(repair_closers(self._session.state))
        self._session.append("turn/start", {"turn": self.number})

    async def _steps(self) -> Mapping[str, Any]:
        reason, is_done, is_first = _COMPLETED, False, True
        while True:
            entering = await self._before_step(is_first=is_first)
            if entering is None:
                return {"kind": "blocked"}
            if not entering and (is_first or is_done):
                return reason
            is_first = False
            kind, is_done = await self._step(entering)
            if kind == "max-tokens":  # it stays the turn's end whatever later steps say
                reason = {"kind": "max-tokens"}
            if is_done and not self._c.inbox.waiting("next-step"):
                await self._stopping(reason)
                if not self._c.inbox.waiting("next-step"):
                    return reason

    async def _before_step(self, *, is_first: bool) -> Sequence[Message] | None:
        """Return the messages that enter the next step, None when an extension keeps them out."""
        entering = self._c.inbox.claim(opens_turn=is_first)
        self.claimed += [message["id"] for message in entering]
        await self._c.reach_checkpoint("step")
        if not entering:
            return entering
        objection = await self._c.extensions.prompt_submit(
            PromptSubmit(
                agent=self._c.agent,
                turn=self.number,
                step=self._session.state.last_step + 1,
                messages=entering,
            )
        )
        self._c.cancellation.check()
        if objection.block is not None:
            self.feedback = objection.block
            kept = [message for message in entering if message["source"]["kind"] != "user"]
            if kept:  # a human can say it again; nobody repeats what a job or an extension had to tell
                self._c.inbox.insert("next-step", *kept, in_front=True)
            return None
        return [*entering, *map(self._c.said_by, objection.remarks)]

    async def _step(self, entering: Sequence[Message]) -> tuple[str, bool]:
        """Run one step; return how its reply finished, and whether the turn could end with it."""
        self._session.append("step/start", {"turn": self.number, "step": self._session.state.last_step + 1})
        self._requests.put_system_prompt()
        for message in entering:
            self._session.append("user/message", message, surface_op="append")
        kind = await self._requests.ask(self._c)
        is_done = not self._session.state.calls
        if not is_done:
            is_done = await Calls(self._c).run()
        self._session.append("step/end", {"turn": self.number, "step": self._session.state.step})
        return kind, is_done

    async def _stopping(self, reason: Mapping[str, Any]) -> None:
        """Let extensions object to the end of the turn."""
        stopping = TurnStopping(
            agent=self._c.agent,
            turn=self.number,
            reason=reason,
            text=self._requests.text,
            continuations=self._continuations,
        )
        remarks = await self._c.extensions.turn_stopping(stopping)
        self._c.cancellation.check()
        for remark in remarks:
            self._c.inbox.insert("next-step", self._c.said_by(remark))
        self._continuations += bool(remarks)

    def _close(self, reason: Mapping[str, Any]) -> None:
        """Settle what an internal failure left open, as a crash would have, then end the step and the turn."""
        state = self._session.state
        if state.calls:
            closers = interrupted_closers(state)
            self._session.extend([closer for closer in closers if closer.type == "tool/result"])
        if state.step is not None:
            self._session.append("step/end", {"turn": self.number, "step": state.step})
        self._session.append("turn/end", {"turn": self.number, "reason": reason})
