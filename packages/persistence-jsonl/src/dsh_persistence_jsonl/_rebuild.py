"""The events of a new log out of the parts of a damaged one: each keeps its seq, and what comes out loads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

import msgspec

from dsh_session import (
    EventRefused,
    LogState,
    SessionEvent,
    SessionHeader,
    SurfaceOp,
    decode_json,
    encode_data,
    generations,
    interrupted_closers,
)

from ._bridge import Bridge, bridge_to, says_where
from ._numbering import Numbered, Part, Turn
from ._rows import RowInvalid, encode_row
from ._survey import Hole
from ._writer import ROW_BYTES

LOST_TYPE = f"{generations.PLUGIN_PREFIX}dsh-py/lost"
"""Stands for an event that is lost."""
SALVAGED_TYPE = f"{generations.PLUGIN_PREFIX}dsh-py/salvaged"
"""Holds the row of an event that the rules refuse where it stands."""
_WAITING = 1_000
"""So many events may come before one that shows in which turn or step the log is."""
_NOTHING = "nothing was written for it"


class Kept(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A row of the source that is in the new log otherwise than it was."""

    seq: int
    """In the new log."""
    type: str
    offset: int
    line: int | None
    reason: str


class Lost(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A run of seqs whose events are gone."""

    first_seq: int
    next_seq: int
    offset: int
    """Where in the source they should be."""
    reason: str


class _Refused(NamedTuple):
    part: Numbered
    event: SessionEvent
    reason: str


class Rebuild:
    """Goes through the parts of one branch once, and counts what becomes of them.

    Where events are lost or refused there is a gap. What stands in it is decided when a later event shows to which
    turn and step it has to lead.
    """

    def __init__(self, header: SessionHeader, forced: frozenset[int]) -> None:
        """``forced`` are the seqs of events to wrap although the rules take them when they come."""
        self.state = LogState(header=header)
        self.forced = forced
        self.kept = 0
        self.unproven = 0
        self.renumbered: list[Kept] = []
        self.wrapped: list[Kept] = []
        self.lost: list[Lost] = []
        self.bridged: list[int] = []
        self._gap: list[Lost | _Refused] = []
        """What is missing from the state's next seq on, one for each seq."""
        self._waiting: list[tuple[Numbered, SessionEvent]] = []
        """What follows the gap."""
        self._displaced: list[_Refused] = []
        """Refused events whose place something else needs; they come last."""
        self._next_seq = 0
        self._fault = (0, _NOTHING)

    def events(self, parts: Iterable[Part]) -> Iterator[SessionEvent]:
        """Yield the events of the new log in order."""
        for part in parts:
            event = self._event_of(part)
            if event is not None and isinstance(part, Numbered):
                yield from self._miss(event.seq)
                self._fault, self._next_seq = (part.line.offset, _NOTHING), event.seq + 1
                yield from self._take(part, event)
        yield from self._fill(Bridge(0, ()))
        for refused in self._displaced:
            yield self._wrapped(refused)
        if self.state.compacting:  # which nobody will go on with; a turn that ended inside it is excused by this mark
            yield from self._built(Bridge(0, (("session/end-seed", {}),)))

    def _event_of(self, part: Part) -> SessionEvent | None:
        """Return the event of a part, None for what is none."""
        if not isinstance(part, Numbered):
            self._fault = (part.offset if isinstance(part, Hole) else part.line.offset, part.reason)
            return None
        try:
            event = part.event()
            decode_json(event.encoded)
            if len(event.encoded) > ROW_BYTES // 2 and len(encode_row(event)) > ROW_BYTES:
                self._fault = (part.line.offset, f"its row is longer than the {ROW_BYTES} bytes that are written")
                return None
        except (RowInvalid, RecursionError, ValueError) as error:
            self._fault = (part.line.offset, f"it cannot be decoded: {error}")
            return None
        return event

    def _miss(self, seq: int) -> Iterator[SessionEvent]:
        """Note that everything before ``seq`` is lost; an earlier gap that something follows is closed."""
        if seq == self._next_seq:
            return
        if self._waiting:
            yield from self._fill(Bridge(0, ()))
        offset, reason = self._fault
        lost = Lost(first_seq=self._next_seq, next_seq=seq, offset=offset, reason=reason)
        self.lost.append(lost)
        self._gap += [lost] * (seq - self._next_seq)

    def _take(self, part: Numbered, event: SessionEvent) -> Iterator[SessionEvent]:
        data = _data_of(event)
        if self._gap and not says_where(self.state, event, data):
            self._waiting.append((part, event))
            if len(self._waiting) >= _WAITING:
                yield from self._fill(Bridge(0, ()))
            return
        if self._gap:
            bridge = bridge_to(self.state, event, data, len(self._gap))
            if bridge is None and not self._waiting:
                self._gap.append(_Refused(part, event, "it does not fit to what is left before it"))
                return
            yield from self._fill(bridge or Bridge(0, ()))
        try:
            yield self._fed(event, part)
        except EventRefused as error:
            self._gap.append(_Refused(part, event, error.reason))

    def _fill(self, bridge: Bridge) -> Iterator[SessionEvent]:
        """Yield what stands in the gap, and then what has waited behind it."""
        gap, waiting, self._gap, self._waiting = self._gap, self._waiting, [], []
        first = self.state.next_seq
        if not self.forced.isdisjoint(range(first, first + len(gap))):
            bridge = Bridge(0, ())
        # The places of lost events are taken first, the last ones first.
        places = sorted(range(len(gap)), key=lambda place: (isinstance(gap[place], _Refused), -place))[: len(bridge)]
        built = self._built(bridge)
        for place, missing in enumerate(gap):
            event = next(built, None) if place in places else None
            yield self._stand_in(missing) if event is None else event
            if event is not None and isinstance(missing, _Refused):
                self._displaced.append(missing)
        for part, event in waiting:
            try:
                yield self._fed(event, part)
            except EventRefused as error:
                yield self._wrapped(_Refused(part, event, error.reason))

    def _built(self, bridge: Bridge) -> Iterator[SessionEvent]:
        """Yield the events of a bridge, as many as the rules take."""
        try:
            for _ in range(bridge.closers):
                yield self._bridged(interrupted_closers(self.state)[0])
            for type, data in bridge.opening:
                op: SurfaceOp | None = "append" if type == "system/message" else None
                seq, time = self.state.next_seq, self.state.last_time
                event = SessionEvent(type=type, seq=seq, time=time, encoded=encode_data(type, data), surface_op=op)
                yield self._bridged(event)
        except EventRefused:
            return

    def _bridged(self, event: SessionEvent) -> SessionEvent:
        self.state.feed_all((event,))
        self.bridged.append(event.seq)
        return event

    def _stand_in(self, missing: Lost | _Refused) -> SessionEvent:
        if isinstance(missing, _Refused):
            return self._wrapped(missing)
        run = {"firstSeq": missing.first_seq, "nextSeq": missing.next_seq}
        data = {"reason": missing.reason, "offset": missing.offset, **run}
        return self._own(LOST_TYPE, encode_data(LOST_TYPE, data), self.state.last_time)

    def _wrapped(self, refused: _Refused) -> SessionEvent:
        self.wrapped.append(self._kept_as(self.state.next_seq, refused))
        reason = encode_data(SALVAGED_TYPE, refused.reason)
        data = b'{"reason":%b,"row":%b}' % (reason, refused.part.line.text)
        return self._own(SALVAGED_TYPE, data, refused.event.time)

    def _own(self, type: str, data: bytes, time: int) -> SessionEvent:
        event = SessionEvent(type=type, seq=self.state.next_seq, time=time, encoded=data, ignorable=True)
        self.state.feed_all((event,))
        return event

    def _fed(self, event: SessionEvent, part: Numbered) -> SessionEvent:
        if event.seq in self.forced:
            raise EventRefused(event.type, "what should follow it is missing", seq=event.seq)
        self.state.feed_all((event,))
        self.kept += 1
        self.unproven += not part.line.proven
        if part.turn is Turn.WRONG:
            reason = f"its seq is {part.row.seq}, where {event.seq} is due"
            self.renumbered.append(self._kept_as(event.seq, _Refused(part, event, reason)))
        return event

    @staticmethod
    def _kept_as(seq: int, row: _Refused) -> Kept:
        line = row.part.line
        return Kept(seq=seq, type=row.event.type, offset=line.offset, line=line.number, reason=row.reason)


def _data_of(event: SessionEvent) -> Mapping[str, Any]:
    data = event.data
    return cast("Mapping[str, Any]", data) if isinstance(data, dict) else {}
