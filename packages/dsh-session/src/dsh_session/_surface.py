"""The surface: which events are the conversation, in which order (FORMAT §6, GENERATIONS §4)."""

from __future__ import annotations

from collections.abc import Iterator

from ._event import Replace, SessionEvent
from .errors import EventRefused

_END = -1


class Surface:
    """The list of nodes that appends and replacements leave behind; a node is the seq of a surface event.

    Order is position, not seq: a replacement stands where the nodes it replaced stood. A replacement takes over the
    place of the first node it covers, so places never move and their numbers are the order: taking an event in costs
    its own span, however long the surface is.
    """

    def __init__(self) -> None:
        self._place: dict[int, int] = {}
        self._seqs: list[int] = []
        self._next: list[int] = []
        self._last = _END
        self._head_seq: int | None = None

    def __len__(self) -> int:
        return len(self._place)

    def __iter__(self) -> Iterator[int]:
        """Iterate over the nodes in position order."""
        place = 0 if self._seqs else _END
        while place != _END:
            yield self._seqs[place]
            place = self._next[place]

    def __contains__(self, seq: object) -> bool:
        return seq in self._place

    @property
    def nodes(self) -> list[int]:
        """The nodes in position order, as a new list."""
        return list(self)

    @property
    def head(self) -> int | None:
        """The first node."""
        return self._seqs[0] if self._seqs else None

    @property
    def protected(self) -> int | None:
        """The first node, if it is a system message."""
        return self._head_seq

    def span(self, first: int, last: int) -> tuple[int, ...] | None:
        """Return the nodes from ``first`` to ``last`` by position, None when these are no span."""
        start, end = self._place.get(first), self._place.get(last)
        return None if start is None or end is None or start > end else tuple(self._walk(start, end))

    def take(self, event: SessionEvent) -> tuple[int, ...]:
        """Apply the event's surface operation and return the nodes it removed. Raises as ``check``."""
        covered = self.check(event)
        if not isinstance(event.surface_op, Replace):
            place = len(self._seqs)
            if place:
                self._next[self._last] = place
            elif event.type == "system/message":
                self._head_seq = event.seq
            self._seqs.append(event.seq)
            self._next.append(_END)
            self._place[event.seq] = self._last = place
            return ()
        place, end = self._place[covered[0]], self._place[covered[-1]]
        self._seqs[place] = event.seq
        self._next[place] = self._next[end]
        if end == self._last:
            self._last = place
        if covered[0] == self._head_seq:
            self._head_seq = event.seq
        for seq in covered:
            del self._place[seq]
        self._place[event.seq] = place
        return covered

    def check(self, event: SessionEvent) -> tuple[int, ...]:
        """Return the nodes that the event would remove.

        Raises ``EventRefused`` for a replacement that fits no span, does not cite what it covers, or touches the
        protected head: a first node that is a system message gives way to another one alone (GENERATIONS §4.1).
        """
        op, head = event.surface_op, event.type == "system/message"
        if head and self._seqs and self._head_seq is None:
            raise EventRefused(
                event.type, "the first surface node is no system message, so none may follow", seq=event.seq
            )
        if not isinstance(op, Replace):
            return ()
        covered = self.span(op.start_seq, op.end_seq)
        if covered is None:
            raise EventRefused(
                event.type, f"seqs {op.start_seq} to {op.end_seq} are no span of the surface", seq=event.seq
            )
        if covered[0] == self._head_seq and not (head and len(covered) == 1):
            raise EventRefused(event.type, "only a system message may replace the first one, and alone", seq=event.seq)
        if not set(covered) <= set(event.source_event_seqs or ()):
            raise EventRefused(event.type, "it does not cite every node it replaces", seq=event.seq)
        return covered

    def _walk(self, place: int, end: int) -> Iterator[int]:
        while True:
            yield self._seqs[place]
            if place == end:
                return
            place = self._next[place]
