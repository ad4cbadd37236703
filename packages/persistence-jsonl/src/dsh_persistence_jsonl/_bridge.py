"""What makes the events behind a gap fit to those before it: the turns and steps that were lost in it, made again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from dsh_session import LogState, Replace, SessionEvent, generations

_PLACED = frozenset(
    """
    turn/start turn/end step/start step/end system/message developer/message assistant/message assistant/attempt
    tool/call tool/result
    """.split()
)


class Bridge(NamedTuple):
    """What has to stand between a log so far and an event."""

    closers: int
    """How many of the events that close an interrupted turn come first."""
    opening: tuple[tuple[str, dict[str, Any]], ...]
    """Type and data of each event that follows them."""

    def __len__(self) -> int:
        return self.closers + len(self.opening)


def says_where(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> bool:
    """Tell whether an event shows in which turn or step the log is."""
    return _in_place(event, data) or _needs_head(state, event)


def bridge_to(state: LogState, event: SessionEvent, data: Mapping[str, Any], room: int) -> Bridge | None:
    """Return what ``event`` needs before it, nothing when it fits; None for more than ``room`` events.

    The lost events must have done as much, so where a log was valid there is room.
    """
    path = _Path(state, room)
    turn, step = _whole(data, "turn"), _whole(data, "step")
    if turn is not None and _in_place(event, data):
        path.lead(event.type, turn, step)
    if _needs_head(state, event):
        path.add_head()
    if event.type == "tool/result" and not path.closers:
        path.add_call(state, data)
    bridge = Bridge(path.closers, tuple(path.opening))
    return bridge if path.fits and len(bridge) <= room else None


class _Path:
    """Walks from where a log is to where an event belongs, and writes down the way."""

    def __init__(self, state: LogState, room: int) -> None:
        self.turn, self.step = state.turn, state.step
        self.last_turn, self.last_step = state.last_turn, state.last_step
        self.calls = len(state.calls)
        self.room = room
        self.closers = 0
        self.opening: list[tuple[str, dict[str, Any]]] = []
        self.fits = True

    def lead(self, type: str, turn: int, step: int | None) -> None:
        match type:
            case "turn/start":
                self._end_turn()
                self._reach_turn(turn - 1)
                self._end_turn()
            case "turn/end":
                self._enter_turn(turn)
                self._end_step()
            case "step/start" if step is not None:
                self._enter_turn(turn)
                self._end_step()
                self._reach_step(step - 1)
                self._end_step()
            case "step/end" if step is not None:
                self._enter_step(turn, step)
                self.closers += self.calls
            case _ if step is not None:
                self._enter_step(turn, step)
            case _:
                self._enter_turn(turn)

    def add_head(self) -> None:
        if self.turn is None:
            self._enter_turn(self.last_turn + 1)
        if self.turn is not None and self.step is None:
            self._reach_step(self.last_step + 1)
        message = {"id": "salvaged-system-message", "role": "system", "content": []}
        source = {"source": {"kind": "system-prompt"}}
        self.opening.append(("system/message", {**self._place(), "message": {**message, **source}}))

    def add_call(self, state: LogState, data: Mapping[str, Any]) -> None:
        message = data.get("message")
        call = state.calls.get(message["toolCallId"]) if isinstance(message, dict) and "toolCallId" in message else None
        if call is not None and call.started_seq is None:
            details = {"callId": call.call_id, "name": call.name, "arguments": call.arguments}
            self.opening.append(("tool/call", {**self._place(), **details}))

    def _enter_turn(self, turn: int) -> None:
        if self.turn != turn:
            self._end_turn()
            self._reach_turn(turn)

    def _enter_step(self, turn: int, step: int) -> None:
        self._enter_turn(turn)
        if self.step != step:
            self._end_step()
            self._reach_step(step)

    def _reach_turn(self, turn: int) -> None:
        """Begin turns up to this one, each ended before the next begins."""
        self.fits &= turn - self.last_turn <= self.room
        while self.fits and self.last_turn < turn:
            self._end_turn()
            self.turn = self.last_turn = self.last_turn + 1
            self.last_step = 0
            self.opening.append(("turn/start", {"turn": self.turn}))

    def _reach_step(self, step: int) -> None:
        self.fits &= step - self.last_step <= self.room
        while self.fits and self.last_step < step:
            self._end_step()
            self.step = self.last_step = self.last_step + 1
            self.opening.append(("step/start", self._place()))

    def _end_step(self) -> None:
        if self.step is None:
            return
        if self.opening:
            self.opening.append(("step/end", self._place()))
        else:
            self.closers += self.calls + 1
        self.calls, self.step = 0, None

    def _end_turn(self) -> None:
        self._end_step()
        if self.turn is None:
            return
        if self.opening:
            self.opening.append(("turn/end", {"turn": self.turn, "reason": {"kind": "interrupted"}}))
        else:
            self.closers += 1
        self.turn = None

    def _place(self) -> dict[str, Any]:
        return {"turn": self.turn, "step": self.step}


def _in_place(event: SessionEvent, data: Mapping[str, Any]) -> bool:
    """Tell whether the rules let an event stand only in the turn and step that it names."""
    return event.type in _PLACED and _whole(data, "turn") is not None and not isinstance(event.surface_op, Replace)


def _needs_head(state: LogState, event: SessionEvent) -> bool:
    """Tell whether a message would be the first of the log and is no system message; no harness goes on from that."""
    return not state.surface and event.type in generations.SURFACE_TYPES and event.type != "system/message"


def _whole(data: Mapping[str, Any], key: str) -> int | None:
    value = data.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
