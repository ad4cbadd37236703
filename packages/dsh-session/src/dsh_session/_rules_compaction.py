"""Compactions: start, summary, checkpoint, end; and prunings (GENERATIONS §5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._event import SessionEvent
from ._facts import Compaction
from ._rules_check import count, earlier, get, items, record, refuse, same, text
from ._rules_content import check_content

if TYPE_CHECKING:
    from ._log_state import LogState


def start(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """One compaction at a time; it names the open turn, or null outside any."""
    facts = state.facts
    if facts.compaction is not None:
        refuse(event, f"compaction {facts.compaction.id!r} is still open")
    turn = None if data["turn"] is None else count(event, data["turn"], "turn")
    if turn != state.turn:
        refuse(event, f"turn {state.turn} is due, it names {turn}")
    id = text(event, data.get("compactionId"), "compactionId")
    facts.compaction = Compaction(id=id, command=get(data, "sourceCommandId"), turn=turn)


def summary(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """A compaction has one summary; what it replaces is an exact span of the surface."""
    check_content(event, data.get("summary"))
    check_content(event, data.get("rawOutput"))
    _check_span(state, event, data)
    current = _owned(state, event, data)
    if current.summarized:
        refuse(event, f"compaction {current.id!r} has a summary already")
    current.summarized = True


def end(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """A compaction ends in the turn it started in, with a summary or an error."""
    current = _owned(state, event, data)
    if not same(get(data, "turn"), current.turn):
        refuse(event, f"turn {current.turn} is due, it names {data.get('turn')!r}")
    if "error" not in data and not current.summarized:
        refuse(event, "it ends without a summary and without an error")
    if state.facts.crossing is not None:
        raise state.facts.crossing
    state.facts.compaction = None


def prune(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """What is pruned is an exact span of the surface."""
    _check_span(state, event, data)


def open_compaction(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> Compaction:
    """Return the open compaction, which ``data`` must name."""
    current = state.facts.compaction
    if (
        current is None
        or not same(get(data, "compactionId"), current.id)
        or not same(get(data, "sourceCommandId"), current.command)
    ):
        refuse(event, f"compaction {data.get('compactionId')!r} is not open")
    return current


def _owned(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> Compaction:
    current = open_compaction(state, event, data)
    if current.turn != state.turn:
        refuse(event, f"compaction {current.id!r} belongs to turn {current.turn}, and turn {state.turn} is open")
    return current


def _check_span(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    span = record(event, data.get("shadowedRange"), "shadowedRange")
    first = earlier(event, span.get("start"), "shadowedRange's start")
    last = earlier(event, span.get("end"), "shadowedRange's end")
    nodes = state.surface.span(first, last)
    if nodes is None or list(nodes) != items(event, data.get("shadowedSeqs"), "shadowedSeqs"):
        refuse(event, "its shadowedSeqs are no exact span of the surface")
    if state.surface.protected in nodes:
        refuse(event, "its span holds the system message at the head, which is protected")
