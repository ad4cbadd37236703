"""Why a log cannot be read: every fault in it, and what is intact behind the first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from dsh_persistence import FormatNotSupported, PersistenceError, RowTooLarge, SessionCorrupt

from ._findings import Finding, found
from ._layout import LogFile
from ._mark import Mark, read_mark
from ._numbering import Invalid, Numbered, Part, Turn, numbered
from ._read import opened, read_whole
from ._rows import RowInvalid
from ._scan import parse_header
from ._survey import Hole, Line, Survey, rows_of

_TURNS = {Turn.AHEAD: "seq-gap", Turn.BACK: "seq-forked", Turn.WRONG: "seq-wrong"}


def autopsy(file: LogFile, refusal: SessionCorrupt | RowTooLarge) -> Iterator[Finding]:
    """Yield every fault of a log that reading refused with ``refusal``; at least one of them is damage."""
    mark = read_mark(file.path)
    damaged = False
    try:
        with opened(file) as (fd, status):
            survey = Survey(file, fd, status.st_size, marked=mark is not None)
            for finding in chain(_header(file, survey), _Faults(file, mark).of(numbered(rows_of(survey)))):
                damaged = damaged or finding.severity == "damage"
                yield finding
    except SessionCorrupt as unreadable:
        yield found("unreadable", file.path, unreadable.reason)
        return
    if not damaged:
        yield _otherwise(file, mark, refusal)


def _header(file: LogFile, survey: Survey) -> Iterator[Finding]:
    first = next(iter(survey), None)
    if isinstance(first, Line):
        try:
            parse_header(file, first.text)
        except SessionCorrupt as error:
            yield found("header-invalid", file.path, error.reason, offset=0, frame=first.frame, line=1)
        except FormatNotSupported as other:
            reason = f"its header is of v{other.version}, its name of v{file.generation}"
            yield found("header-invalid", file.path, reason, offset=0, frame=first.frame, line=1)
    elif first is None:
        yield found("log-empty", file.path, "the log has no byte", offset=0, line=1)
    elif first.offset == 0 and first.number == 1:
        yield found(
            "header-missing", file.path, f"no whole header: {first.reason}", offset=0, frame=first.frame, line=1
        )


class _Faults:
    """Goes through the parts of a log, says what is wrong with each, and counts what is intact behind the first."""

    def __init__(self, file: LogFile, mark: Mark | None) -> None:
        self._file = file
        self._mark = mark
        self._due = 0
        self._explained = False
        """Whether a fault right before accounts for seqs that are missing."""
        self._first: Finding | None = None
        self._beyond: tuple[int, int] | None = None
        """Offset and seq of the first intact event behind the first damage."""
        self._count = 0

    def of(self, parts: Iterator[Part]) -> Iterator[Finding]:
        for part in parts:
            if isinstance(part, Hole) and part.number == 1:
                continue  # the header, which has a finding of its own
            finding = self._numbered(part) if isinstance(part, Numbered) else self._faulty(part)
            if finding is not None:
                if finding.severity == "damage":
                    self._first = self._first or finding
                yield finding
        if self._beyond is not None:
            offset, seq = self._beyond
            reason = f"{self._count} intact event(s) lie behind the first damage, the last with seq {self._due - 1}"
            yield found("beyond-damage", self._file.path, reason, offset=offset, seq=seq)

    def _numbered(self, part: Numbered) -> Finding | None:
        due, line = self._due, part.line
        place = {"offset": line.offset, "frame": line.frame, "line": line.number}
        try:
            part.event()
        except RowInvalid as error:
            self._due = part.seq + 1
            return found("row-invalid", self._file.path, str(error), **place, seq=part.seq)
        self._due = part.seq + 1
        explained, self._explained = self._explained, False
        if self._first is not None:
            self._beyond = self._beyond or (line.offset, part.seq)
            self._count += 1
        if part.turn is Turn.DUE or (part.turn is Turn.AHEAD and explained):
            return None
        reason = f"seq {part.row.seq} where {due} is due"
        if part.turn is Turn.BACK:
            reason += "; a second writer went on from there"
        return found(_TURNS[part.turn], self._file.path, reason, **place, seq=part.row.seq)

    def _faulty(self, part: Invalid | Hole) -> Finding:
        self._explained = True
        path, seq = self._file.path, self._due
        if isinstance(part, Invalid):
            line = part.line
            return found(
                "row-invalid", path, part.reason, offset=line.offset, frame=line.frame, line=line.number, seq=seq
            )
        rule, reason = "frame-damaged" if self._file.encoding == "zstd" else "line-damaged", part.reason
        if part.torn and self._mark is not None and part.offset < self._mark.length:
            reason += f", and {self._mark.length} bytes were acknowledged"
        elif part.torn and (self._mark is not None or part.reason.startswith("the file ends")):
            rule, reason = "torn-tail", f"the last {part.size_bytes} bytes are torn and were never acknowledged"
        else:
            reason += f"; {part.size_bytes} bytes are lost"
        return found(rule, path, reason, offset=part.offset, frame=part.frame, line=part.number, seq=seq)


def _otherwise(file: LogFile, mark: Mark | None, refusal: SessionCorrupt | RowTooLarge) -> Finding:
    """Return the finding for a log all of whose parts are intact, and which was refused all the same."""
    if mark is not None:
        try:
            scan, _, _ = read_whole(file, trusting=True)
        except PersistenceError:
            pass
        else:
            if mark.length > scan.end:
                reason = f"{mark.length} bytes were acknowledged, the log has {scan.end}; was an older copy put there?"
                return found("mark-ahead", file.path, reason, offset=scan.end, seq=scan.log.next_seq)
            return found("bytes-changed", file.path, _reason(refusal), offset=refusal.offset)
    if isinstance(refusal, SessionCorrupt) and refusal.line == 1:
        return found("header-invalid", file.path, refusal.reason, offset=0, frame=0, line=1)
    line = refusal.line if isinstance(refusal, SessionCorrupt) else None
    return found("rules", file.path, _reason(refusal), offset=refusal.offset, line=line)


def _reason(refusal: SessionCorrupt | RowTooLarge) -> str:
    return refusal.reason if isinstance(refusal, SessionCorrupt) else str(refusal)
