"""Reading a whole log: its frames or lines, then its rows, up to where a crash cut it (FORMAT §2.8, §2.9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import zstandard

from dsh_persistence import FormatNotSupported, SessionCorrupt, TornTail
from dsh_session import FormatUnsupported, HeaderInvalid, SessionEvent, SessionHeader, decode_header

from ._frames import decompress_frame, salvage_frame, walk_frames
from ._layout import LogFile
from ._rows import RowInvalid, decode_row


@dataclass(slots=True, kw_only=True)
class Scan:
    """A log's content, and where its intact part ends."""

    header: SessionHeader
    events: list[SessionEvent] = field(default_factory=list)
    end: int
    """Byte offset up to which the file is intact and whole."""
    torn: TornTail | None = None
    salvaged: int = 0
    """How many of ``events`` lie beyond ``end``."""
    protected: bool


def scan_log(log: LogFile, data: bytes) -> Scan:
    """Return the content of a log file's bytes.

    Raises ``SessionCorrupt`` for damage, ``FormatNotSupported`` for another generation.
    """
    return _ZstdScanner(log, data).run() if log.encoding == "zstd" else _RawScanner(log, data).run()


def parse_header(log: LogFile, line: bytes) -> SessionHeader:
    """Return the header of a log's first line, translating what is wrong with it into this store's terms."""
    try:
        return decode_header(line)
    except FormatUnsupported as error:
        raise FormatNotSupported(str(log.path), error.version, str(error)) from None
    except HeaderInvalid as error:
        raise SessionCorrupt(str(log.path), str(error), offset=0, line=1) from None


def header_of_frame(log: LogFile, frame: bytes) -> SessionHeader:
    """Return the header that the first frame holds: exactly one line, newline included, and nothing else."""
    try:
        plain = decompress_frame(frame)
    except zstandard.ZstdError as error:
        raise SessionCorrupt(str(log.path), f"the header frame is damaged: {error}", offset=0, line=1) from None
    if not plain.endswith(b"\n") or plain.count(b"\n") != 1:
        line_ends = plain.count(b"\n")
        held = f"{len(plain)} bytes with {line_ends} line ends"
        raise SessionCorrupt(
            str(log.path), f"the first frame must hold exactly the header line; it holds {held}", offset=0, line=1
        )
    return parse_header(log, plain)


@dataclass(slots=True)
class _Rows:
    """Takes lines in order until one does not continue the log, then only looks for proof of damage.

    A bad line is a torn write unless a turn end follows it: a turn end is only written after what precedes it.
    """

    log: LogFile
    events: list[SessionEvent]
    line: int = 1
    issue: SessionCorrupt | None = None

    def take(self, line: bytes, *, offset: int) -> bool:
        """Take one line; return whether it was stored. Raises ``SessionCorrupt`` once damage is proven."""
        self.line += 1
        try:
            event = decode_row(line)
        except RowInvalid as error:
            self._note(f"no event: {error}", offset)
            return False
        if self.issue is None and event.seq != len(self.events):
            self._note(f"seq {event.seq} where {len(self.events)} is due", offset)
        if self.issue is not None:
            if event.type == "turn/end":
                raise self.issue
            return False
        self.events.append(event)
        return True

    def _note(self, reason: str, offset: int) -> None:
        if self.issue is None:
            self.issue = SessionCorrupt(str(self.log.path), reason, offset=offset, line=self.line)


class _ZstdScanner:
    def __init__(self, log: LogFile, data: bytes) -> None:
        self._log = log
        self._data = data
        self._frames, self._fault = walk_frames(data)
        if self._fault is not None and self._fault.kind == "damaged":
            raise SessionCorrupt(str(log.path), self._fault.reason, offset=self._fault.offset)
        if not self._frames:
            raise SessionCorrupt(str(log.path), "the log has no whole header frame", offset=0, line=1)

    def run(self) -> Scan:
        first, *rest = self._frames
        protected = first.has_checksum
        scan = Scan(
            header=header_of_frame(self._log, self._data[first.start : first.end]), end=first.end, protected=protected
        )
        rows = _Rows(self._log, scan.events)
        whole = 0
        for frame in rest:
            if protected and not frame.has_checksum:
                raise SessionCorrupt(str(self._log.path), "a frame has no checksum, the header has", offset=frame.start)
            for line in self._lines(frame.start, frame.end):
                rows.take(line, offset=frame.start)
            if rows.issue is None:
                scan.end, whole = frame.end, len(scan.events)
        if self._fault is not None and rows.issue is None:
            # What decodes of a cut frame was never acknowledged; its whole lines are kept all the same.
            tail = salvage_frame(self._data[self._fault.offset :])
            for line in tail.split(b"\n")[:-1]:
                rows.take(line, offset=self._fault.offset)
        scan.salvaged = len(scan.events) - whole
        if scan.end < len(self._data):
            scan.torn = TornTail(offset=scan.end, size_bytes=len(self._data) - scan.end)
        return scan

    def _lines(self, start: int, end: int) -> Iterator[bytes]:
        try:
            plain = decompress_frame(self._data[start:end])
        except zstandard.ZstdError as error:
            raise SessionCorrupt(str(self._log.path), f"a frame is damaged: {error}", offset=start) from None
        if plain and not plain.endswith(b"\n"):
            raise SessionCorrupt(str(self._log.path), "a whole frame ends inside a line", offset=start)
        yield from plain.split(b"\n")[:-1]


class _RawScanner:
    def __init__(self, log: LogFile, data: bytes) -> None:
        self._log = log
        self._data = data

    def run(self) -> Scan:
        first, found, _ = self._data.partition(b"\n")
        if not found:
            raise SessionCorrupt(str(self._log.path), "the log has no whole header line", offset=0, line=1)
        scan = Scan(header=parse_header(self._log, first), end=len(first) + 1, protected=False)
        rows = _Rows(self._log, scan.events)
        offset = scan.end
        while (end := self._data.find(b"\n", offset)) >= 0:
            if rows.take(self._data[offset:end], offset=offset):
                scan.end = end + 1
            offset = end + 1
        if scan.end < len(self._data):
            scan.torn = TornTail(offset=scan.end, size_bytes=len(self._data) - scan.end)
        return scan
