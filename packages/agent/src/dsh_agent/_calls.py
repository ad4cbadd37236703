"""The calls of one reply: those that may overlap do, and all are logged in the model's order (BEHAVIOUR §6.4)."""

from __future__ import annotations

import asyncio
from typing import Any

from dsh_session import EventRefused

from ._call import ABORTED_BEFORE_DISPATCH, Call
from ._decisions import Remark
from ._tools import ToolResult
from ._turn_context import TurnContext


class Calls:
    """Runs the calls that the open step waits for.

    A rolling pool: a call that may overlap starts while others run, up to a limit; one that may not waits until all
    before it are settled, and those after it wait for it. Policy is asked in order, before each start.
    """

    def __init__(self, context: TurnContext) -> None:
        self._context = context
        self._session = context.session
        self._started: list[tuple[Call, asyncio.Task[None] | None]] = []
        """Calls that are in the log and not settled, in the model's order."""
        self._remarks: list[Remark] = []
        self._concludes = False

    async def run(self) -> bool:
        """Settle every call; return whether one of the results concludes the turn.

        What extensions add waits for the next step. Cancelled, it ends what runs and settles all the rest as aborted.
        """
        try:
            for call_id in tuple(self._session.state.calls):
                await self._start(call_id)
            await self._settle_all()
        except asyncio.CancelledError:
            await self._end_bodies()
            self._abort()
            raise
        except BaseException:
            await self._end_bodies()
            raise
        for remark in self._remarks:
            self._context.inbox.insert("next-step", self._context.said_by(remark))
        return self._concludes

    async def _start(self, call_id: str) -> None:
        call = await self._admit(call_id)
        self._log_start(call_id)
        self._started.append((call, None))
        self._remarks += await call.permit()
        overlaps = call.may_overlap
        if not overlaps:  # with other arguments it may be one that has to wait
            await self._settle_until(call)
        self._started[-1] = (call, asyncio.get_running_loop().create_task(call.run()))
        if not overlaps:
            await self._settle_all()

    async def _admit(self, call_id: str) -> Call:
        """Wait until the call may start; whether it may overlap is asked again after each wait."""
        while True:
            await self._settle_done()
            call = Call.of(self._session.state.calls[call_id], self._context)
            running = [task for _, task in self._started if task is not None and not task.done()]
            if not call.may_overlap:
                if not self._started:
                    return call
                await self._settle_all()
            elif len(running) < self._context.max_parallel_tool_calls:
                return call
            else:
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)

    async def _settle_done(self) -> None:
        while self._started and (task := self._started[0][1]) is not None and task.done():
            await self._settle_first()

    async def _settle_all(self) -> None:
        await self._settle_until(None)

    async def _settle_until(self, call: Call | None) -> None:
        """Settle the calls before ``call``, all of them without one."""
        while self._started and self._started[0][0] is not call:
            task = self._started[0][1]
            assert task is not None  # noqa: S101  # only the call that is being started has none
            await asyncio.wait([task])
            await self._settle_first()

    async def _settle_first(self) -> None:
        call, task = self._started[0]
        assert task is not None  # noqa: S101  # as above
        task.result()
        self._context.cancellation.check()
        self._remarks += await call.finish()
        assert call.result is not None  # noqa: S101  # it has run
        self._concludes = self._concludes or call.result.concludes_turn
        self._log_result(call.pending.call_id, call.result, updated_input=call.updated_input)
        del self._started[0]

    async def _end_bodies(self) -> None:
        """Cancel what runs and wait until it has ended, however often this is cancelled itself."""
        tasks = [task for _, task in self._started if task is not None]
        for task in tasks:
            task.cancel()
        while pending := [task for task in tasks if not task.done()]:
            try:
                await asyncio.wait(pending)
            except asyncio.CancelledError:  # what runs must not outlive its turn
                continue

    def _abort(self) -> None:
        for call, _ in self._started:
            self._log_result(call.pending.call_id, call.abort(), updated_input=call.updated_input)
        self._started.clear()
        for call_id in tuple(self._session.state.calls):
            self._log_start(call_id)
            self._log_result(call_id, ABORTED_BEFORE_DISPATCH)

    def _log_start(self, call_id: str) -> None:
        call = self._session.state.calls[call_id]
        place = {"turn": call.turn, "step": call.step}
        self._session.append("tool/call", {**place, "callId": call_id, "name": call.name, "arguments": call.arguments})

    def _log_result(self, call_id: str, result: ToolResult, *, updated_input: Any = None) -> None:
        """Settle a call; a result that no log can hold becomes one that says so."""
        try:
            self._put_result(call_id, result, updated_input)
        except EventRefused as error:
            self._put_result(call_id, ToolResult.of_error(f"the tool's result cannot be logged: {error.reason}"), None)

    def _put_result(self, call_id: str, result: ToolResult, updated_input: Any) -> None:
        call = self._session.state.calls[call_id]
        message = {
            "role": "tool",
            "source": {"kind": "tool", "callId": call_id},
            "toolCallId": call_id,
            "content": list(result.content),
            "isError": result.is_error,
            "id": self._context.new_id(),
        }
        data: dict[str, Any] = {"turn": call.turn, "step": call.step, "message": message}
        if result.is_error and result.failure is not None:
            data["error"] = {"name": result.failure.name, "code": result.failure.code}
        if updated_input is not None:
            data["meta"] = {"updatedInput": updated_input}
        sources = None if call.started_seq is None else [call.started_seq]
        self._session.append("tool/result", data, surface_op="append", source_event_seqs=sources)
