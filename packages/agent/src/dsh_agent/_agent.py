"""An agent: one session, an inbox, one turn at a time."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dsh_context import Context
from dsh_session import Session

from ._cancellation import CancelCause, Cancellation
from ._decisions import Remark, SessionEnd, SessionSource, SessionStart
from ._extensions import Extensions
from ._inbox import Inbox, Message, Target
from ._model import ModelRoute
from ._report import report_failure
from ._requests import Requests
from ._retry import RetryPolicy
from ._services import APPROVAL, CHECKPOINT, EXTENSIONS, MODEL, TOOLS, AgentFailed, TurnEnded
from ._turn import Turn, TurnResult
from ._turn_context import TurnContext, user_message
from .errors import AgentStopped, PromptCanceled

logger = logging.getLogger(__name__)

MAX_PARALLEL_TOOL_CALLS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """Where a delegated session comes from."""

    parent: str
    """The session that delegated to it."""
    root: str
    """The session at the top of the chain of delegations, or the farthest one that is known."""


class Agent:
    """Drives one session. Made by ``Agents``.

    What it is told waits in an inbox that is part of the log, so a crash loses nothing of it. A task of the agent takes
    turns while anything waits, and ends when nothing does.
    """

    def __init__(
        self,
        ctx: Context,
        session: Session,
        *,
        route: ModelRoute,
        system_prompt: str,
        lineage: Lineage | None = None,
        retries: RetryPolicy | None = None,
        max_parallel_tool_calls: int = MAX_PARALLEL_TOOL_CALLS,
    ) -> None:
        if max_parallel_tool_calls < 1:
            msg = f"max_parallel_tool_calls is {max_parallel_tool_calls}; it is a number from 1"
            raise ValueError(msg)
        self.session = session
        self.lineage = lineage
        """None for a session that nobody delegated."""
        self._ctx = ctx
        self._retries = retries or RetryPolicy()
        self._max_parallel = max_parallel_tool_calls
        self._requests = Requests(session, route, system_prompt=system_prompt, new_id=_new_id)
        self._inbox = Inbox(session)
        self._prompts: dict[str, asyncio.Future[TurnResult]] = {}
        self._driver: asyncio.Task[None] | None = None
        self._cancellation: Cancellation | None = None
        self._shall_wake = self._is_stopped = False

    @property
    def status(self) -> Literal["idle", "running"]:
        """Whether it takes turns at the moment."""
        return "idle" if self._driver is None else "running"

    @property
    def route(self) -> ModelRoute:
        """What its requests go to."""
        return self._requests.route

    def waiting(self, target: Target) -> tuple[Message, ...]:
        """Return the messages that wait for turns of their own, or for the next step; first in first."""
        return tuple(self._inbox.waiting(target))

    async def prompt(self, text: str) -> TurnResult:
        """Have a human's message take a turn after those that wait, and return how that ended.

        Returns also when the model failed: ``reason.kind`` tells. Cancelling the call takes the message back, or ends
        its turn as aborted. Raises ``PromptCanceled`` when ``cancel`` took it out of the inbox, ``AgentStopped``, and
        what kept the turn from being run.
        """
        if self._is_stopped:
            raise AgentStopped(self.session.id)
        message = self._message(text, {"kind": "user"})
        self._inbox.insert("next-turn", message)
        done: asyncio.Future[TurnResult] = asyncio.get_running_loop().create_future()
        self._prompts[message["id"]] = done
        done.add_done_callback(lambda future: future.exception())  # who is cancelled does not look at it
        self.wake()
        try:
            await asyncio.wait([done])
        except asyncio.CancelledError:
            await self._abandon(message["id"], done)
            raise
        return done.result()

    def followup(self, text: str, source: Mapping[str, Any]) -> Callable[[], None]:
        """Have a message of ``source`` take a turn of its own: at once, or after those that run and wait.

        The returned function takes it back, and does nothing once it has entered. Nobody awaits such a turn: what it
        fails with becomes ``AgentFailed``. A stopped agent takes nothing in.
        """
        return self._deliver("next-turn", text, source, wakes=True)

    def steer(self, text: str, source: Mapping[str, Any]) -> Callable[[], None]:
        """Have a message enter the next step of the running turn, or a turn of its own when none runs; see above."""
        return self._deliver("next-step", text, source, wakes=True)

    def inject(self, text: str, source: Mapping[str, Any]) -> Callable[[], None]:
        """Have a message enter the next step, whenever there is one; it opens no turn for itself. See above."""
        return self._deliver("next-step", text, source, wakes=False)

    def wake(self) -> None:
        """Take turns while anything waits, such as what an earlier run of the harness left behind."""
        self._shall_wake = True
        if self._driver is None and self._inbox and not self._is_stopped:
            # The agent owns this task: ``stop`` awaits it.
            self._driver = asyncio.get_running_loop().create_task(self._drive())

    async def wait_idle(self) -> None:
        """Return when no turn runs and none is about to."""
        while self._driver is not None:
            await asyncio.wait([self._driver])

    def cancel(self, cause: CancelCause, *, reason: str = "", keep_inbox: bool = False) -> None:
        """End the running turn as aborted and cancel what waits; an idle agent stays as it is.

        Returns at once; ``wait_idle`` tells when it is done. The first cause of a turn wins; ``reason`` is what a hook
        says. With ``keep_inbox`` only the turn ends, and what waits takes its own.
        """
        if self._driver is None:
            return
        try:
            if not keep_inbox:
                for message in self._inbox.clear():
                    self._fail_prompt(message["id"], PromptCanceled())
        finally:
            if self._cancellation is not None:
                self._cancellation.request(cause, reason)

    async def begin(self, source: SessionSource) -> None:
        """Tell extensions that the session starts; what they add enters the first step. Awaited once, by ``Agents``."""
        if source == "resume":
            self._inbox.recover()
        self.add(await self._extensions().session_start(SessionStart(agent=self, source=source)))

    def add(self, remarks: Sequence[Remark]) -> None:
        """Have what extensions add enter the next step, whenever there is one."""
        for remark in remarks:
            self._inbox.insert("next-step", user_message(remark.texts, remark.source, _new_id))

    async def stop(self) -> None:
        """Take no turns any more, and end the one that runs. Idempotent.

        Prompts that somebody awaits are cancelled; what else waits stays in the log, for whoever resumes the session.
        """
        was_stopped, self._is_stopped = self._is_stopped, True
        try:
            for message in self._inbox.waiting("next-turn"):
                if message["id"] in self._prompts:
                    self._fail_prompt(message["id"], PromptCanceled())
                    self._inbox.withdraw(message["id"])
        except Exception:  # whatever keeps the log from growing, the agent ends
            logger.exception("a cancelled prompt still waits in the inbox of session %s", self.session.id)
        self.cancel("disposed", keep_inbox=True)
        await self.wait_idle()
        if not was_stopped:
            await self._extensions().session_end(SessionEnd(agent=self))

    async def _abandon(self, message_id: str, done: asyncio.Future[TurnResult]) -> None:
        """Take back a prompt that nobody awaits any more, or end its turn and wait for that."""
        if done.done():
            return
        if self._inbox.withdraw(message_id):
            del self._prompts[message_id]
            return
        if self._cancellation is not None:
            self._cancellation.request("user")
        await asyncio.wait([done])

    def _deliver(self, target: Target, text: str, source: Mapping[str, Any], *, wakes: bool) -> Callable[[], None]:
        message = self._message(text, source)
        if not self._is_stopped:
            self._inbox.insert(target, message)
            if wakes:
                self.wake()
        return lambda: self._take_back(message)

    def _take_back(self, message: Message) -> None:
        if not self._is_stopped:
            self._inbox.withdraw(message["id"])

    async def _drive(self) -> None:
        try:
            while self._inbox and not self._is_stopped:
                self._shall_wake = False
                turn = await self._take_turn()
                if turn.reason is None:
                    return
                was_ended = turn.reason["kind"] in ("aborted", "blocked")
                if was_ended and not (self._shall_wake or self._inbox.waiting("next-turn")):
                    return  # who ended it wants quiet; what enters with a step waits for the next turn
        except Exception as error:  # noqa: BLE001  # the main of the agent's own task: nobody awaits it
            self._fail_prompts(error)
            await self._report(error)
        finally:
            self._driver = None

    async def _take_turn(self) -> Turn:
        """Run one turn in a task of its own, announce its end, and answer who waits for it."""
        self._cancellation = cancellation = Cancellation()
        turn = Turn(self._context(cancellation), self._requests)
        task = cancellation.task = asyncio.get_running_loop().create_task(turn.run())
        try:
            await asyncio.wait([task])
        finally:
            self._cancellation = None
        await self._announce(turn)
        self._answer(turn)
        return turn

    async def _announce(self, turn: Turn) -> None:
        """Tell of the end of a turn, and wait: the turn-end flush listens here."""
        if turn.failure is not None:
            step = self.session.state.last_step if turn.reason is not None else 0
            failed = AgentFailed(agent=self, error=turn.failure, turn=turn.number, step=step or None)
            await report_failure(self._ctx.emit, failed, f"turn {turn.number} failed")
        if turn.reason is None:
            return  # the log has no end of a turn to tell of
        try:
            ended = TurnEnded(agent=self, turn=turn.number, reason=turn.reason, feedback=turn.feedback)
            await self._ctx.emit(ended)
        except ExceptionGroup as errors:
            # The turn is closed in the log, so the log cannot say it; later work goes on.
            await report_failure(self._ctx.emit, AgentFailed(agent=self, error=errors), f"after turn {turn.number}")

    def _answer(self, turn: Turn) -> None:
        for message_id in turn.claimed:
            done = self._prompts.pop(message_id, None)
            if done is None:
                continue
            if turn.error is not None:
                done.set_exception(turn.error)
            elif turn.reason is not None:
                text, feedback = self._requests.text, turn.feedback
                done.set_result(TurnResult(turn=turn.number, reason=turn.reason, text=text, feedback=feedback))
        if turn.reason is None and turn.error is not None:
            # The log takes no turn, so nobody else's prompt gets one either before somebody wakes the agent again.
            self._fail_prompts(turn.error)

    def _fail_prompts(self, error: Exception) -> None:
        for message_id in tuple(self._prompts):
            self._fail_prompt(message_id, error)

    def _fail_prompt(self, message_id: str, error: Exception) -> None:
        done = self._prompts.pop(message_id, None)
        if done is not None:
            done.set_exception(error)

    def _context(self, cancellation: Cancellation) -> TurnContext:
        ctx = self._ctx
        return TurnContext(
            agent=self,
            session=self.session,
            inbox=self._inbox,
            cancellation=cancellation,
            model=ctx.get(MODEL),
            tools=ctx.require(TOOLS),
            extensions=self._extensions(),
            approval=ctx.get(APPROVAL),
            checkpoint=ctx.get(CHECKPOINT),
            retries=self._retries,
            max_parallel_tool_calls=self._max_parallel,
            new_id=_new_id,
            report=self._report,
        )

    def _extensions(self) -> Extensions:
        return self._ctx.get(EXTENSIONS) or Extensions(self._ctx.emit)

    async def _report(self, error: Exception) -> None:
        await report_failure(self._ctx.emit, AgentFailed(agent=self, error=error), "the loop goes on after a failure")

    def _message(self, text: str, source: Mapping[str, Any]) -> Message:
        return user_message([text], source, _new_id)


def _new_id() -> str:
    return str(uuid.uuid4())
