"""Zstandard frames: made bit for bit as ``dsh`` makes them, found by structure, decoded with their checksum.

The container is RFC 8878; what a log may hold of it is FORMAT §2.7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import zstandard

MAGIC = b"\x28\xb5\x2f\xfd"
LEVEL = 3
_MAX_BLOCK_BYTES = 128 << 10
_CHECKSUM_BYTES = 4
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One structurally whole frame, from ``start`` to ``end`` in the file."""

    start: int
    end: int
    has_checksum: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Where the walk over frames had to stop before the end of the file."""

    kind: Literal["torn", "damaged"]
    """``torn`` when the file ends inside a frame; ``damaged`` when the bytes can be no frame."""
    offset: int
    reason: str


def compress_frame(plain: bytes) -> bytes:
    """Return one frame of ``plain``: level 3, checksum, no content size."""
    # The streaming compressor leaves the content size out, and so gives the reference's bytes; one-shot does not.
    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, write_content_size=False).compressobj()
    return compressor.compress(plain) + compressor.flush()


def decompress_frame(data: bytes) -> bytes:
    """Return the content of exactly one whole frame. Raises ``zstandard.ZstdError`` when it is damaged."""
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    plain = decompressor.decompress(data)
    # A cut frame gives short output and no error here; only ``eof`` tells.
    if not decompressor.eof or decompressor.unused_data:
        msg = "the frame does not end where its structure says"
        raise zstandard.ZstdError(msg)
    return plain


def salvage_frame(data: bytes) -> bytes:
    """Return as much of a cut frame's content as decodes; nothing vouches for it."""
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    plain = b""
    try:
        for start in range(0, len(data), _CHUNK_BYTES):
            plain += decompressor.decompress(data[start : start + _CHUNK_BYTES])
    except zstandard.ZstdError:
        pass
    return plain


def walk_frames(data: bytes) -> tuple[list[Frame], Fault | None]:
    """Return the whole frames from the start of ``data``, and what stopped the walk if anything did."""
    frames: list[Frame] = []
    offset = 0
    while offset < len(data):
        try:
            end, has_checksum = _frame_end(data, offset)
        except ValueError as error:
            return frames, Fault(kind="damaged", offset=offset, reason=str(error))
        if end is None:
            return frames, Fault(kind="torn", offset=offset, reason="the file ends inside a frame")
        frames.append(Frame(start=offset, end=end, has_checksum=has_checksum))
        offset = end
    return frames, None


def _frame_end(data: bytes, offset: int) -> tuple[int | None, bool]:
    """Return where the frame at ``offset`` ends, None when the file does first, and whether it has a checksum.

    Raises ``ValueError`` for bytes that can be no frame.
    """
    magic = data[offset : offset + 4]
    if not MAGIC.startswith(magic):
        msg = f"expected a zstd frame, found {magic.hex()}"
        raise ValueError(msg)
    if len(data) < offset + 5:
        return None, False
    descriptor = data[offset + 4]
    if descriptor & 0x18:
        msg = "reserved bits of the frame descriptor are set"
        raise ValueError(msg)
    has_checksum = bool(descriptor & 0x04)
    single_segment = bool(descriptor & 0x20)
    size_flag = descriptor >> 6
    content_size_bytes = (1 if single_segment else 0) if size_flag == 0 else 1 << size_flag
    dictionary_bytes = (0, 1, 2, 4)[descriptor & 0x03]
    position = offset + 5 + (0 if single_segment else 1) + dictionary_bytes + content_size_bytes
    while True:
        if len(data) < position + 3:
            return None, has_checksum
        header = int.from_bytes(data[position : position + 3], "little")
        kind, size = header >> 1 & 3, header >> 3
        if kind == 3 or size > _MAX_BLOCK_BYTES:
            msg = "a block header is impossible"
            raise ValueError(msg)
        position += 3 + (1 if kind == 1 else size)
        if header & 1:
            break
    position += _CHECKSUM_BYTES if has_checksum else 0
    return (position if position <= len(data) else None), has_checksum
