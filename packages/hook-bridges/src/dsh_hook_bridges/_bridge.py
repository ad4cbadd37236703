"""The hooks of one dialect as an extension of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dsh_agent import (
    Agent,
    ApprovalAsked,
    Extension,
    PromptDecision,
    PromptSubmit,
    ResultDecision,
    SessionEnd,
    SessionStart,
    StartDecision,
    StopDecision,
    SubagentEnd,
    SubagentStart,
    ToolDecision,
    ToolUse,
    ToolUsed,
    TurnStopping,
)

from ._engine import Firing, HookEngine
from ._kinds import is_object
from ._merge import Merged
from ._values import HookPoint

_REFERENCE_KIND: Final = "general-purpose"
"""What ``dsh`` calls every child."""
_END_REASON: Final = "other"


@dataclass(slots=True)
class _Session:
    """What is known of a live session beside its log."""

    has_begun: bool = False
    """Whether its hooks were told that it starts, and shall be told that it ends."""
    parent: Agent | None = None
    """Who delegated to it, where that is in this process."""
    is_child: bool = False
    kind: str = ""
    stop_turn: int = 0
    stops: int = 0
    """How often in a row hooks have made that turn go on."""


class HookBridge(Extension):
    """Tells hooks what happens, and does what they say."""

    def __init__(self, engine: HookEngine, *, start_wait_s: float, drain_s: float) -> None:
        self.name = engine.dialect.source_kind
        self._engine = engine
        self._dialect = engine.dialect
        self._is_real = engine.behaviour.is_real
        self._start_wait_s = start_wait_s
        self._drain_s = drain_s
        self._sessions: dict[str, _Session] = {}

    async def session_start(self, event: SessionStart) -> StartDecision | None:
        """Wait for the hooks of a start, but not for ever; a child has a start of its own."""
        session = self._session(event.agent)
        session.is_child = event.source == "startup" and event.agent.lineage is not None
        if session.is_child:
            return None
        session.has_begun = True
        source = event.source if self._is_real or event.source != "fork" else "startup"
        firing = Firing(point="SessionStart", agent=event.agent, body={"source": source}, subjects=(source,))
        return StartDecision(context=await self._start(firing, event.agent))

    async def prompt_submit(self, event: PromptSubmit) -> PromptDecision | None:
        """Ask about what a human says. Nobody else's messages are asked about, nor what a parent tells its child."""
        session = self._session(event.agent)
        said = [message for message in event.messages if message["source"]["kind"] == "user"]
        if said:
            session.stops = 0
        if self._is_real and (not said or session.is_child):
            return None
        prompt = _text_of(said if self._is_real else event.messages)
        firing = Firing(point="UserPromptSubmit", agent=event.agent, turn=event.turn, body={"prompt": prompt})
        merged = await self._engine.fire(firing)
        block = self._objection(merged, "UserPromptSubmit")
        if self._is_real and merged.stop is not None:
            block = block or merged.stop or "a hook ended the turn"
        if block is not None and merged.contexts and self._dialect.name == "codex":
            event.agent.inject("\n\n".join(merged.contexts), {"kind": self.name})  # kept for what comes after
        return PromptDecision(block=block, context=merged.contexts)

    async def pre_tool_use(self, event: ToolUse) -> ToolDecision | None:
        """Ask whether a call may run, and with which arguments."""
        body = {**self._call(event), "tool_use_id": event.call_id}
        merged = await self._engine.fire(self._about_call("PreToolUse", event, body))
        verdict, reason = merged.verdict, merged.reason
        if verdict == "deny":
            reason = reason or "blocked by PreToolUse hook"
        elif not self._is_real and (verdict == "allow" or self._dialect.name == "codex"):
            verdict, reason = None, ""
        await self._stop(event.agent, merged, "PreToolUse")
        return ToolDecision(
            verdict=verdict,
            reason=reason,
            updated_input=await self._updated(event, merged),
            context=merged.contexts if self._is_real else (),
        )

    async def post_tool_use(self, event: ToolUsed) -> ResultDecision | None:
        """Show a result. Only what worked out is shown; what a hook objects to has happened all the same."""
        if self._is_real and event.result.is_error:
            return None
        response = (
            self._dialect.tool_response(event, self._directory(event.agent)) if self._is_real else event.result.text
        )
        body = {**self._call(event), "tool_response": response, "tool_use_id": event.call_id}
        merged = await self._engine.fire(self._about_call("PostToolUse", event, body))
        block = self._objection(merged, "PostToolUse")
        if self._is_real and self._dialect.name == "codex":
            if merged.stop is not None:
                block = block or merged.stop or "PostToolUse hook stopped execution"
            return ResultDecision(block=block, context=merged.contexts)
        await self._stop(event.agent, merged, "PostToolUse")
        if self._is_real and block is not None:
            return ResultDecision(context=[block, *merged.contexts])  # beside the result, which stays
        return ResultDecision(block=block, context=merged.contexts)

    async def turn_stopping(self, event: TurnStopping) -> StopDecision | None:
        """Ask whether a turn may end; a child's turn ends its work, and is asked about as that."""
        session = self._session(event.agent)
        if session.stop_turn != event.turn:
            session.stop_turn, session.stops = event.turn, 0
        merged = await self._engine.fire(self._stopping(event, session))
        point: HookPoint = "SubagentStop" if session.is_child and self._is_real else "Stop"
        told = self._objection(merged, f"{point}", fallback=f"continue: blocked by {point} hook")
        if self._is_real and merged.stop is not None:
            if told is not None or merged.stop:  # else it wants what happens anyway, and says nothing
                await self._engine.tell(event.agent, "stopped", merged.stop or "a hook ended the turn", point)
            return None
        texts = [told] if told is not None else []
        if self._is_real and self._dialect.name == "claude-code":
            texts += merged.contexts
        if not texts:
            return None
        cap = self._engine.behaviour.stop_cap
        if cap is not None and session.stops >= cap:
            text = f"{point} hooks have made turn {event.turn} go on {cap} times in a row; it ends now: {texts[0]}"
            await self._engine.tell(event.agent, "cap", text, point)
            return None
        session.stops += 1
        return StopDecision(go_on="\n\n".join(texts))

    async def subagent_start(self, event: SubagentStart) -> StartDecision | None:
        """Tell of a child; what hooks add is for the child."""
        child = self._session(event.child)
        child.parent, child.is_child, child.kind = event.agent, True, event.kind
        kind = event.kind if self._is_real else _REFERENCE_KIND
        firing = Firing(
            point="SubagentStart",
            agent=event.agent if self._is_real else event.child,
            child=event.child,
            body={"agent_id": event.child.session.id, "agent_type": kind},
            subjects=(kind,),
        )
        return StartDecision(context=await self._start(firing, event.child))

    async def subagent_end(self, event: SubagentEnd) -> None:
        """Tell of it as ``dsh`` does; a harness asks when the child's turn ends."""
        if not self._is_real:
            body = {"agent_id": event.child.session.id, "agent_type": _REFERENCE_KIND, "stop_hook_active": False}
            firing = Firing(point="SubagentStop", agent=event.child, body=body, subjects=(_REFERENCE_KIND,))
            await self._engine.fire(firing)

    async def session_end(self, event: SessionEnd) -> None:
        """Tell of the end, and end what still runs for the session."""
        session_id = event.agent.session.id
        session = self._sessions.pop(session_id, _Session())
        if session.has_begun and self._is_real:
            firing = Firing(
                point="SessionEnd", agent=event.agent, body={"reason": _END_REASON}, subjects=(_END_REASON,)
            )
            await self._engine.fire(firing)
        cut = await self._engine.detached.drain(self._drain_s, session_id)
        if cut:
            text = f"hooks beside the loop that still ran {self._drain_s:g} s after the session, and were ended: {cut}"
            await self._engine.tell(event.agent, "failure", text)
        self._engine.transcripts.forget(session_id)

    async def approval_asked(self, event: ApprovalAsked) -> None:
        """Tell that somebody is asked; nothing waits for that."""
        message = f"dsh needs your permission to use {self._names(event.name)[0]}"
        body = {"message": message, "notification_type": "permission_prompt"}
        session = self._session(event.agent)
        firing = Firing(
            point="Notification",
            agent=event.agent,
            body=body,
            subjects=(body["notification_type"],),
            is_child=session.is_child,
            kind=session.kind,
        )
        await self._engine.fire(firing, all_detached=True)

    async def _start(self, firing: Firing, receiver: Agent) -> Sequence[str]:
        """Return what the hooks of a start add in time; what comes later enters a later step of ``receiver``."""
        texts: list[str] = []
        waits = self._is_real

        async def run() -> None:
            merged = await self._engine.fire(firing)
            if merged.stop is not None or merged.verdict == "deny":
                what = merged.stop or merged.reason or "a hook objects"
                await self._engine.tell(receiver, "ignored", f"{firing.point} cannot be blocked: {what}", firing.point)
            if waits:
                texts.extend(merged.contexts)
            elif merged.contexts:
                receiver.inject("\n\n".join(merged.contexts), {"kind": self.name})

        task = self._engine.detached.start(receiver.session.id, run())
        if not waits:
            return ()
        await asyncio.wait([task], timeout=self._start_wait_s)
        if task.done():
            task.result()  # what failed in it is the extension's failure
        else:
            waits = False
            text = f"{firing.point} hooks still run after {self._start_wait_s:g} s; the session goes on without them"
            await self._engine.tell(receiver, "failure", text, firing.point)
        return tuple(texts)

    def _about_call(self, point: HookPoint, event: ToolUse | ToolUsed, body: Mapping[str, Any]) -> Firing:
        session = self._session(event.agent)
        return Firing(
            point=point,
            agent=event.agent,
            turn=event.turn,
            body=body,
            subjects=self._names(event.name),
            is_child=session.is_child,
            kind=session.kind,
        )

    def _stopping(self, event: TurnStopping, session: _Session) -> Firing:
        if not self._is_real:
            body: dict[str, Any] = {"stop_hook_active": False}
            if self._dialect.name == "codex":
                body["last_assistant_message"] = None
            return Firing(point="Stop", agent=event.agent, turn=event.turn, body=body)
        said = {"stop_hook_active": session.stops > 0, "last_assistant_message": event.text}
        if not session.is_child:
            return Firing(point="Stop", agent=event.agent, turn=event.turn, body=said)
        path = self._engine.transcript(event.agent)
        return Firing(
            point="SubagentStop",
            agent=session.parent or event.agent,
            recorder=event.agent,
            turn=event.turn,
            child=event.agent,
            subjects=(session.kind,),
            body={
                "stop_hook_active": said["stop_hook_active"],
                "agent_id": event.agent.session.id,
                "agent_type": session.kind,
                "agent_transcript_path": (path or "") if self._dialect.name == "claude-code" else path,
                "last_assistant_message": event.text,
            },
        )

    async def _stop(self, agent: Agent, merged: Merged, point: HookPoint) -> None:
        """End the turn where a hook wants that."""
        if self._is_real and merged.stop is not None:
            reason = merged.stop or "a hook ended the turn"
            await self._engine.tell(agent, "stopped", reason, point)
            agent.cancel("hook", reason=reason, keep_inbox=True)

    async def _updated(self, event: ToolUse, merged: Merged) -> Mapping[str, Any] | None:
        if merged.updated_input is None or not self._is_real:
            return None
        ours = self._dialect.own_input(event.name, event.arguments, merged.updated_input)
        if ours is None:
            text = f"the updatedInput for {event.name} cannot be applied: a patch cannot be turned back into an edit"
            await self._engine.tell(event.agent, "ignored", text, "PreToolUse")
        return ours

    def _call(self, event: ToolUse | ToolUsed) -> Mapping[str, Any]:
        """Return the fields that tell which call it is."""
        arguments: Mapping[str, Any] = event.arguments if is_object(event.arguments) else {}
        if self._is_real:
            directory = self._directory(event.agent)
            tool_input = self._dialect.tool_input(event.name, arguments, directory)
            return {"tool_name": self._names(event.name)[0], "tool_input": tool_input}
        if self._dialect.name == "codex":
            command = arguments.get("command")
            return {"tool_name": event.name, "tool_input": {"command": command if isinstance(command, str) else ""}}
        return {"tool_name": event.name, "tool_input": arguments}

    def _names(self, name: str) -> Sequence[str]:
        """Return what matchers for a tool are held against: what it is called there, then our own name."""
        theirs = self._dialect.tool_names(name) if self._is_real else (name,)
        return theirs if name in theirs else (*theirs, name)

    def _directory(self, agent: Agent) -> str:
        return self._engine.library.directory(agent)

    def _session(self, agent: Agent) -> _Session:
        return self._sessions.setdefault(agent.session.id, _Session())

    @staticmethod
    def _objection(merged: Merged, point: str, *, fallback: str = "") -> str | None:
        if merged.verdict != "deny":
            return None
        return merged.reason or fallback or f"blocked by {point} hook"


def _text_of(messages: Sequence[Mapping[str, Any]]) -> str:
    blocks = (block for message in messages for block in message["content"])
    return "".join(block["text"] for block in blocks if block["type"] == "text")
