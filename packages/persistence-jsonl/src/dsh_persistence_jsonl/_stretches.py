"""A log's bytes as stretches that decode alone: frames of zstd, or runs of whole lines."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

import zstandard

from dsh_persistence import RowTooLarge, SessionCorrupt

from ._frames import PIECE_BYTES, Fault, FrameDecoder, walk_frames
from ._layout import LogFile

ROW_BYTES = 256 << 20
"""The longest row a reader takes."""
RUN_BYTES = 64 << 10
"""About how much text of a raw log is one stretch."""


class Stretches:
    """Iterates over the stretches of a log as (offset, stored bytes), reading no more than it needs.

    When the iteration has ended, ``fault`` says what stopped it before the end of the file, and ``tail`` the rest.
    """

    def __init__(self, log: LogFile, read: Callable[[int], bytes], *, base: int, piece: int) -> None:
        """``read(n)`` gives the next up to ``n`` bytes, from file offset ``base`` on; ``piece`` is a first ``n``."""
        self._log = log
        self._read = read
        self._offset = base
        self._piece = piece
        self._walk = walk_frames if log.encoding == "zstd" else _walk_lines
        self.fault: Fault | None = None
        self._rest = b""

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        rest = b""
        longest = ROW_BYTES + 1 if self._log.encoding == "raw" else sys.maxsize
        # A stretch that needs more than a piece is asked for in ever larger ones, so its bytes are copied few times.
        while piece := self._read(max(self._piece, len(rest))):
            rest = rest + piece if rest else piece
            ends, fault = self._walk(rest)
            start = 0
            for end in ends:
                if end - start > longest:
                    self._refuse(self._offset + start)
                yield self._offset + start, rest[start:end]
                start = end
            self._offset += start
            rest = rest[start:]
            if fault is not None and fault.kind == "damaged":
                self._stop(fault, rest)
                return
            if len(rest) >= longest:
                self._refuse(self._offset)
        if rest:
            reason = "the file ends inside a frame" if self._log.encoding == "zstd" else "the file ends inside a line"
            self._stop(Fault(kind="torn", offset=0, reason=reason), rest)

    def _refuse(self, offset: int) -> NoReturn:
        raise RowTooLarge(self._log.path, offset=offset, limit_bytes=ROW_BYTES)

    def _stop(self, fault: Fault, rest: bytes) -> None:
        self.fault = Fault(kind=fault.kind, offset=self._offset, reason=fault.reason)
        self._rest = rest

    def tail(self) -> bytes:
        """Return the bytes from the fault to the end of the file; they may be many, so only who must asks for them."""
        parts = [self._rest]
        while piece := self._read(PIECE_BYTES):
            parts.append(piece)
        return b"".join(parts)


class Decoder:
    """From the stored bytes of a stretch to its text; not for two threads at once."""

    def __init__(self, log: LogFile) -> None:
        self._log = log
        self.frames = FrameDecoder()

    def text(self, stored: bytes) -> bytes | None:
        """Return the text of a stretch, or None when it is to be streamed: it is large, or damaged."""
        return self.frames.decode(stored) if self._log.encoding == "zstd" else stored

    def pieces(self, offset: int, stored: bytes) -> Iterator[bytes]:
        """Yield the text of a stretch piece by piece. Raises ``SessionCorrupt`` for damage."""
        if self._log.encoding == "raw":
            yield stored
            return
        try:
            yield from self.frames.stream(stored)
        except zstandard.ZstdError as error:
            raise SessionCorrupt(self._log.path, f"a frame is damaged: {error}", offset=offset) from None

    def lines(self, offset: int, stored: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of a stretch without their ends, holding one at a time, and where in the file to find each.

        That is the offset of its frame, or its own in a raw log. Raises ``SessionCorrupt`` for damage and
        ``RowTooLarge``.
        """
        step = self._log.encoding == "raw"
        for line in whole_lines(self._log, offset, self.pieces(offset, stored)):
            yield offset, line
            offset += (len(line) + 1) * step

    def salvaged_lines(self, offset: int, tail: bytes) -> Iterator[bytes]:
        """Yield the whole lines that a cut stretch still gives."""
        pieces = self.frames.salvage(tail) if self._log.encoding == "zstd" else iter(())
        return whole_lines(self._log, offset, pieces, cut=True)


def bounded(log: LogFile, offset: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Pass pieces of text on while no row that runs through them is too long. Raises ``RowTooLarge``."""
    open_bytes = 0
    for piece in pieces:
        first = piece.find(b"\n")
        open_bytes += len(piece) if first < 0 else first
        if open_bytes > ROW_BYTES:
            raise RowTooLarge(log.path, offset=offset, limit_bytes=ROW_BYTES)
        yield piece
        if first >= 0:
            open_bytes = len(piece) - piece.rfind(b"\n") - 1


def whole_lines(log: LogFile, offset: int, pieces: Iterable[bytes], *, cut: bool = False) -> Iterator[bytes]:
    """Join pieces of text into lines; what follows the last line end is damage unless the text may be ``cut``."""
    held: list[bytes] = []
    for piece in bounded(log, offset, pieces):
        first, *others = piece.split(b"\n")
        held.append(first)
        if others:
            yield b"".join(held)
            yield from others[:-1]
            held = [others[-1]]
    if any(held) and not cut:
        raise SessionCorrupt(log.path, "a whole frame ends inside a line", offset=offset)


def _walk_lines(data: bytes) -> tuple[array[int], Fault | None]:
    """Cut text into runs of whole lines of about ``RUN_BYTES``, as ``walk_frames`` cuts frames."""
    ends = array("Q")
    start, last = 0, data.rfind(b"\n") + 1
    while start < last:
        end = data.rfind(b"\n", start, min(start + RUN_BYTES, last)) + 1
        end = end or data.find(b"\n", start) + 1
        ends.append(end)
        start = end
    return ends, None
