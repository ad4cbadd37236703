"""What came of one hook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from ._values import Handler

OutcomeKind: TypeAlias = Literal["pass", "allow", "ask", "deny", "error", "timeout", "spawn-failed", "cancelled"]
"""``pass`` decides nothing; ``deny`` is any objection, to a call, a prompt, a result or an end. The last four are
failures: the hook's answer counts for nothing, ``cancelled`` because its turn was."""

FAILURES: Final = frozenset(("error", "timeout", "spawn-failed", "cancelled"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a hook that could be run has said."""

    kind: OutcomeKind = "pass"
    word: str = "pass"
    """The decision as the log has it: the hook's own word where it gave one (BEHAVIOUR §7.8)."""
    reason: str = ""
    """Why it objects or asks; of a failure what failed."""
    stops: bool = False
    """Whether it wants the turn to end (``continue: false``)."""
    stop_reason: str = ""
    context: str = ""
    """What to add to the conversation."""
    message: str = ""
    """What to show to the user (``systemMessage``)."""
    updated_input: Mapping[str, Any] | None = None
    ignored: tuple[str, ...] = ()
    """Fields of its output that have no effect here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookOutcome:
    """One run of one hook."""

    handler: Handler
    answer: Answer
    exit_code: int | None = None
    """None when a signal ended it, and when it could not start."""
    stderr: str = ""
    duration_ms: float = 0

    @property
    def kind(self) -> OutcomeKind:
        """What came of it."""
        return self.answer.kind

    @property
    def has_failed(self) -> bool:
        """Whether its answer counts for nothing."""
        return self.kind in FAILURES

    @property
    def objection(self) -> str | None:
        """Why what it judged shall not be, None when it does not object; a closed hook objects by failing."""
        if self.kind == "deny":
            return self.answer.reason
        if self.has_failed and self.kind != "cancelled" and self.handler.on_failure == "closed":
            return f"the hook {self.handler.command!r} failed, and a failure of it blocks: {self.answer.reason}"
        return None
