"""An event as a line of JSON, for programs that read logs."""

from __future__ import annotations

from functools import lru_cache

from ._event import Replace, SessionEvent
from ._json import encode_data


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
