"""Turns and steps (FORMAT §5, GENERATIONS §5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._event import SessionEvent
from ._rules_check import expect, record, refuse, text
from .errors import EventRefused

if TYPE_CHECKING:
    from ._log_state import LogState


def in_turn(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """Require that the event names the open turn."""
    require_turn(state, event)
    assert state.turn is not None  # noqa: S101 - the line above
    expect(event, "turn", data["turn"], state.turn)


def require_turn(state: LogState, event: SessionEvent) -> None:
    """Require that a turn is open."""
    if state.turn is None:
        refuse(event, "no turn is open")


def in_step(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """Require that the event names the open turn and step."""
    in_turn(state, event, data)
    if state.step is None:
        refuse(event, "no step is open")
    expect(event, "step", data["step"], state.step)


def turn_start(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """Turns are numbered 1, 2, 3 and so on, one at a time."""
    if state.turn is not None:
        refuse(event, f"turn {state.turn} is still open")
    expect(event, "turn", data["turn"], state.last_turn + 1)
    _cross_compaction(state, event, data)
    state.turn = state.last_turn = int(data["turn"])
    state.last_step = 0


def turn_end(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """A turn ends outside any step, with a reason."""
    in_turn(state, event, data)
    _no_step(state, event)
    text(event, record(event, data.get("reason"), "reason").get("kind"), "reason's kind")
    _cross_compaction(state, event, data)
    state.turn = None


def step_start(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """Steps are numbered 1, 2, 3 and so on in their turn, one at a time."""
    in_turn(state, event, data)
    _no_step(state, event)
    expect(event, "step", data["step"], state.last_step + 1)
    state.step = state.last_step = int(data["step"])


def step_end(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """A step ends when all its calls have results."""
    in_step(state, event, data)
    if state.calls:
        refuse(event, f"calls {', '.join(state.calls)} have no result")
    state.step = None


def _no_step(state: LogState, event: SessionEvent) -> None:
    if state.step is not None:
        refuse(event, f"step {state.step} is still open")


def _cross_compaction(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """No turn begins or ends inside a compaction, unless a later ``session/end-seed`` shows that it was abandoned.

    A live session cannot look ahead; it may only close an interrupted turn, and must then set that mark.
    """
    facts = state.facts
    if facts.compaction is None:
        return
    error = EventRefused(event.type, f"compaction {facts.compaction.id!r} is still open", seq=event.seq)
    if facts.settled and (event.type == "turn/start" or data["reason"].get("kind") != "interrupted"):
        raise error
    facts.crossing = facts.crossing or error
