"""Whether events that somebody hands over go on from a session."""

from __future__ import annotations

from collections.abc import Sequence

from dsh_session import EventRefused, Session, SessionEvent, decode_json

from .errors import SeqConflict


def continuation(
    session: Session, events: Sequence[SessionEvent], *, kept_from: int | None = None
) -> Sequence[SessionEvent]:
    """Return ``events`` without those that the session has already, checked so far as one event by itself can be.

    With ``kept_from`` the session's events from that seq on could not be written yet, and may be handed over again.
    Raises ``SeqConflict`` and ``EventRefused``.
    """
    kept = () if kept_from is None or events[0].seq != kept_from else session.events[kept_from:]
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
