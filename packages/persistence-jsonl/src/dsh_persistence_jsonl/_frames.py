"""Zstandard frames: made bit for bit as ``dsh`` makes them, found by structure, decoded with their checksum.

The container is RFC 8878; what a log may hold of it is FORMAT §2.7.
"""

from __future__ import annotations

import errno
import struct
from array import array
from collections.abc import Callable, Iterator
from typing import Literal, cast

import msgspec
import zstandard

MAGIC = b"\x28\xb5\x2f\xfd"
LEVEL = 3
PIECE_BYTES = 1 << 20
"""What is decoded in one piece; a larger content is streamed in pieces of this size."""
_CHUNK_BYTES = 16 << 10
_MAX_BLOCK_BYTES = 128 << 10
_CHECKSUM_BYTES = 4
_SMALL_FRAME = struct.Struct("<IBBI")
"""Magic, descriptor, window, and a block header with one byte more."""
_SMALL_FRAME_BYTES = 6 + 3 + _CHECKSUM_BYTES
_MAGIC_NUMBER = int.from_bytes(MAGIC, "little")
_LAST_COMPRESSED = 0b101
"""The low bits of the header of a last block, compressed."""
_HAS_CHECKSUM = 0x04
_HAS_SIZE = 0xE0


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Where the walk over a log had to stop before the end of its bytes."""

    kind: Literal["torn", "damaged"]
    """``torn`` when the file ends inside a frame or a line; ``damaged`` when the bytes can be no frame."""
    offset: int
    reason: str


class FrameEncoder:
    """Makes frames with one context; not for two threads at once."""

    def __init__(self) -> None:
        self._zstd = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, write_content_size=False)
        self._check = zstandard.ZstdDecompressor()

    def encode(self, plain: bytes) -> bytes:
        """Return one frame of ``plain``: level 3, checksum, no content size.

        It has been decoded again and compared, so that a fault of memory or library never reaches a log. Raises
        ``OSError`` when that fails.
        """
        # The streaming compressors leave the content size out, and so give the reference's bytes; one-shot does not.
        # This one lets its buffer be small: a buffer that the allocator maps and unmaps costs as much as compressing.
        compressor = self._zstd.chunker(chunk_size=_CHUNK_BYTES)
        finish = cast("Callable[[], Iterator[bytes]]", compressor.finish)  # its stub says nothing
        frame = b"".join((*compressor.compress(plain), *finish()))
        try:
            sound = self._check.decompress(frame, max_output_size=len(plain)) == plain
        except zstandard.ZstdError:
            sound = not plain
        if not sound:
            raise OSError(errno.EIO, "a frame does not decode to what went into it; is the memory sound?")
        return frame


class FrameDecoder:
    """Decodes whole frames with one context; not for two threads at once."""

    def __init__(self) -> None:
        self._zstd = zstandard.ZstdDecompressor()

    def decode(self, frame: bytes) -> bytes | None:
        """Return the content of a whole frame, or None when it is too large for one piece or may be damaged.

        ``stream`` tells which, and is bounded whatever the frame claims.
        """
        try:
            # A claimed size would be allocated before anything is decoded, and a claim of nothing be believed unseen.
            if frame[4] & _HAS_SIZE and not 0 < zstandard.get_frame_parameters(frame).content_size <= PIECE_BYTES:
                return None
            return self._zstd.decompress(frame, max_output_size=PIECE_BYTES, allow_extra_data=False)
        except zstandard.ZstdError:
            return None

    def decode_ordinary(self, frame: bytes) -> bytes:
        """Return the content of a small frame such as ``dsh`` writes, nothing for any other; the fast way."""
        if frame[4] != _HAS_CHECKSUM:
            return b""
        try:
            # A larger bound costs 20 us a frame where the allocator maps and unmaps that much at every call.
            return self._zstd.decompress(frame, max_output_size=_MAX_BLOCK_BYTES)
        except zstandard.ZstdError:
            return b""

    def stream(self, frame: bytes) -> Iterator[bytes]:
        """Yield the content in pieces. Raises ``zstandard.ZstdError`` when the frame is damaged."""
        with self._zstd.stream_reader(frame) as reader:
            while piece := reader.read(PIECE_BYTES):
                yield piece

    def last_byte(self, frame: bytes) -> bytes:
        """Return the last byte of the content, empty when there is none. Raises as ``stream``."""
        last = b""
        for piece in self.stream(frame):
            last = piece[-1:]
        return last

    def salvage(self, tail: bytes) -> Iterator[bytes]:
        """Yield as much of a cut frame's content as decodes; nothing vouches for it."""
        try:
            yield from self.stream(tail)
        except zstandard.ZstdError:
            return


