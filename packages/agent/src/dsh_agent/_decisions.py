"""What the loop tells extensions at each point, and what they may decide there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from ._agent import Agent
    from ._tools import ToolResult

SessionSource: TypeAlias = Literal["startup", "resume", "fork"]

Verdict: TypeAlias = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStart:
    """An agent is about to begin with its session."""

    agent: Agent
    source: SessionSource


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSubmit:
    """Messages are about to enter a step: prompts, what was steered or injected, notices."""

    agent: Agent
    turn: int
    step: int
    """The number the step will have."""
    messages: Sequence[Mapping[str, Any]]
    """Each with ``content``, ``source``, ``role`` and ``id``; the source's ``kind`` is ``user`` for a human's."""

    @property
    def text(self) -> str:
        """All their text, joined."""
        blocks = (block for message in self.messages for block in message["content"])
        return "".join(block["text"] for block in blocks if block["type"] == "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """A call is about to run; its tool exists and its arguments fit."""

    agent: Agent
    turn: int
    step: int
    call_id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAsked:
    """Somebody is about to be asked whether a call may run."""

    agent: Agent
    turn: int
    step: int
    call_id: str
    name: str
    arguments: Mapping[str, Any]
    """Those it would run with."""
    reason: str
    """Why it is asked; may be empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUsed:
    """A call came to something: a result, a failure, a refusal; also one that named no tool or did not fit it."""

    agent: Agent
    turn: int
    step: int
    call_id: str
    name: str
    arguments: Any
    """Those it ran with; where they were no valid ones, what the model wrote."""
    result: ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStopping:
    """A turn is about to end by itself, and nothing waits to enter it."""

    agent: Agent
    turn: int
    reason: Mapping[str, Any]
    """The end it would have: ``kind`` is completed or max-tokens."""
    text: str
    """What the model said last."""
    continuations: int
    """How often an extension has made this turn go on already; the loop sets no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentStart:
    """A child is about to work for an agent."""

    agent: Agent
    child: Agent
    kind: str
    """What the child is for: the label it was delegated with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentEnd:
    """A child has ended its work."""

    agent: Agent
    child: Agent
    kind: str
    reason: Mapping[str, Any]
    """How its last turn ended; empty when it had none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnd:
    """An agent lets go of its session; no turn follows."""

    agent: Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """What an extension adds to a conversation under a source of its own: one user message."""

    source: Mapping[str, Any]
    """Its ``kind`` says who speaks; the rest is the producer's."""
    texts: Sequence[str]
    """One block each."""


Context: TypeAlias = Sequence["str | Remark"]
"""What an extension adds: its texts become one user message under its name, empty ones are passed over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartDecision:
    """What to add when a session or a child starts."""

    context: Context = ()
    """Enters the first step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptDecision:
    """Whether messages may enter their step, and what to add."""

    block: str | None = None
    """Why they may not: the turn ends as ``blocked`` and a human's messages are gone; others wait for the next step."""
    context: Context = ()
    """Enters after them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDecision:
    """Whether a call may run."""

    verdict: Verdict | None = None
    """``ask`` goes to the ``APPROVAL`` service; None leaves it to others, and allows where nobody objects."""
    is_fallback: bool = False
    """Whether the verdict stands only where nobody else gives one."""
    reason: str = ""
    """Why it is refused, for the model; or why it is asked."""
    updated_input: Mapping[str, Any] | None = None
    """Arguments to run it with instead; later extensions see them, and they must fit the tool."""
    context: Context = ()
    """Enters the next step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultDecision:
    """What the model sees of a result."""

    block: str | None = None
    """Feedback that takes the place of the result, which is lost, and makes it an error."""
    context: Context = ()
    """Enters the next step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopDecision:
    """Whether a turn may end."""

    go_on: str | None = None
    """What to tell the model instead; the turn goes on with another step."""
