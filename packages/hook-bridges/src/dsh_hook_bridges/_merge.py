"""From the outcomes of all hooks of a point to one decision, in the order of the configuration (BEHAVIOUR §7.6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ._outcome import HookOutcome
from ._values import Handler

Verdict: TypeAlias = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What the hooks of a point have decided together: the most restrictive of them decides, whatever its place."""

    verdict: Verdict | None
    reason: str
    """Those of the hooks that gave the verdict, an empty line between them."""
    stop: str | None
    """Why the turn shall end, empty where the first who wants that gives no reason; None lets it go on."""
    contexts: Sequence[str]
    updated_input: Mapping[str, Any] | None
    """That of the last hook that has one and lets the call run."""


def merge(outcomes: Sequence[HookOutcome]) -> Merged:
    """Return the decision of all."""
    objections = [objection for outcome in outcomes if (objection := outcome.objection) is not None]
    asked = [outcome.answer.reason for outcome in outcomes if outcome.kind == "ask"]
    verdict: Verdict | None = None
    reasons: Sequence[str] = ()
    if objections:
        verdict, reasons = "deny", objections
    elif asked:
        verdict, reasons = "ask", asked
    elif any(outcome.kind == "allow" for outcome in outcomes):
        verdict = "allow"
    updated = [o.answer.updated_input for o in outcomes if o.answer.updated_input is not None]
    stops = [outcome.answer.stop_reason for outcome in outcomes if outcome.answer.stops]
    return Merged(
        verdict=verdict,
        reason="\n\n".join(filter(None, reasons)),
        stop=stops[0] if stops else None,
        contexts=[outcome.answer.context for outcome in outcomes if outcome.answer.context],
        updated_input=updated[-1] if updated and verdict != "deny" else None,
    )


def without_twins(handlers: Iterable[Handler]) -> Iterator[Handler]:
    """Yield the handlers of a point, each command once: the first of those that run and fail alike."""
    seen: set[tuple[object, ...]] = set()
    for handler in handlers:
        key = handler.command, handler.is_detached, handler.on_failure, handler.pass_env
        if key not in seen:
            seen.add(key)
            yield handler
