"""Whether events that somebody hands over go on from a session."""

from __future__ import annotations

from collections.abc import Sequence

from dsh_session import EventRefused, Session, SessionEvent, decode_json

from .errors import SeqConflict


def continuation(
    session: Session, events: Sequence[SessionEvent], *, again: range = range(0)
) -> Sequence[SessionEvent]:
    """Return ``events`` without those that the session has already, checked so far as one event by itself can be.

    Only events with a seq in ``again`` may be there already. Raises ``SeqConflict`` and ``EventRefused``.
    """
    first_seq = events[0].seq
    kept = session.events[first_seq : again.stop] if first_seq in again else ()
    repeated = 0
    for mine, theirs in zip(kept, events, strict=False):
        if mine != theirs:
            break
        repeated += 1
    new = events[repeated:]
    for due, event in enumerate(new, session.next_seq):
        if event.seq != due:
            raise SeqConflict(session.id, expected=due, found=event.seq)
        _require_json(event)
    return new


def _require_json(event: SessionEvent) -> None:
    """Refuse bytes that are no JSON, or more than a line: no rule looks at most data, and readers stumble over it."""
    try:
        decode_json(event.encoded)
    except ValueError as error:
        raise EventRefused(event.type, f"its data is no JSON: {error}", seq=event.seq) from None
    if b"\n" in event.encoded:
        raise EventRefused(event.type, "its data has a line break between its tokens", seq=event.seq)
