"""The events that close a turn whose writer is gone, after a crash or in a fork (FORMAT §4.5, GENERATIONS §8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ._event import SessionEvent
from ._json import encode_data
from ._log_state import LogState
from ._pending import NOT_STARTED_TEXT, PendingCall

Cause = Literal["interrupted", "forked"]

# Wire strings: harnesses compare them.
_DECIDE = (
    "Decide whether to retry from the tool semantics: retry only if the operation is read-only or idempotent; if it "
    "may have side effects, first verify external state or ask the user. Do not retry blindly."
)
_STARTED: dict[Cause, str] = {
    "interrupted": "The tool call was interrupted after it was recorded, but no result was durably recorded. Its "
    f"outcome is unknown. {_DECIDE}",
    "forked": "The history inherited by this branch records this tool call starting but does not include its result. "
    f"The parent session may have completed it after the fork point. {_DECIDE}",
}
_NOT_STARTED: dict[Cause, str] = {
    "interrupted": NOT_STARTED_TEXT,
    "forked": "The history inherited by this branch has no record of this tool call starting. The parent session may "
    f"have executed it after the fork point. {_DECIDE}",
}


def interrupted_closers(state: LogState) -> tuple[SessionEvent, ...]:
    """Return what closes the open turn that ``state`` ends in: a result per unsettled call, step end, turn end.

    Empty for a balanced log. The events repeat the last event's time and continue its seqs.
    """
    return _closers(state, "interrupted", state.next_seq)


def repair_closers(state: LogState) -> tuple[SessionEvent, ...]:
    """Return the closers to write after a crash; those of ``interrupted_closers``, so that each prefix is a valid log.

    A turn must not end inside a compaction that nothing has marked as abandoned, so where one is open the mark,
    ``session/end-seed``, comes first.
    """
    if state.turn is None or not state.compacting:
        return interrupted_closers(state)
    mark = _mark(state.next_seq, state.last_time, {})
    return (mark, *_closers(state, "interrupted", state.next_seq + 1))


def fork_seed(events: Sequence[SessionEvent], at: int | None = None) -> tuple[SessionEvent, ...]:
    """Return what a fork begins with: the events up to and with ``at``, the mark that ends them, and closers.

    ``at`` defaults to the last event; it may lie inside a turn, which is then closed as forked. Raises ``EventRefused``
    when ``events`` break a rule, and ``ValueError`` when there is no event ``at``.
    """
    boundary = len(events) - 1 if at is None else at
    if not 0 <= boundary < len(events):
        msg = f"there is no event {boundary} to fork at; the log has {len(events)} events"
        raise ValueError(msg)
    prefix = tuple(events[: boundary + 1])
    state = LogState()
    state.feed_all(prefix)
    mark = _mark(state.next_seq, state.last_time, {"inherited": True})
    return (*prefix, mark, *_closers(state, "forked", state.next_seq + 1))


def _mark(seq: int, time: int, data: Mapping[str, Any]) -> SessionEvent:
    return SessionEvent(type="session/end-seed", seq=seq, time=time, encoded=encode_data("session/end-seed", data))


def _closers(state: LogState, cause: Cause, first_seq: int) -> tuple[SessionEvent, ...]:
    if state.turn is None:
        return ()
    closers: list[SessionEvent] = []

    def add(type: str, data: Mapping[str, Any], *, sources: tuple[int, ...] | None = None) -> None:
        closers.append(
            SessionEvent(
                type=type,
                seq=first_seq + len(closers),
                time=state.last_time,
                encoded=encode_data(type, data),
                source_event_seqs=sources,
                surface_op="append" if type == "tool/result" else None,
            )
        )

    for call in state.calls.values():
        sources = None if call.started_seq is None else (call.started_seq,)
        add("tool/result", _result(call, cause, first_seq + len(closers)), sources=sources)
    if state.step is not None:
        add("step/end", {"turn": state.turn, "step": state.step})
    add("turn/end", {"turn": state.turn, "reason": {"kind": cause}})
    return tuple(closers)


def _result(call: PendingCall, cause: Cause, seq: int) -> dict[str, Any]:
    started = call.started_seq is not None
    name, code = (
        ("ToolOutcomeUnknownError", "TOOL_OUTCOME_UNKNOWN") if started else ("ToolNotStartedError", "TOOL_NOT_STARTED")
    )
    text = (_STARTED if started else _NOT_STARTED)[cause]
    return {
        "turn": call.turn,
        "step": call.step,
        "message": {
            "id": f"{cause}-tool-result-{call.call_id}-{seq}",
            "role": "tool",
            "toolCallId": call.call_id,
            "isError": True,
            "source": {"kind": "tool", "callId": call.call_id},
            "content": [{"type": "text", "text": text}],
        },
        "error": {"name": name, "code": code},
    }
