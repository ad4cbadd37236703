"""One turn: steps of model and tools until the model is done (BEHAVIOUR §6.2, GENERATIONS §4, §5)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dsh_session import Finish, Replace, Session

from ._arguments import check_arguments, decode_arguments
from ._assemble import Reply
from ._model import ModelAdapter, ModelRequest, ModelRoute
from ._tools import ToolExecution, ToolFailure, ToolResult, Tools
from .errors import ModelFailed, ToolError

Message = Mapping[str, Any]

_ABORTED = ToolFailure(name="AbortError", code="ABORTED")
_ABORTED_BEFORE_DISPATCH = ToolFailure(name="AbortError", code="ABORTED_BEFORE_DISPATCH")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnContext:
    """What a turn works with, as it stood when the turn began."""

    session: Session
    model: ModelAdapter
    route: ModelRoute
    tools: Tools
    system_prompt: str
    header_reason: str | None
    """Why the first request must log its header, ``initial`` or ``resume``; None when only a change would."""
    new_id: Callable[[], str]
    clock: Callable[[], int]
    execution: Callable[..., ToolExecution]
    """Makes a ``ToolExecution`` that names the agent."""


class Turn:
    """Runs one turn over a session; whatever happens, the log is balanced afterwards."""

    def __init__(self, context: TurnContext) -> None:
        self._c = context
        self._session = context.session
        self._header_reason = context.header_reason
        self.number = context.session.state.last_turn + 1

    async def run(self, prompts: Sequence[Message]) -> Mapping[str, Any]:
        """Open the turn, run its steps, close it, and return why it ended (FORMAT §5).

        A failure of the model ends the turn and is its reason. A cancellation or any other exception closes the turn
        in the log and goes on rising.
        """
        reason: Mapping[str, Any] = {"kind": "completed"}
        self._session.append("turn/start", {"turn": self.number})
        try:
            while True:
                self._session.append("step/start", self._place(step=self._session.state.last_step + 1))
                reason, done = await self._step(prompts)
                self._session.append("step/end", self._place())
                if done:
                    break
                prompts = ()
        except ModelFailed as failed:
            reason = {"kind": "error", "error": dict(failed.failure)}
        except asyncio.CancelledError:
            reason = {"kind": "aborted", "reason": {"kind": "user"}}
            raise
        except BaseException as error:
            reason = {"kind": "error", "error": {"message": str(error), "code": "UNKNOWN"}}
            raise
        finally:
            self._close(reason)
        return reason

    async def _step(self, prompts: Sequence[Message]) -> tuple[Mapping[str, Any], bool]:
        """Run the open step; return the reason the turn would end with, and whether it does."""
        self._put_system_prompt()
        for prompt in prompts:
            self._session.append("user/message", prompt, surface_op="append")
        request = self._request()
        reply = await self._stream(request)
        finish = reply.finish or Finish(reason={"kind": "stop"})
        kind = finish.reason["kind"]
        cut = kind == "max-tokens"
        self._put_reply(reply, with_calls=not cut)
        if cut:
            return {"kind": "max-tokens"}, True
        calls = list(self._session.state.calls)
        for call_id in calls:
            await self._call(call_id)
        return {"kind": "completed"}, not calls

    def _place(self, *, step: int | None = None) -> dict[str, Any]:
        return {"turn": self.number, "step": self._session.state.step if step is None else step}

    def _put_system_prompt(self) -> None:
        """Make the system prompt the first message, or replace it where it changed."""
        text = self._c.system_prompt
        content = [{"type": "text", "text": text}] if text else []
        nodes = self._session.state.surface.nodes
        head = self._session.events[nodes[0]] if nodes else None
        if head is not None and (head.type != "system/message" or head.data["message"]["content"] == content):
            return
        source = {"kind": "system-prompt"}
        message = {"role": "system", "content": content, "source": source, "id": self._c.new_id()}
        self._session.append(
            "system/message",
            {**self._place(), "message": message},
            surface_op="append" if head is None else Replace(start_seq=head.seq, end_seq=head.seq),
            source_event_seqs=None if head is None else [head.seq],
        )

    def _request(self) -> ModelRequest:
        """Log the request header and context where they are new, and return the request."""
        route = self._c.route
        tools = self._c.tools.definitions()
        header: dict[str, Any] = {"config": {"provider": route.provider, "model": route.model}}
        if tools:
            header["tools"] = tools
        state = self._session.state
        in_force = None if state.request_header_seq is None else self._session.events[state.request_header_seq].data
        reason = self._header_reason or ("change" if in_force is None or in_force["header"] != header else None)
        if reason is not None:
            self._session.append("request/header", {"header": header, "reason": reason})
            self._header_reason = None
        self._put_context(route)
        return ModelRequest(route=route, messages=self._session.messages(), tools=tools)

    def _put_context(self, route: ModelRoute) -> None:
        context: dict[str, Any] = {"provider": route.provider, "model": route.model}
        if route.context_window is not None:
            context["contextWindow"] = route.context_window
        seq = self._session.state.request_context_seq
        before = {} if seq is None else self._session.events[seq].data
        if any(before.get(key) != context.get(key) for key in ("provider", "model", "contextWindow")):
            self._session.append("request/context", context)

    async def _stream(self, request: ModelRequest) -> Reply:
        """Take in a whole reply. A failed or cancelled one is kept in the log as far as it came."""
        reply = Reply()
        try:
            async with contextlib.aclosing(self._chunks(request)) as chunks:
                async for chunk in chunks:
                    reply.add(chunk, self._c.clock())
        except asyncio.CancelledError:
            if reply.content(with_calls=False):
                self._put_reply(reply, with_calls=False, interrupted=True)
            raise
        if reply.finish is not None and reply.finish.reason["kind"] in ("error", "aborted"):
            self._session.append("assistant/attempt", {**self._place(), "stream": reply.stream})
            raise ModelFailed(reply.finish.reason["failure"])
        return reply

    async def _chunks(self, request: ModelRequest) -> Any:
        try:
            async for chunk in self._c.model.stream(request):
                yield chunk
        except Exception as error:  # noqa: BLE001  # an adapter is foreign code; its failure is the model's
            yield Finish(reason={"kind": "error", "failure": {"message": str(error), "code": "UNKNOWN"}})

    def _put_reply(self, reply: Reply, *, with_calls: bool, interrupted: bool = False) -> None:
        route = self._c.route
        message = {
            "role": "assistant",
            "content": reply.content(with_calls=with_calls),
            "source": {"kind": "model", "provider": route.provider, "model": route.model},
            "id": self._c.new_id(),
        }
        data: dict[str, Any] = {**self._place(), "message": message}
        if reply.usage is not None:
            data["usage"] = reply.usage
        if interrupted:
            data["interrupted"] = True
        self._session.append("assistant/message", {**data, "stream": reply.stream}, surface_op="append")

    async def _call(self, call_id: str) -> None:
        """Start one announced call, run it, and settle it with its result."""
        self._start_call(call_id)
        call = self._session.state.calls[call_id]
        try:
            result = await self._execute(call.name, call_id, call.arguments)
        except asyncio.CancelledError:
            self._settle(call_id, ToolResult.of_error("tool call aborted", failure=_ABORTED))
            raise
        self._settle(call_id, result)

    async def _execute(self, name: str, call_id: str, arguments: str) -> ToolResult:
        tool = self._c.tools.get(name)
        try:
            if tool is None:
                raise ToolError(f'unknown tool "{name}"', name="ToolNotFoundError", code="UNKNOWN_TOOL")
            checked = check_arguments(tool.parameters, decode_arguments(arguments))
            return await tool.execute(self._c.execution(call_id=call_id, name=name, arguments=checked))
        except ToolError as error:
            failure = ToolFailure(name=error.name, code=error.code) if error.name and error.code else None
            return ToolResult.of_error(str(error), failure=failure)
        except Exception as error:  # noqa: BLE001  # a tool is foreign code; the turn goes on
            return ToolResult.of_error(str(error) or type(error).__name__)

    def _start_call(self, call_id: str) -> None:
        call = self._session.state.calls[call_id]
        data = {**self._place(), "callId": call_id, "name": call.name, "arguments": call.arguments}
        self._session.append("tool/call", data)

    def _settle(self, call_id: str, result: ToolResult) -> None:
        started_seq = self._session.state.calls[call_id].started_seq
        message = {
            "role": "tool",
            "source": {"kind": "tool", "callId": call_id},
            "toolCallId": call_id,
            "content": list(result.content),
            "isError": result.is_error,
            "id": self._c.new_id(),
        }
        data: dict[str, Any] = {**self._place(), "message": message}
        if result.failure is not None:
            data["error"] = {"name": result.failure.name, "code": result.failure.code}
        sources = None if started_seq is None else [started_seq]
        self._session.append("tool/result", data, surface_op="append", source_event_seqs=sources)

    def _close(self, reason: Mapping[str, Any]) -> None:
        """Settle what is open: calls nobody will run any more, the step, the turn."""
        state = self._session.state
        aborted = ToolResult.of_error("tool call aborted before dispatch", failure=_ABORTED_BEFORE_DISPATCH)
        for call_id, call in list(state.calls.items()):
            if call.started_seq is None:
                self._start_call(call_id)
            self._settle(call_id, aborted)
        if state.step is not None:
            self._session.append("step/end", self._place())
        self._session.append("turn/end", {"turn": self.number, "reason": reason})
