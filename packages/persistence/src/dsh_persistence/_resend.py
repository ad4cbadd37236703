"""What a writer of any store has to find out before it settles an unknown outcome."""

from __future__ import annotations

from dsh_session import EncodedBatch

from ._seam import StoredPrefix
from .errors import SeqConflict


def unwritten(session_id: str, batch: EncodedBatch, stored: StoredPrefix) -> EncodedBatch:
    """Return what is left to write of a batch, given the stored log from ``batch.first_seq`` on.

    Events are compared whole, envelope and data bytes. Raises ``SeqConflict`` when another event lies where one of the
    batch belongs.
    """
    there = tuple(stored.events[: len(batch.events)])
    for found, event in zip(there, batch.events, strict=False):
        if found != event:
            raise SeqConflict(session_id, expected=stored.next_seq, found=event.seq)
    return EncodedBatch(first_seq=batch.first_seq + len(there), events=batch.events[len(there) :])
