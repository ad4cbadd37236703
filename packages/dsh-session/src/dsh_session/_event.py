"""The event: a typed envelope around bytes (FORMAT §1.1), a batch of them, and one as a line for programs."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec

from ._json import decode_json, encode_data


class Replace(msgspec.Struct, frozen=True, gc=False):
    """A surface operation: this event takes the place of the nodes from ``start_seq`` to ``end_seq`` by position."""

    start_seq: int
    end_seq: int


EVENT_BYTES = 16 << 20
"""The most that one event may take as a row of a log."""
_ENVELOPE_BYTES = 256
"""More than a row's braces, keys, seq, time, surface operation and mark take together."""

SurfaceOp: TypeAlias = Literal["append"] | Replace
"""How an event changes the surface, the list of nodes from which messages derive (FORMAT §6)."""


# A Struct and not a dataclass: logs hold millions of these, and a Struct without cycles is built 3x as fast and stays
# out of the garbage collector's sight.
class SessionEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event of a session's log."""

    type: str
    """What happened, such as ``turn/start``; unknown types pass through untouched."""
    seq: int
    """The event's index in its log, from 0."""
    time: int
    """Unix epoch milliseconds; may go backwards."""
    encoded: bytes
    """The data as the compact JSON it was born as, or as a log held it."""
    source_event_seqs: tuple[int, ...] | None = None
    """Earlier events this one was made from; only on surface events."""
    surface_op: SurfaceOp | None = None
    """Present exactly on surface events."""
    ignorable: bool = False
    """Whether a reader that does not know the type may pass over the event (FORMAT §4.3)."""

    @property
    def data(self) -> Any:
        """The decoded data: a fresh value at every access, so changing it changes nothing here."""
        return decode_json(self.encoded)

    @property
    def size_bytes(self) -> int:
        """At most how long the event is as a row of a log; little more than its data."""
        # A character takes up to six bytes in JSON, a source up to sixteen digits and a comma.
        size = len(self.encoded) + 6 * len(self.type) + _ENVELOPE_BYTES
        return size if self.source_event_seqs is None else size + 17 * len(self.source_event_seqs)


class EncodedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Events with consecutive seqs, ready to be written together; the unit of durability.

    Raises ``ValueError`` for events whose seqs are not those from ``first_seq`` on.
    """

    first_seq: int
    events: tuple[SessionEvent, ...]

    def __post_init__(self) -> None:
        for due, event in enumerate(self.events, self.first_seq):
            if event.seq != due:
                msg = f"event {event.type!r} has seq {event.seq} where the batch needs {due}"
                raise ValueError(msg)

    @property
    def next_seq(self) -> int:
        """The seq that follows this batch."""
        return self.first_seq + len(self.events)


def encode_event(event: SessionEvent) -> bytes:
    """Return an event's line: the envelope in the log's order, the data as its bytes are stored."""
    parts = [
        b'{"type":%b,"seq":%d,"time":%d,"data":%b' % (_encode_type(event.type), event.seq, event.time, event.encoded)
    ]
    if event.source_event_seqs is not None:
        parts.append(b',"sourceEventSeqs":[%b]' % b",".join(b"%d" % seq for seq in event.source_event_seqs))
    match event.surface_op:
        case Replace(start_seq=start, end_seq=end):
            parts.append(b',"surfaceOp":{"op":"replace","startSeq":%d,"endSeq":%d}' % (start, end))
        case "append":
            parts.append(b',"surfaceOp":"append"')
        case None:
            pass
    parts.append(b',"ignorable":true}\n' if event.ignorable else b"}\n")
    return b"".join(parts)


@lru_cache(maxsize=256)
def _encode_type(type: str) -> bytes:
    """A log of a million events has a few dozen types."""
    return encode_data(type, type)
