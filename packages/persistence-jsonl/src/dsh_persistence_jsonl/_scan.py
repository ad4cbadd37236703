"""Reading a log from its bytes: what is intact, what a crash cut, what is damaged (FORMAT §2.8, §2.9).

One rule decides between the last two: the mark. Below it every fault is damage. Above it a fault is a torn tail,
whatever its bytes are. Without a mark, that is in a log that ``dsh`` alone wrote, its own rules hold: bytes that can be
no frame are damage, and a bad row is a torn write unless a turn end follows it. An intact frame behind a fault makes it
damage always.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import chain, islice

import msgspec

from dsh_persistence import FormatNotSupported, SessionCorrupt, TornTail
from dsh_session import FormatUnsupported, HeaderInvalid, SessionEvent, SessionHeader, decode_header

from ._frames import PIECE_BYTES, Fault, blocks_end, has_checksum, later_frame, walk_frames
from ._layout import LogFile
from ._log import Blocks, JsonlLog
from ._rows import RowInvalid, decode_row, decode_rows, event_of, parse_row
from ._stretches import Decoder, Stretches, bounded

HEADER_BYTES = 64 << 10
"""More than any header line takes."""
LF = b"\n"
_LF_BYTE = LF[0]
NO_CHECKSUM = "a frame has no checksum, the header has"
_ROW_HEAD = re.compile(rb'\{"type":"[^"\\]*","seq":(\d{1,16}),')
"""How a harness begins a row; a row that begins otherwise is decoded to learn its seq."""


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """What a part of a log holds, to the end of the file, and where its intact part ends."""

    log: JsonlLog
    blocks: Blocks
    end: int
    """Byte offset up to which the file is intact and whole."""
    torn: TornTail | None
    salvaged: int
    """How many events of ``log`` lie beyond ``end``."""


def scan_log(
    file: LogFile, content: bytes, *, base: int, begin: int, due: int, protected: bool, marked: int | None
) -> Scan:
    """Check the stretches of a log from offset ``begin`` on, the first of which begins with event ``due``.

    ``content`` is the file from offset ``base`` on; ``marked`` is how many bytes of the file its mark vouches for.
    Raises ``SessionCorrupt`` for damage.
    """
    blocks = Blocks(file, content, base=base)
    reader = _Reader(file, protected=protected, marked=marked, begin=begin, due=due)
    reader.take_ordinary(content, base, blocks)
    begin, position = reader.end, reader.end - base

    def read(size: int) -> bytes:
        nonlocal position
        piece = content[position : position + size]
        position += len(piece)
        return piece

    stretches = Stretches(file, read, base=begin, piece=PIECE_BYTES)
    for offset, stored in stretches:
        first_seq = reader.due
        end = reader.take(offset, stored)
        if end > offset:
            blocks.add(offset, end, first_seq)
    salvaged = reader.finish(stretches)
    beyond = base + len(content) - reader.end
    return Scan(
        log=JsonlLog(blocks, first_seq=due, blocks_end_seq=reader.whole_seq, extra=salvaged),
        blocks=blocks,
        end=reader.end,
        torn=TornTail(offset=reader.end, size_bytes=beyond) if beyond else None,
        salvaged=len(salvaged),
    )


def stream_events(
    file: LogFile, read: Callable[[int], bytes], *, begin: int, protected: bool, marked: int | None
) -> Iterator[Iterable[SessionEvent]]:
    """Yield the events of a log stretch by stretch, holding one; ``read(n)`` gives its bytes from ``begin`` on.

    Ends and raises as ``scan_log`` does, after what came before the fault.
    """
    reader = _Reader(file, protected=protected, marked=marked, begin=begin, due=0)
    stretches = Stretches(file, read, base=begin, piece=PIECE_BYTES)
    for offset, stored in stretches:
        yield reader.events_of(offset, stored)
    yield reader.finish(stretches)


def read_header(file: LogFile, head: bytes) -> tuple[SessionHeader, int, bool]:
    """Return the header at the start of a log, where it ends, and whether the log is protected by checksums.

    ``head`` need not reach beyond the header. Raises ``SessionCorrupt`` and ``FormatNotSupported``.
    """
    if file.encoding == "raw":
        line, found, _ = head.partition(b"\n")
        if not found:
            raise SessionCorrupt(file.path, "the log has no whole header line", offset=0, line=1)
        return parse_header(file, line), len(line) + 1, False
    position = 0

    def read(size: int) -> bytes:
        nonlocal position
        piece, position = head[position : position + size], position + size
        return piece

    stretches = Stretches(file, read, base=0, piece=len(head))
    _, frame = next(iter(stretches), (0, b""))
    if not frame:
        fault = stretches.fault
        reason = "the log has no whole header frame" + (f": {fault.reason}" if fault is not None else "")
        raise SessionCorrupt(file.path, reason, offset=0, line=1)
    return parse_header(file, _only_line(file, frame)), len(frame), has_checksum(frame)


def parse_header(file: LogFile, line: bytes) -> SessionHeader:
    """Return the header of a log's first line, translating what is wrong with it into this store's terms."""
    try:
        return decode_header(line)
    except FormatUnsupported as error:
        raise FormatNotSupported(file.path, error.version, str(error)) from None
    except HeaderInvalid as error:
        raise SessionCorrupt(file.path, str(error), offset=0, line=1) from None


def _only_line(file: LogFile, frame: bytes) -> bytes:
    """Return the text of the first frame, which is exactly one line."""
    text = b""
    try:
        for piece in Decoder(file).pieces(0, frame):
            text += piece
            if len(text) > HEADER_BYTES:
                break
    except SessionCorrupt as error:
        raise SessionCorrupt(file.path, f"the header frame: {error.reason}", offset=0, line=1) from None
    if len(text) > HEADER_BYTES or not text.endswith(b"\n") or text.count(b"\n") != 1:
        more = "more than " if len(text) > HEADER_BYTES else ""
        held = f"{more}{min(len(text), HEADER_BYTES)} bytes with {text.count(LF)} line ends"
        raise SessionCorrupt(
            file.path, f"the first frame must hold exactly the header line; it holds {held}", offset=0, line=1
        )
    return text


class _Reader:
    """Takes stretches in order, and decides what the first fault means."""

    def __init__(self, file: LogFile, *, protected: bool, marked: int | None, begin: int, due: int) -> None:
        self._file = file
        self._protected = protected
        self._marked = marked
        self._decoder = Decoder(file)
        self._issue: SessionCorrupt | None = None
        self._broken = False
        """Whether the issue is a frame that does not decode, which a later intact one turns into damage."""
        self._suspect: list[bytes] = []
        """The stored bytes from a broken frame on; where it ends is as doubtful as the rest of it."""
        self._partial: tuple[SessionEvent, ...] = ()
        self._line = due + 1
        self.end = begin
        self.due = due
        """The seq of the next event, good rows beyond the intact part included."""
        self.whole_seq = due
        """The seq that follows the last event of a wholly good stretch."""

    @property
    def _stopped(self) -> bool:
        return self._issue is not None

    def take(self, begin: int, stored: bytes) -> int:
        """Check a stretch; return up to where it is good: its end or its beginning, in a raw log the end of a line."""
        if self._stopped:
            self._look_on(begin, stored)
            return begin
        text = self._text(stored)
        count = None if text is None else self._count(text)
        if count is not None:
            self.due += count
            self._line += count
            self._whole(begin + len(stored))
            return self.end
        good = sum(1 for _ in self._rows(begin, stored))
        if self._issue is not None and not self._broken and self._file.encoding == "zstd":
            self._partial = tuple(islice(self._reread(begin, stored), good))
        return self.end

    def events_of(self, begin: int, stored: bytes) -> Iterable[SessionEvent]:
        """Return the events of a stretch, up to its first bad row; each must be taken before the next stretch is."""
        if self._stopped:
            self._look_on(begin, stored)
            return ()
        text = self._text(stored)
        events = None if text is None else decode_rows(text, self.due)
        if events is None:
            return self._events_one_by_one(begin, stored, text)
        self.due += len(events)
        self._line += len(events)
        self._whole(begin + len(stored))
        return events

    def _events_one_by_one(self, begin: int, stored: bytes, text: bytes | None) -> Iterator[SessionEvent]:
        counted = text is not None and self._count(text) is not None
        yield from self._rows(begin, stored)
        if counted and self._issue is not None:  # ``take`` accepts this row, so whoever reaches it is told
            raise self._issue

    def finish(self, stretches: Stretches) -> tuple[SessionEvent, ...]:
        """Decide about the end of the file; return the events that stand beyond the intact part in whole rows."""
        fault = stretches.fault
        if fault is not None and fault.kind == "damaged" and (self._marked is None or fault.offset < self._marked):
            raise SessionCorrupt(self._file.path, fault.reason, offset=fault.offset)
        tail = stretches.tail()
        self._require_nothing_later(fault, tail)
        if self._marked is not None and self.end < self._marked:
            short = f"{self._marked} bytes were acknowledged, {self.end} are intact"
            reason = short if self._issue is None else f"{self._issue.reason}; {short}"
            raise SessionCorrupt(self._file.path, reason, offset=self.end)
        return self._partial if fault is None or self._issue is not None else self._salvaged(fault.offset, tail)

    def _require_nothing_later(self, fault: Fault | None, tail: bytes) -> None:
        """No intact frame follows the fault, or it is no torn write."""
        if self._broken:
            first: SessionCorrupt | Fault | None = self._issue
            tail = b"".join((*self._suspect, tail))
        else:
            first = fault
        if first is None or first.offset is None or self._file.encoding == "raw":
            return
        later = later_frame(tail)
        if later is not None:
            reason = f"{first.reason}, and an intact frame follows at byte {first.offset + later}"
            raise SessionCorrupt(self._file.path, reason, offset=first.offset)

    def _salvaged(self, offset: int, tail: bytes) -> tuple[SessionEvent, ...]:
        """Return the rows of a cut frame: those that decode, as for the reference, without a mark.

        Above one a frame counts whole when it lacks nothing but its checksum, and else not at all.
        """
        if self._marked is None:
            rows = (self._row(line, offset) for line in self._decoder.salvaged_lines(offset, tail))
            return tuple(chain.from_iterable(rows))
        try:
            whole = blocks_end(tail) <= len(tail)
            lines = enumerate(self._decoder.lines(offset, tail), self.due) if whole else ()
            return tuple(decode_row(line, due=due) for due, (_, line) in lines)
        except (SessionCorrupt, ValueError):
            return ()

    def _whole(self, end: int) -> None:
        self.end = end
        self.whole_seq = self.due

    def _text(self, stored: bytes) -> bytes | None:
        """Return the text of a stretch, None when it is large or may be damaged."""
        return None if self._protected and not has_checksum(stored) else self._decoder.text(stored)

    def take_ordinary(self, content: bytes, base: int, blocks: Blocks) -> None:
        """Take the run of ordinary frames that comes next, in one tight loop: most logs are that and nothing else.

        It stops, without a verdict, before the first frame that is anything else.
        """
        if not self._protected:
            return
        decode, head, frames = self._decoder.frames.decode_ordinary, _ROW_HEAD.match, blocks
        start, due = self.end - base, self.due
        for end in walk_frames(content, start)[0]:
            lines = BytesIO(decode(content[start:end])).readlines()  # the fastest way to count them
            if not lines or lines[-1][-1] != _LF_BYTE:
                break
            first, last, next_due = head(lines[0]), head(lines[-1]), due + len(lines)
            if first is None or last is None or int(first[1]) != due or int(last[1]) != next_due - 1:
                break
            frames.add(base + start, base + end, due)
            start, due = end, next_due
        self._line += due - self.due
        self.due = due
        self._whole(base + start)

    def _count(self, text: bytes) -> int | None:
        """Return how many rows a text holds when they look right, None when each must be read.

        Of checksummed frames the first and last seq are compared with the count; raw rows are all decoded.
        """
        count = text.count(LF)
        if not self._protected:
            return count if decode_rows(text, self.due) is not None else None
        if not count:
            return 0 if not text else None
        first, last = _ROW_HEAD.match(text), _ROW_HEAD.match(text, text.rfind(LF, 0, -1) + 1)
        fits = first and last and int(first[1]) == self.due and int(last[1]) == self.due + count - 1
        return count if fits and text.endswith(LF) else None

    def _rows(self, begin: int, stored: bytes) -> Iterator[SessionEvent]:
        if not self._proven(begin, stored):
            return
        for offset, text in self._decoder.lines(begin, stored):
            yield from self._row(text, offset)
            if self._issue is None and self._file.encoding == "raw":
                self._whole(offset + len(text) + 1)
        if self._issue is None:
            self._whole(begin + len(stored))

    def _proven(self, begin: int, stored: bytes) -> bool:
        """Tell whether a stretch decodes with its checksum, before any row of it is believed.

        Above the mark one that does not is a torn write, until an intact one follows it.
        """
        try:
            if self._protected and not has_checksum(stored):
                raise SessionCorrupt(self._file.path, NO_CHECKSUM, offset=begin)
            for _ in bounded(self._file, begin, self._decoder.pieces(begin, stored)):
                pass
        except SessionCorrupt as damage:
            if self._marked is None or begin < self._marked:
                raise
            if self._issue is None:
                self._issue, self._broken = damage, True
                self._suspect.append(stored)
            return False
        return True

    def _row(self, text: bytes, offset: int) -> tuple[SessionEvent, ...]:
        """Take one line: its event, or nothing from the first bad row on."""
        self._line += 1
        try:
            row = parse_row(text)
            if self._issue is None and row.seq != self.due:
                self._note(f"seq {row.seq} where {self.due} is due", offset)
            if self._issue is None:
                event = event_of(row)
                self.due += 1
                return (event,)
        except RowInvalid as error:
            if error.refused:
                raise SessionCorrupt(self._file.path, str(error), offset=offset, line=self._line) from None
            self._note(str(error), offset)
            return ()
        if row.type == "turn/end":
            raise self._issue  # a turn end is written only after what precedes it: the bad row was whole once
        return ()

    def _note(self, reason: str, offset: int) -> None:
        if self._issue is not None:
            return
        self._issue = SessionCorrupt(self._file.path, reason, offset=offset, line=self._line)
        below = self._marked is not None and (offset < self._marked or self._protected)
        if below:  # acknowledged, or inside a frame whose checksum says that it was written so
            raise self._issue

    def _look_on(self, begin: int, stored: bytes) -> None:
        """After an issue: see whether what follows proves it to be damage."""
        if self._broken:
            self._suspect.append(stored)
            return
        for _ in self._rows(begin, stored):
            pass

    def _reread(self, begin: int, stored: bytes) -> Iterator[SessionEvent]:
        return (decode_row(line) for _, line in self._decoder.lines(begin, stored))
