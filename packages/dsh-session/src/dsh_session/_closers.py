"""The events that close an interrupted turn (FORMAT §4.5, GENERATIONS §8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._event import SessionEvent
from ._json import encode_data
from ._log_state import LogState, PendingCall

# Wire strings: harnesses compare them.
_STARTED = (
    "The tool call was interrupted after it was recorded, but no result was durably recorded. Its outcome is unknown. "
    "Decide whether to retry from the tool semantics: retry only if the operation is read-only or idempotent; if it "
    "may have side effects, first verify external state or ask the user. Do not retry blindly."
)
_NOT_STARTED = (
    "The tool call was interrupted before the Harness recorded it as started. Retry it if it is still needed."
)


def interrupted_closers(state: LogState) -> tuple[SessionEvent, ...]:
    """Return what closes the open turn that ``state`` ends in: a result per unsettled call, step end, turn end.

    Empty for a balanced log. The events repeat the last event's time and continue its seqs.
    """
    if state.turn is None:
        return ()
    closers: list[SessionEvent] = []

    def add(type: str, data: Mapping[str, Any], *, sources: tuple[int, ...] | None = None) -> None:
        closers.append(
            SessionEvent(
                type=type,
                seq=state.next_seq + len(closers),
                time=state.last_time,
                encoded=encode_data(type, data),
                source_event_seqs=sources,
                surface_op="append" if type == "tool/result" else None,
            )
        )

    for call in state.calls.values():
        sources = None if call.started_seq is None else (call.started_seq,)
        add("tool/result", _result(call, state.next_seq + len(closers)), sources=sources)
    if state.step is not None:
        add("step/end", {"turn": state.turn, "step": state.step})
    add("turn/end", {"turn": state.turn, "reason": {"kind": "interrupted"}})
    return tuple(closers)


def _result(call: PendingCall, seq: int) -> dict[str, Any]:
    started = call.started_seq is not None
    name, code = (
        ("ToolOutcomeUnknownError", "TOOL_OUTCOME_UNKNOWN") if started else ("ToolNotStartedError", "TOOL_NOT_STARTED")
    )
    return {
        "turn": call.turn,
        "step": call.step,
        "message": {
            "id": f"interrupted-tool-result-{call.call_id}-{seq}",
            "role": "tool",
            "toolCallId": call.call_id,
            "isError": True,
            "source": {"kind": "tool", "callId": call.call_id},
            "content": [{"type": "text", "text": _STARTED if started else _NOT_STARTED}],
        },
        "error": {"name": name, "code": code},
    }
