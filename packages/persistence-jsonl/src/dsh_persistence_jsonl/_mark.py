"""The durable mark beside a log: how much of it was acknowledged (DURABILITY §3).

It decides between a torn tail and damage. Only a log that ``dsh`` alone wrote has none. Two slots, written in turn, of
which the later intact one counts; a mark that is behind its log is normal.
"""

from __future__ import annotations

import struct
import zlib

from ._disk import open_regular

SLOT_OFFSETS = (0, 512)
_SLOT = struct.Struct("<Q16sI")
"""Acknowledged length of the log in bytes, the chain of its frames' digests, and a CRC-32 of both."""


def mark_path(log: str) -> str:
    """Return where the mark of a log lies."""
    return f"{log}.mark"


def acknowledged_bytes(log: str) -> int | None:
    """Return how many bytes of a log its mark vouches for; None when there is no intact mark."""
    try:
        fd, _ = open_regular(mark_path(log))
    except OSError:
        return None
    with open(fd, "rb") as file:
        content = file.read(SLOT_OFFSETS[-1] + _SLOT.size)
    lengths: list[int] = []
    for offset in SLOT_OFFSETS:
        slot = content[offset : offset + _SLOT.size]
        if len(slot) == _SLOT.size:
            length, _, checksum = _SLOT.unpack(slot)
            if zlib.crc32(slot[:-4]) == checksum:
                lengths.append(length)
    return max(lengths, default=None)
