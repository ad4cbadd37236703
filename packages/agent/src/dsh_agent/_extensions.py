"""Extensions: who is told at each point of the loop, and how their decisions become one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ._decisions import (
    ApprovalAsked,
    PromptDecision,
    PromptSubmit,
    Remark,
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
    Verdict,
)
from ._report import report_failure
from ._services import AgentFailed

T = TypeVar("T")

_RANKS: Mapping[Verdict, int] = {"allow": 1, "ask": 2, "deny": 3}


class Extension:
    """Observes the loop and decides at its points; override what you need. None decides nothing.

    What a method raises is reported as ``AgentFailed`` and counts as no decision, except in ``pre_tool_use``, where
    it refuses the call.
    """

    name: str
    """Who it is: the source kind of what it adds to a conversation, such as ``plugin:acme``."""

    async def session_start(self, event: SessionStart) -> StartDecision | None:
        """Awaited before the first turn of a new, resumed or forked session."""

    async def prompt_submit(self, event: PromptSubmit) -> PromptDecision | None:
        """Awaited before each step that messages enter."""

    async def pre_tool_use(self, event: ToolUse) -> ToolDecision | None:
        """Awaited before a call runs; calls that follow wait."""

    async def approval_asked(self, event: ApprovalAsked) -> None:
        """Awaited before somebody is asked about a call; not where nobody could be."""

    async def post_tool_use(self, event: ToolUsed) -> ResultDecision | None:
        """Awaited before a result is logged, in the model's order; not for calls that were aborted."""

    async def turn_stopping(self, event: TurnStopping) -> StopDecision | None:
        """Awaited before a turn ends that was not aborted, blocked or failed."""

    async def subagent_start(self, event: SubagentStart) -> StartDecision | None:
        """Awaited before a child's first turn; what it adds enters the child's session."""

    async def subagent_end(self, event: SubagentEnd) -> None:
        """Awaited when a child has ended its work."""

    async def session_end(self, event: SessionEnd) -> None:
        """Awaited after the last turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """What came of asking every extension about a call."""

    verdict: Verdict | None
    reason: str
    arguments: Mapping[str, Any]
    is_updated: bool
    """Whether the arguments are an extension's and not the model's."""
    remarks: Sequence[Remark]


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """What came of asking every extension about messages, a result or the end of a turn."""

    block: str | None
    remarks: Sequence[Remark]


class Extensions:
    """The extensions of a harness, asked in the order of their registration, every one of them."""

    def __init__(self, emit: Callable[[object], Awaitable[None]]) -> None:
        """``emit`` announces what an extension raised."""
        self._emit = emit
        self._members: list[Extension] = []

    def register(self, extension: Extension) -> Callable[[], None]:
        """Ask ``extension`` until the returned function is called."""
        self._members.append(extension)

        def dispose() -> None:
            if extension in self._members:
                self._members.remove(extension)

        return dispose

    async def session_start(self, event: SessionStart) -> Sequence[Remark]:
        """Return what to add to the first step."""
        decided = await self._ask(event, lambda extension: extension.session_start(event))
        return _remarks(decided)

    async def subagent_start(self, event: SubagentStart) -> Sequence[Remark]:
        """Return what to add to the child's first step."""
        decided = await self._ask(event, lambda extension: extension.subagent_start(event))
        return _remarks(decided)

    async def subagent_end(self, event: SubagentEnd) -> None:
        """Tell of a child that has ended."""
        await self._ask(event, lambda extension: extension.subagent_end(event))

    async def session_end(self, event: SessionEnd) -> None:
        """Tell of a session that ends."""
        await self._ask(event, lambda extension: extension.session_end(event))

    async def prompt_submit(self, event: PromptSubmit) -> Objection:
        """Return why the messages may not enter, all reasons in one text, and what to add."""
        decided = await self._ask(event, lambda extension: extension.prompt_submit(event))
        return _objection(decided)

    async def post_tool_use(self, event: ToolUsed) -> Objection:
        """Return what takes the place of the result, and what to add to the next step."""
        decided = await self._ask(event, lambda extension: extension.post_tool_use(event))
        return _objection(decided)

    async def turn_stopping(self, event: TurnStopping) -> Sequence[Remark]:
        """Return what the turn goes on with; nothing lets it end."""
        decided = await self._ask(event, lambda extension: extension.turn_stopping(event))
        return [_remark(name, [decision.go_on]) for name, decision in decided if decision.go_on is not None]

    async def pre_tool_use(self, event: ToolUse) -> Permission:
        """Return the most restrictive verdict: deny, then ask, then allow; reasons are those of that rank.

        A fallback counts where every verdict is one.
        """
        decided: list[tuple[str, ToolDecision]] = []
        is_updated = False
        for extension in tuple(self._members):
            try:
                decision = await extension.pre_tool_use(event)
            except Exception as error:  # noqa: BLE001  # foreign code; a guard that fails lets nothing pass
                await self._report(event, extension, error)
                decision = ToolDecision(verdict="deny", reason=f"{extension.name} failed: {error}")
            if decision is None:
                continue
            decided.append((extension.name, decision))
            if decision.updated_input is not None:
                event, is_updated = replace(event, arguments=decision.updated_input), True
        verdict, reason = _verdict([decision for _, decision in decided])
        return Permission(
            verdict=verdict,
            reason=reason,
            arguments=event.arguments,
            is_updated=is_updated,
            remarks=_remarks(decided),
        )

    async def approval_asked(self, event: ApprovalAsked) -> None:
        """Tell that somebody is about to be asked."""
        await self._ask(event, lambda extension: extension.approval_asked(event))

    async def _ask(self, event: Any, ask: Callable[[Extension], Awaitable[T | None]]) -> list[tuple[str, T]]:
        decided: list[tuple[str, T]] = []
        for extension in tuple(self._members):
            try:
                decision = await ask(extension)
            except Exception as error:  # noqa: BLE001  # foreign code; the loop goes on without it
                await self._report(event, extension, error)
            else:
                if decision is not None:
                    decided.append((extension.name, decision))
        return decided

    async def _report(self, event: Any, extension: Extension, error: Exception) -> None:
        what = f"extension {extension.name!r} failed at {type(event).__name__}"
        await report_failure(self._emit, AgentFailed(agent=event.agent, error=error), what)


