"""What waits to be said, and which models a delegation may choose (FORMAT §8, GENERATIONS §2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._event import SessionEvent
from ._rules_check import count, items, record, refuse, text
from ._rules_content import check_carried, check_message

if TYPE_CHECKING:
    from ._log_state import LogState

_TARGETS = ("next-turn", "next-step")


def spliced(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """A splice takes messages out of one of two queues, no more than wait there, and puts user messages in."""
    check_carried(event, data)
    target = data.get("target")
    if target not in _TARGETS:
        refuse(event, f"its target is {target!r}, not one of {', '.join(_TARGETS)}")
    waiting = state.facts.waiting.get(target, 0)
    start = count(event, data.get("start"), "start")
    removed = count(event, data.get("removedCount", 0), "removedCount")
    if start + removed > waiting:
        refuse(event, f"it removes {removed} messages from place {start} on, and {waiting} wait")
    inserted = items(event, data.get("inserted"), "inserted")
    for message in inserted:
        check_message(event, message, role="user")
    state.facts.waiting[target] = waiting - removed + len(inserted)


def model_selection_policy(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:  # noqa: ARG001
    """A policy names at least one route, each by provider and model, none twice."""
    routes: set[tuple[str, str]] = set()
    for value in items(event, data.get("allowedModels"), "allowedModels"):
        route = record(event, value, "route")
        pair = text(event, route.get("provider"), "route's provider"), text(event, route.get("model"), "route's model")
        if pair in routes:
            refuse(event, f"it names the route {'/'.join(pair)} twice")
        routes.add(pair)
    if not routes:
        refuse(event, "its allowedModels are empty")
