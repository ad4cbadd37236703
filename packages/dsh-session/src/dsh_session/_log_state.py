"""What a log means so far: open turn and step, unsettled calls, the surface (FORMAT §5, §6; GENERATIONS §5).

Each rule checks first and applies afterwards, so a refused event leaves the state as it was.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from . import generations
from ._event import SessionEvent
from ._header import SessionHeader
from ._json import MAX_INTEGER
from ._messages import Offloads
from ._pending import PendingCall
from ._surface import Surface
from .errors import EventRefused

if TYPE_CHECKING:
    from ._rules import Rule


class LogState:
    """The fold of a log, event by event, from seq 0.

    ``feed`` is how a stored log and a live session both arrive at it. The rules are those that make a harness refuse
    the whole log; what is merely unusual passes.
    """

    def __init__(self, *, header: SessionHeader | None = None) -> None:
        """With the session's ``header``, rules that tie events to it apply too."""
        self.header = header
        self.next_seq = 0
        self.turn: int | None = None
        """The open turn."""
        self.last_turn = 0
        self.step: int | None = None
        """The open step of the open turn."""
        self.last_step = 0
        self.calls: dict[str, PendingCall] = {}
        """Unsettled calls by id, in the order their message announced them."""
        self.surface = Surface()
        self.offloads: Offloads = {}
        """Images that live outside the request now, by the seq of their message."""
        self.last_type: str | None = None
        self.last_time = 0
        self.request_header_seq: int | None = None
        """The seq of the request header in force."""
        self.request_context_seq: int | None = None
        """The seq of the last request context."""
        from ._facts import Facts  # noqa: PLC0415  # see _rules

        self.facts = Facts(header)
        """What only the rules read."""

    @property
    def compacting(self) -> bool:
        """Whether a compaction has started and not ended."""
        return self.facts.compaction is not None

    def feed_all(self, events: Iterable[SessionEvent]) -> None:
        """Feed events in order. Raises ``EventRefused`` at the first that breaks a rule."""
        for event in events:
            self.feed(event, data_for_rules(event))

    def feed(self, event: SessionEvent, data: Any) -> None:
        """Check ``event``, whose decoded data is ``data``, against all rules, then take it in.

        Raises ``EventRefused``.
        """
        if event.seq != self.next_seq:
            raise EventRefused(event.type, f"the log goes on with seq {self.next_seq}", seq=event.seq)
        _check_envelope(event)
        if self.facts.settled and self.facts.crossing is not None and event.type != "session/end-seed":
            raise EventRefused(event.type, "a compaction was interrupted; session/end-seed comes first", seq=event.seq)
        if rule := _rules().get(event.type):
            if not isinstance(data, dict):
                raise EventRefused(event.type, "its data is no object", seq=event.seq)
            try:
                rule(self, event, cast("dict[str, Any]", data))
            except (AttributeError, KeyError, TypeError) as error:
                raise EventRefused(event.type, f"its data lacks or distorts {error}", seq=event.seq) from None
        self.next_seq += 1
        self.last_type = event.type
        self.last_time = event.time

    def settle(self) -> None:
        """Say that the stored log ends here and what follows is live.

        Some events are excused only by a later mark: an inherited catalog by the end of the inherited part, a turn
        that ends inside a compaction by the resume that abandoned it. Raises ``EventRefused`` for one that was not.
        """
        self.facts.settle()


def data_for_rules(event: SessionEvent) -> Any:
    """Return the decoded data, None where no rule reads it: it may be nested deeper than Python decodes.

    Raises ``EventRefused`` when it is no JSON.
    """
    try:
        return event.data if event.type in _rules() else None
    except ValueError as error:
        raise EventRefused(event.type, f"its data is no JSON: {error}", seq=event.seq) from None


@functools.cache
def _rules() -> Mapping[str, Rule]:
    """Load the rules when the first log is folded: who lists, locates or tails sessions never needs them."""
    from ._rules import RULES  # noqa: PLC0415  # see above

    return RULES


def _check_envelope(event: SessionEvent) -> None:
    """FORMAT §1.1: who may carry a surface operation, sources and the ignorable mark."""
    known = event.type in generations.KNOWN_TYPES
    if not known and not _is_text(event.type):
        raise EventRefused(event.type, "the type holds half a surrogate pair, which no log can", seq=event.seq)
    if not known and not event.ignorable:
        raise EventRefused(event.type, "the type is unknown; own types are named plugin:<ns>/<name>", seq=event.seq)
    if not -MAX_INTEGER <= event.time <= MAX_INTEGER:
        raise EventRefused(event.type, f"its time {event.time} lies beyond ±(2^53-1) ms", seq=event.seq)
    if event.type in generations.SURFACE_TYPES:
        if event.surface_op is None:
            raise EventRefused(event.type, "it needs a surface operation, 'append' or a replacement", seq=event.seq)
    elif known and event.surface_op is not None:
        raise EventRefused(event.type, "a surface operation is only for messages and tool results", seq=event.seq)
    if event.source_event_seqs is not None and known:
        _check_sources(event, event.source_event_seqs)


def _is_text(type: str) -> bool:
    try:
        type.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_sources(event: SessionEvent, sources: tuple[int, ...]) -> None:
    if event.type not in generations.SURFACE_TYPES:
        raise EventRefused(event.type, "sources are only for messages and tool results", seq=event.seq)
    if not sources:
        raise EventRefused(event.type, "its sources are empty; leave them out", seq=event.seq)
    if len(set(sources)) != len(sources) or not all(0 <= seq < event.seq for seq in sources):
        raise EventRefused(event.type, "its sources are not distinct earlier seqs", seq=event.seq)