def _verdict(decisions: Sequence[ToolDecision]) -> tuple[Verdict | None, str]:
    """Return the most restrictive verdict of those that count, and why it asks or denies."""
    is_firm = any(decision.verdict is not None and not decision.is_fallback for decision in decisions)
    reasons: dict[Verdict, list[str]] = {}
    for decision in decisions:
        if decision.verdict is not None and not (is_firm and decision.is_fallback):
            reasons.setdefault(decision.verdict, []).append(decision.reason)
    if not reasons:
        return None, ""
    verdict = max(reasons, key=_RANKS.__getitem__)
    return verdict, "" if verdict == "allow" else "\n\n".join(filter(None, reasons[verdict]))


def _objection(decided: Sequence[tuple[str, PromptDecision | ResultDecision]]) -> Objection:
    blocks = [decision.block for _, decision in decided if decision.block is not None]
    return Objection(block="\n\n".join(filter(None, blocks)) if blocks else None, remarks=_remarks(decided))


def _remarks(
    decided: Sequence[tuple[str, StartDecision | PromptDecision | ToolDecision | ResultDecision]],
) -> Sequence[Remark]:
    """Gather what was added: the texts of one extension are one message, and its remarks stand for themselves."""
    remarks: list[Remark] = []
    for name, decision in decided:
        texts = [item for item in decision.context if isinstance(item, str) and item]
        if texts:
            remarks.append(_remark(name, texts))
        remarks += [item for item in decision.context if isinstance(item, Remark)]
    return remarks


def _remark(name: str, texts: Sequence[str]) -> Remark:
    return Remark(source={"kind": name}, texts=texts)