def first_frame_text(head: bytes, frames: FrameDecoder) -> bytes:
    """Return the content of the frame at the start of ``head``; empty where it is cut, damaged or large."""
    try:
        end = _frame_end(head, 0)
    except ValueError:
        return b""
    return (frames.decode(head[:end]) or b"") if end <= len(head) else b""


def has_checksum(frame: bytes) -> bool:
    """Tell whether a frame carries a checksum of its content."""
    return bool(frame[4] & _HAS_CHECKSUM)


def walk_frames(data: bytes, offset: int = 0) -> tuple[array[int], Fault | None]:
    """Return where each whole frame from ``offset`` on ends, and what stopped the walk if anything did."""
    ends = array("Q")
    last_start = len(data) - _SMALL_FRAME.size
    try:
        while offset < len(data):
            # The common frame, one block under dsh's own header, in one step; 50,000 of them make a long log.
            if offset <= last_start:
                magic, descriptor, _, block = _SMALL_FRAME.unpack_from(data, offset)
                if magic == _MAGIC_NUMBER and descriptor == _HAS_CHECKSUM and block & 7 == _LAST_COMPRESSED:
                    size = (block & 0xFFFFFF) >> 3
                    end = offset + _SMALL_FRAME_BYTES + size
                    if size <= _MAX_BLOCK_BYTES and end <= len(data):
                        ends.append(end)
                        offset = end
                        continue
            end = _frame_end(data, offset)
            if end > len(data):
                return ends, Fault(kind="torn", offset=offset, reason="the file ends inside a frame")
            ends.append(end)
            offset = end
    except ValueError as error:
        return ends, Fault(kind="damaged", offset=offset, reason=str(error))
    return ends, None


def blocks_end(data: bytes) -> int:
    """Return where the last block of the frame at the start of ``data`` ends; beyond the data when it is cut.

    Raises ``ValueError`` for bytes that can be no frame.
    """
    return _frame_end(data, 0) - (_CHECKSUM_BYTES if len(data) > 4 and has_checksum(data) else 0)


def later_frame(data: bytes) -> int | None:
    """Return where, after the first byte, an intact frame of whole rows begins; None when there is none.

    For telling damage from a torn write, after the walk has failed: only then does a search for the magic mean
    anything, and a hit counts only when it decodes with a valid checksum to whole lines.
    """
    decoder = FrameDecoder()
    position = data.find(MAGIC, 1)
    while position >= 0:
        try:
            end = _frame_end(data, position)
            frame = data[position:end] if end <= len(data) else b""
            if frame and has_checksum(frame) and decoder.last_byte(frame) == b"\n":
                return position
        except (zstandard.ZstdError, ValueError):
            pass  # no frame after all
        position = data.find(MAGIC, position + 1)
    return None


def _frame_end(data: bytes, offset: int) -> int:
    """Return where the frame at ``offset`` ends, which lies beyond the data when the frame is cut.

    When it is cut before its checksum, so does what is left after taking the checksum off.

    Raises ``ValueError`` for bytes that can be no frame.
    """
    magic = data[offset : offset + 4]
    if magic != MAGIC and not (len(magic) < 4 and MAGIC.startswith(magic)):
        msg = f"expected a zstd frame, found {magic.hex()}"
        raise ValueError(msg)
    beyond = len(data) + _CHECKSUM_BYTES + 1
    if len(data) < offset + 5:
        return beyond
    descriptor = data[offset + 4]
    if descriptor & 0x18:
        msg = "reserved bits of the frame descriptor are set"
        raise ValueError(msg)
    # 0x04, what dsh writes: a checksum and a window byte, nothing else.
    position = offset + 6 if descriptor == _HAS_CHECKSUM else offset + 5 + _header_rest(descriptor)
    while True:
        header = int.from_bytes(data[position : position + 3], "little")
        if position + 3 > len(data):
            return beyond
        kind, size = header >> 1 & 3, header >> 3
        if kind == 3 or size > _MAX_BLOCK_BYTES:
            msg = "a block header is impossible"
            raise ValueError(msg)
        position += 4 if kind == 1 else 3 + size
        if header & 1:
            return position + (_CHECKSUM_BYTES if descriptor & _HAS_CHECKSUM else 0)


def _header_rest(descriptor: int) -> int:
    """Return how many bytes of the frame header follow the descriptor: window, dictionary id, content size."""
    single_segment = bool(descriptor & 0x20)
    size_flag = descriptor >> 6
    content_size_bytes = (1 if single_segment else 0) if size_flag == 0 else 1 << size_flag
    return (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 0x03] + content_size_bytes
