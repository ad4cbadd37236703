"""The walk that goes on where reading stops: every intact line of a log, and what lies between them.

Behind a fault frames are found again by their magic. A hit counts only when it decodes with a valid checksum to whole
lines; in a raw log the next line end will do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import zstandard

from dsh_persistence import RowTooLarge, SessionCorrupt

from ._frames import MAGIC, PIECE_BYTES, blocks_end, has_checksum
from ._layout import LogFile
from ._scan import LF, NO_CHECKSUM
from ._stretches import ROW_BYTES, Decoder, Stretches, bounded

_WINDOW_BYTES = 64 << 10
"""What is read at a time beyond a fault: the next one may be near."""
_SHOWN_BYTES = 64 << 10
"""An unfinished line up to this size is handed on; it may be the header."""


class Line(NamedTuple):
    """An intact line of a log."""

    offset: int
    """Where it begins in the file; of a compressed log, where its frame does."""
    frame: int | None
    """The number of its frame, that of the header 0; None in a raw log, and where a fault hides how many there were."""
    number: int | None
    """1-based, that of the header 1; None where a fault hides how many there were."""
    text: bytes
    """The line without its end."""
    proven: bool = True
    """Whether its frame was whole; nothing vouches for the lines of a cut one."""


class Hole(NamedTuple):
    """Bytes of a log that are no intact lines."""

    offset: int
    size_bytes: int
    frame: int | None
    number: int | None
    """The line that should begin here."""
    reason: str
    torn: bool
    """Whether the file ends in it, as a write that was cut short leaves it."""
    text: bytes = b""
    """What can be read of it, when that is an unfinished line."""


class Survey:
    """Iterates over the whole of an open log, as it was then, holding one frame or one line; once at a time."""

    def __init__(self, file: LogFile, fd: int, size_bytes: int, *, marked: bool) -> None:
        """``marked`` says that the log has a mark; then a cut frame counts only where just its checksum lacks."""
        self._file = file
        self._fd = fd
        self._size = size_bytes
        self._marked = marked
        self._decoder = Decoder(file)
        self._protected: bool | None = None
        self._frame: int | None = None
        self._number: int | None = None

    def __iter__(self) -> Iterator[Line | Hole]:
        self._frame, self._number = 0, 1
        return self._by_frames() if self._file.encoding == "zstd" else self._by_lines()

    def _by_lines(self) -> Iterator[Line | Hole]:
        offset, rest, number = 0, b"", 1
        while piece := self._at(offset + len(rest), max(PIECE_BYTES, len(rest))):
            *lines, rest = (rest + piece).split(LF)
            for line in lines:
                yield Line(offset, None, number, line)
                offset += len(line) + 1
                number += 1
            if len(rest) > ROW_BYTES:
                end = self._line_end(offset + len(rest))
                yield Hole(offset, end - offset, None, number, f"a line is longer than {ROW_BYTES} bytes", torn=False)
                offset, rest, number = end, b"", number + 1
        if rest:
            reason = "the file ends inside a line"
            yield Hole(offset, len(rest), None, number, reason, torn=True, text=rest[:_SHOWN_BYTES])

    def _by_frames(self) -> Iterator[Line | Hole]:
        offset = 0
        while offset < self._size:
            stretches = Stretches(self._file, self._reader(offset), base=offset, piece=_WINDOW_BYTES)
            structural_end = None
            for offset, stored in stretches:
                if reason := self._fault_of(offset, stored):
                    structural_end = offset + len(stored)
                    break
                yield from self._lines_of(offset, stored)
            else:
                if stretches.fault is None:
                    return
                offset, reason = stretches.fault.offset, stretches.fault.reason
            end = self._next_intact(offset)
            torn = end == self._size
            if torn:
                yield from self._cut_lines(offset)
            yield Hole(offset, end - offset, self._frame, self._number, reason, torn=torn)
            self._frame = self._frame + 1 if self._frame is not None and end == structural_end else None
            self._number = None
            offset = end

    def _fault_of(self, offset: int, stored: bytes) -> str | None:
        """Return what is wrong with a frame, None when it decodes with its checksum."""
        if self._protected is None:
            self._protected = has_checksum(stored)
        try:
            if self._protected and not has_checksum(stored):
                return NO_CHECKSUM
            if self._decoder.text(stored) is None:
                for _ in bounded(self._file, offset, self._decoder.pieces(offset, stored)):
                    pass
        except SessionCorrupt as damage:
            return damage.reason
        except RowTooLarge:
            return f"a row is longer than {ROW_BYTES} bytes"
        return None

    def _lines_of(self, offset: int, stored: bytes) -> Iterator[Line | Hole]:
        """Yield the lines of an intact frame; an unfinished last one is a hole."""
        begin = 0
        try:
            for _, text in self._decoder.lines(offset, stored):
                begin += len(text) + 1
                yield Line(offset, self._frame, self._number, text)
                self._count_line()
        except SessionCorrupt as damage:
            text = (self._decoder.text(stored) or b"")[begin:][:_SHOWN_BYTES]
            yield Hole(offset, len(stored), self._frame, self._number, damage.reason, torn=False, text=text)
            self._count_line()
        if self._frame is not None:
            self._frame += 1

    def _cut_lines(self, offset: int) -> Iterator[Line]:
        """Yield what reading takes from a cut last frame: all that decodes, under a mark only what is all there."""
        tail = self._at(offset, self._size - offset)
        try:
            if self._marked and blocks_end(tail) > len(tail):
                return
        except ValueError:
            return
        for text in self._decoder.salvaged_lines(offset, tail):
            yield Line(offset, self._frame, self._number, text, proven=False)
            self._count_line()

    def _next_intact(self, offset: int) -> int:
        """Return where beyond a fault the next intact frame begins, the end of the file when none does."""
        position = offset + 1
        while len(window := self._at(position, _WINDOW_BYTES)) >= len(MAGIC):
            found = window.find(MAGIC)
            if found < 0:
                position += len(window) - len(MAGIC) + 1
            elif self._is_intact(position + found):
                return position + found
            else:
                position += found + 1
        return self._size

    def _is_intact(self, offset: int) -> bool:
        stretches = Stretches(self._file, self._reader(offset), base=offset, piece=_WINDOW_BYTES)
        _, stored = next(iter(stretches), (0, b""))
        try:
            return bool(stored) and has_checksum(stored) and self._decoder.frames.last_byte(stored) == LF
        except zstandard.ZstdError:
            return False

    def _line_end(self, position: int) -> int:
        while window := self._at(position, PIECE_BYTES):
            found = window.find(LF)
            if found >= 0:
                return position + found + 1
            position += len(window)
        return position

    def _count_line(self) -> None:
        if self._number is not None:
            self._number += 1

    def _reader(self, position: int) -> Callable[[int], bytes]:
        def read(size: int) -> bytes:
            nonlocal position
            piece = self._at(position, size)
            position += len(piece)
            return piece

        return read

    def _at(self, offset: int, size: int) -> bytes:
        return os.pread(self._fd, max(0, min(size, self._size - offset)), offset)


def rows_of(survey: Survey) -> Iterator[Line | Hole]:
    """Yield what follows the header line, or the place where it should be."""
    parts = iter(survey)
    first = next(parts, None)
    if isinstance(first, Line) and first.text.startswith(b'{"type":"session"'):
        yield from parts
    elif first is not None:
        yield first
        yield from parts
