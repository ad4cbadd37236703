"""One tool call on its way: policy, body, what extensions make of the result (BEHAVIOUR §6.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dsh_session import PendingCall

from ._approval import ApprovalRequest
from ._arguments import check_arguments, decode_arguments
from ._decisions import ApprovalAsked, Remark, ToolUse, ToolUsed
from ._extensions import Permission
from ._tools import Tool, ToolExecution, ToolFailure, ToolResult
from ._turn_context import TurnContext
from .errors import CheckpointFailed, ToolError

ABORTED = ToolResult.of_error("tool call aborted", failure=ToolFailure(name="AbortError", code="ABORTED"))
ABORTED_BEFORE_DISPATCH = ToolResult.of_error(
    "tool call aborted before dispatch", failure=ToolFailure(name="AbortError", code="ABORTED_BEFORE_DISPATCH")
)


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """A call that the model has announced."""

    context: TurnContext
    pending: PendingCall
    tool: Tool | None
    arguments: Any
    """Checked against the tool's schema, unless ``result`` says that they do not fit."""
    result: ToolResult | None = None
    """What it came to, once it has."""
    updated_input: Mapping[str, Any] | None = None
    """Arguments that an extension gave it."""
    is_invalid: bool = False
    """Whether there is no such tool, or the arguments do not fit it."""
    is_dispatched: bool = False
    """Whether the tool's body has begun."""
    was_interrupted: bool = False
    """Whether the turn was cancelled while the body ran, so that even a success is only half of one."""
    is_pipeline_failure: bool = False
    """Whether something before the body failed, so that extensions have no result to judge."""

    @classmethod
    def of(cls, pending: PendingCall, context: TurnContext) -> Call:
        """Look up the tool and check the arguments; what does not fit has its result already."""
        arguments = decode_arguments(pending.arguments)
        tool = context.tools.get(pending.name)
        call = cls(context=context, pending=pending, tool=tool, arguments=arguments)
        try:
            if tool is None:
                raise ToolError(f'unknown tool "{pending.name}"', name="ToolNotFoundError", code="UNKNOWN_TOOL")
            call.arguments = check_arguments(tool.parameters, arguments)
        except ToolError as error:
            call.result, call.is_invalid = _result_of(error), True
        return call

    @property
    def may_overlap(self) -> bool:
        """Whether other calls may run beside this one, be it that it was refused."""
        if self.tool is None or self.is_invalid:
            return False
        try:
            return self.tool.is_concurrency_safe(self.arguments) is True
        except Exception:  # noqa: BLE001  # a tool is foreign code; what it cannot tell is not safe
            return False

    async def permit(self) -> list[Remark]:
        """Ask whether the call may run; a refusal is its result. Return what extensions add."""
        if self.result is not None:
            return []
        permission = await self.context.extensions.pre_tool_use(self._use())
        self.context.cancellation.check()
        if permission.is_updated:
            self._take_input(permission.arguments)
        if permission.verdict == "deny":
            self.result = ToolResult.of_error(permission.reason or f'tool "{self.pending.name}" was refused')
        elif permission.verdict == "ask" and self.result is None:
            self.result = await self._ask(permission)
        self.context.cancellation.check()
        return list(permission.remarks)

    async def run(self) -> None:
        """Run the tool's body once what has happened is durable. Whatever it raises is its result."""
        if self.result is None:
            try:
                self.result = await self._run()
            except asyncio.CancelledError:
                self.result = ABORTED if self.is_dispatched else ABORTED_BEFORE_DISPATCH
            self.was_interrupted = self.context.cancellation.is_requested

    async def finish(self) -> list[Remark]:
        """Let extensions see the result, and block it. Return what they add."""
        assert self.result is not None  # noqa: S101  # ``run`` is over
        if self.is_pipeline_failure:
            return []
        use = self._use()
        used = ToolUsed(
            agent=use.agent,
            turn=use.turn,
            step=use.step,
            call_id=use.call_id,
            name=use.name,
            arguments=self.arguments,
            result=self.result,
        )
        objection = await self.context.extensions.post_tool_use(used)
        if objection.block is not None:  # also for who ends the turn with it: the log may not have what was taken out
            content = ({"type": "text", "text": objection.block},)
            self.result = replace(self.result, content=content, is_error=True, failure=None, value=None)
        self.context.cancellation.check()
        return list(objection.remarks)

    def abort(self) -> ToolResult:
        """Return what a call of a cancelled turn came to: a result in time, a failure, else the abort."""
        if self.result is not None and (self.result.is_error or (self.is_dispatched and not self.was_interrupted)):
            return self.result
        return ABORTED if self.is_dispatched else ABORTED_BEFORE_DISPATCH

    async def _run(self) -> ToolResult:
        assert self.tool is not None  # noqa: S101  # else there is a result
        context, pending = self.context, self.pending
        try:
            await context.reach_checkpoint("tool")
            self.is_dispatched = True
            return await self.tool.execute(
                ToolExecution(call_id=pending.call_id, name=pending.name, arguments=self.arguments, agent=context.agent)
            )
        except CheckpointFailed as error:
            self.is_pipeline_failure = True
            await context.report(error)
            return _result_of(error)
        except Exception as error:  # noqa: BLE001  # a tool is foreign code; the turn goes on
            return _result_of(error)

    def _take_input(self, arguments: Mapping[str, Any]) -> None:
        assert self.tool is not None  # noqa: S101  # only a call that fits is asked about
        try:
            self.arguments = check_arguments(self.tool.parameters, dict(arguments))
            self.updated_input = self.arguments
        except ToolError as error:
            self.result, self.is_invalid = _result_of(error), True

    async def _ask(self, permission: Permission) -> ToolResult | None:
        """Ask for approval and log it; return the refusal, None where it is allowed."""
        context, pending, name = self.context, self.pending, self.pending.name
        if context.approval is None:
            return ToolResult.of_error(permission.reason or f'tool "{name}" requires approval (not yet supported)')
        asked = {"id": context.new_id(), "toolName": name, "callId": pending.call_id}
        reason = {"reason": permission.reason} if permission.reason else {}
        context.session.append("approval/asked", {**asked, **reason})
        request = ApprovalRequest(
            agent=context.agent,
            call_id=pending.call_id,
            name=name,
            arguments=self.arguments,
            reason=permission.reason,
        )
        outcome, answer_reason = "cancelled", ""
        try:
            await self._announce(request)
            answer = await context.approval.ask(request)
            outcome, answer_reason = ("allowed-once" if answer.is_allowed else "rejected"), answer.reason
        except Exception as error:  # noqa: BLE001  # foreign code; who cannot be asked has not allowed it
            outcome, answer_reason = "unavailable", f"approval failed: {error}"
            await context.report(error)
        finally:
            context.session.append("approval/decided", {"id": asked["id"], "outcome": outcome})
        if outcome == "allowed-once":
            return None
        return ToolResult.of_error(answer_reason or f'tool "{name}" was not approved')

    async def _announce(self, request: ApprovalRequest) -> None:
        """Tell extensions of a question that is about to be asked."""
        state = self.context.session.state
        asked = ApprovalAsked(
            agent=request.agent,
            turn=state.last_turn,
            step=state.last_step,
            call_id=request.call_id,
            name=request.name,
            arguments=request.arguments,
            reason=request.reason,
        )
        await self.context.extensions.approval_asked(asked)
        self.context.cancellation.check()

    def _use(self) -> ToolUse:
        state, pending = self.context.session.state, self.pending
        return ToolUse(
            agent=self.context.agent,
            turn=state.last_turn,
            step=state.last_step,
            call_id=pending.call_id,
            name=pending.name,
            arguments=self.arguments,
        )


def _result_of(error: Exception) -> ToolResult:
    failure = None
    if isinstance(error, ToolError) and error.name and error.code:
        failure = ToolFailure(name=error.name, code=error.code)
    return ToolResult.of_error(str(error) or type(error).__name__, failure=failure)
