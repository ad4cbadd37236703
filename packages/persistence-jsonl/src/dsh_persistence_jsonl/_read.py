"""The ways to read one log: whole, from an event on through the index, as a stream, or following it as it grows."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import os
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import msgspec

from dsh_persistence import ForeignChange, LogTail, RowTooLarge, SessionCorrupt, SessionNotFound, StoredPrefix
from dsh_persistence.files import NO_FILE, open_regular, read_all, require_passing, usable
from dsh_session import EventLog, SessionEvent, SessionHeader

from ._frames import PIECE_BYTES, FrameDecoder, first_frame_text, has_checksum
from ._index import IndexReader
from ._layout import LogFile
from ._mark import DIGEST_BYTES, Mark, digest_of, mark_path, read_mark
from ._rows import RowInvalid, decode_row, decode_rows
from ._scan import HEADER_BYTES, LF, NO_CHECKSUM, Scan, parse_header, read_header, scan_log, stream_events
from ._stretches import Decoder, Stretches, bounded

_HEAD_BYTES = 4 << 10
"""Enough for nearly every header, and often for the first events."""
_TAIL_BYTES = 16
_FOLLOWED_BYTES = 8 << 20
"""About how much of a log one ``tail`` call takes in, of the file and of the data in it."""
_SEEN_BYTES = 256
"""By so many bytes before it a cursor knows its log again: an inode is soon given to another file."""
_UNSYNCED_BYTES = 64 << 20
"""How much of a log one writer may leave unsynced."""
_BASELINES = {"sandbox/mode": "mode", "approval/policy": "policy"}
_OPENING_EVENTS = 32
"""Among so many first own events the baselines lie; the first turn ends the search sooner."""


@contextmanager
def opened(file: LogFile) -> Generator[tuple[int, os.stat_result]]:
    """Open a log for reading, with its state at that moment.

    Raises ``SessionCorrupt`` where something else has its name, ``SessionNotFound`` where nothing has it any more,
    ``StoreUnusable`` where it may not be read, and ``OSError`` from the medium.
    """
    try:
        fd, status = open_regular(file.path)
        try:
            yield fd, status
        finally:
            with contextlib.suppress(OSError):  # what was read was read
                os.close(fd)
    except OSError as error:
        _explain(file, error)
        raise


def _explain(file: LogFile, error: OSError) -> None:
    """Raise what an error of opening says in this store's terms; return for one that may pass by itself."""
    if error.errno in NO_FILE:
        raise SessionCorrupt(file.path, f"the log cannot be read: {error.strerror}") from error
    if error.errno == errno.ENOENT:
        raise SessionNotFound(os.path.basename(file.folder), file.path) from error  # noqa: PTH119  # as text
    require_passing(error, file.path)


def _mark_of(file: LogFile) -> Mark | None:
    with usable(mark_path(file.path)):
        return read_mark(file.path)


def read_whole(
    file: LogFile, *, fresh: bool = False, trusting: bool = False
) -> tuple[Scan, StoredPrefix, os.stat_result]:
    """Read and check a log from its first byte to its last.

    ``fresh`` reads from the disk what the mark does not vouch for; ``trusting`` passes the mark over.
    """
    # Asked first: the mark never runs ahead of the log, so an older mark cannot vouch for bytes not read here.
    mark = None if trusting else _mark_of(file)
    with opened(file) as (fd, status):
        if fresh:
            _distrust_cache(fd, max(0, status.st_size - _UNSYNCED_BYTES) if mark is None else mark.length)
        content = read_all(fd, status.st_size)
    header, begin, protected = read_header(file, content[:HEADER_BYTES])
    scan = scan_log(file, content, base=0, begin=begin, due=0, protected=protected, marked=_length(mark))
    if mark is not None and not protected:
        _require_acknowledged(file, mark, hashlib.blake2b(content[: mark.length], digest_size=DIGEST_BYTES))
    cut = _cut(file, header, scan.log)
    return (
        scan,
        _prefix(file, header, scan, protected=protected, revision=revision_of(status, content), cut=cut),
        status,
    )


def read_suffix(file: LogFile, from_seq: int) -> StoredPrefix | None:
    """Read a log from ``from_seq`` on through its index; None when the index is absent, stale or of no use.

    Only the stretches from there on are checked.
    """
    mark = _mark_of(file)
    with opened(file) as (fd, status):
        header, begin, protected = _head(file, fd)
        place = None if header.is_seeded else _place(file, from_seq)
        # A fork is read whole, for its inherited part can end anywhere, and so is what begins among the opening events.
        if place is None or place[0] < _OPENING_EVENTS or not begin <= place[1] <= status.st_size:
            return None
        due, start = place
        content = read_all(fd, status.st_size - start, start)
        opening = _opening(file, _reader(fd, begin, status.st_size), begin)
    try:
        scan = scan_log(file, content, base=start, begin=start, due=due, protected=protected, marked=_length(mark))
    except SessionCorrupt:
        return None  # reading all of it says what is wrong, the index or the log
    if not len(scan.blocks):
        return None
    prefix = _prefix(
        file, header, scan, protected=protected, revision=revision_of(status, content), cut=0, opening=opening
    )
    return msgspec.structs.replace(prefix, events=scan.log.suffix(from_seq))


def stream(file: LogFile) -> Iterator[Iterable[SessionEvent]]:
    """Yield every event, stretch by stretch, holding one; checks and ends as ``read_whole`` does."""
    mark = _mark_of(file)
    with opened(file) as (fd, status):
        _, begin, protected = _head(file, fd)
        read = _reader(fd, begin, status.st_size)
        yield from stream_events(file, read, begin=begin, protected=protected, marked=_length(mark))
        if mark is not None and not protected:
            _require_acknowledged(file, mark, digest_of(fd, mark.length))


def follow(file: LogFile, cursor: Mapping[str, int] | None) -> LogTail:
    """Return the events that came after ``cursor``, of whole stretches only, and the cursor after them.

    A bad stretch is never passed over: it raises ``SessionCorrupt``, and the cursor stays before it.
    """
    with opened(file) as (fd, status):
        _, begin, protected = _head(file, fd)
        start, seq = (begin, 0) if cursor is None else (cursor.get("offset", -1), cursor.get("seq", -1))
        in_file = begin <= start <= status.st_size
        if not in_file or (cursor is not None and _cursor(fd, status, start, seq) != dict(cursor)):
            raise ForeignChange(file.path, "the log is not the one that the cursor followed")
        events: list[SessionEvent] = []
        end, decoded_bytes, decoder = start, 0, Decoder(file)
        stretches = Stretches(file, _reader(fd, start, status.st_size), base=start, piece=PIECE_BYTES)
        try:
            for offset, stored in stretches:
                if protected and not has_checksum(stored):
                    raise SessionCorrupt(file.path, NO_CHECKSUM, offset=offset)
                found = tuple(_whole(file, decoder, offset, stored, due=seq + len(events)))
                events += found
                end = offset + len(stored)
                decoded_bytes += sum(len(event.encoded) for event in found)
                if max(end - start, decoded_bytes) >= _FOLLOWED_BYTES:
                    break
            _require_undamaged(file, stretches)
        except (SessionCorrupt, RowTooLarge):
            if not events:
                raise  # what came before it goes out first, and the next call raises
        return LogTail(events=tuple(events), cursor=_cursor(fd, status, end, seq + len(events)))


def decoded_text(file: LogFile) -> Iterator[bytes]:
    """Yield the text of a log as it is stored, header line included.

    A frame that a crash cut is left out; of a raw log the cut line is text like any other.
    """
    with opened(file) as (fd, status):
        decoder = Decoder(file)
        stretches = Stretches(file, _reader(fd, 0, status.st_size), base=0, piece=PIECE_BYTES)
        for offset, stored in stretches:
            yield from bounded(file, offset, decoder.pieces(offset, stored))
        if file.encoding == "raw":
            yield stretches.tail()
    _require_undamaged(file, stretches)


def header_of(file: LogFile, frames: FrameDecoder) -> tuple[SessionHeader, str]:
    """Return a log's header and revision from one small read of its beginning and one of its end.

    ``frames`` is whoever lists many logs: making a decoder costs more than using one.
    """
    try:
        fd, status = open_regular(file.path)
        try:
            head = os.pread(fd, _HEAD_BYTES, 0)
            tail = head if status.st_size <= len(head) else os.pread(fd, _TAIL_BYTES, status.st_size - _TAIL_BYTES)
            line = first_frame_text(head, frames) if file.encoding == "zstd" else head[: head.find(LF) + 1]
            header = parse_header(file, line) if line and line.find(LF) == len(line) - 1 else _head(file, fd)[0]
        finally:
            os.close(fd)
    except OSError as error:
        _explain(file, error)
        raise
    return header, revision_of(status, tail)


def revision_of(status: os.stat_result, content: bytes) -> str:
    """Identify this state of the file: where it is, how long, when touched, and how it ends (DURABILITY G19)."""
    return (
        f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}:"
        f"{content[-_TAIL_BYTES:].hex()}"
    )


def _cursor(fd: int, status: os.stat_result, offset: int, seq: int) -> dict[str, int]:
    seen = os.pread(fd, min(offset, _SEEN_BYTES), max(0, offset - _SEEN_BYTES))
    return {"inode": status.st_ino, "offset": offset, "seq": seq, "seen": zlib.crc32(seen)}


def _length(mark: Mark | None) -> int | None:
    return None if mark is None else mark.length


def _distrust_cache(fd: int, begin: int) -> None:
    """Let the machine forget what it holds of a file from ``begin`` on but believes to be on the disk.

    After a failed sync it believes that wrongly, and whoever builds on such bytes would lose them.
    """
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, begin, 0, os.POSIX_FADV_DONTNEED)


def _require_acknowledged(file: LogFile, mark: Mark, found: hashlib.blake2b) -> None:
    """Check what has no checksums of its own against its mark."""
    if found.digest() != mark.digest:
        reason = f"the first {mark.length} bytes are not the ones that were acknowledged; their digest differs"
        raise SessionCorrupt(file.path, reason, offset=0)


def _require_undamaged(file: LogFile, stretches: Stretches) -> None:
    if stretches.fault is not None and stretches.fault.kind == "damaged":
        raise SessionCorrupt(file.path, stretches.fault.reason, offset=stretches.fault.offset)


def _head(file: LogFile, fd: int) -> tuple[SessionHeader, int, bool]:
    """Return what ``read_header`` makes of the first bytes of a log, few of them where those will do."""
    head = os.pread(fd, _HEAD_BYTES, 0)
    if len(head) == _HEAD_BYTES:
        with contextlib.suppress(SessionCorrupt):
            return read_header(file, head)
        head = os.pread(fd, HEADER_BYTES, 0)
    return read_header(file, head)


def _opening(file: LogFile, read: Callable[[int], bytes], begin: int) -> list[SessionEvent]:
    """Return the first events of a log, as far as ``_complete`` looks; none that cannot be read."""
    events: list[SessionEvent] = []
    decoder = Decoder(file)
    with contextlib.suppress(SessionCorrupt):
        for offset, stored in Stretches(file, read, base=begin, piece=_HEAD_BYTES):
            for event in _whole(file, decoder, offset, stored, due=len(events)):
                events.append(event)
                if event.type == "turn/start" or len(events) == _OPENING_EVENTS:
                    return events
    return events


def _reader(fd: int, begin: int, end: int) -> Callable[[int], bytes]:
    """Return a function that reads on from ``begin``, and not beyond the size that the file had."""
    position = begin

    def read(size: int) -> bytes:
        nonlocal position
        piece = os.pread(fd, min(size, end - position), position)
        position += len(piece)
        return piece

    return read


def _place(file: LogFile, seq: int) -> tuple[int, int] | None:
    try:
        index = IndexReader(file.path)
    except OSError:
        return None
    try:
        return index.stretch_of(seq)
    finally:
        index.close()


def _whole(file: LogFile, decoder: Decoder, offset: int, stored: bytes, *, due: int) -> Iterator[SessionEvent]:
    text = decoder.text(stored)
    events = None if text is None else decode_rows(text, due)
    if events is not None:
        yield from events
        return
    for seq, (at, line) in enumerate(decoder.lines(offset, stored), due):
        try:
            event = decode_row(line, due=seq)
        except RowInvalid as error:
            raise SessionCorrupt(file.path, str(error), offset=at, line=seq + 2) from None
        yield event


def _prefix(
    file: LogFile,
    header: SessionHeader,
    scan: Scan,
    *,
    protected: bool,
    revision: str,
    cut: int,
    opening: Sequence[SessionEvent] | None = None,
) -> StoredPrefix:
    return StoredPrefix(
        header=_complete(header, scan.log if opening is None else opening, cut),
        generation=file.generation,
        events=scan.log,
        cut=cut,
        torn=scan.torn,
        salvaged=scan.salvaged,
        protected=protected,
        revision=revision,
        source=file.path,
    )


def _cut(file: LogFile, header: SessionHeader, log: EventLog) -> int:
    """Return how many events a fork inherited: the seq of the last marker that says so (GENERATIONS §1.1)."""
    if not header.is_seeded:
        return 0
    cut = None
    for event in log.of_type("session/end-seed"):
        if _fields(event).get("inherited") is True:
            cut = event.seq
    if cut is None:
        raise SessionCorrupt(file.path, "the session has no end of its inherited part")
    return cut


def _complete(header: SessionHeader, log: Sequence[SessionEvent], cut: int) -> SessionHeader:
    """Fill in what a header line does not carry: the inherited count and the two delegation baselines."""
    baselines: dict[str, str] = {}
    for event in log[cut : cut + _OPENING_EVENTS]:
        value_key = _BASELINES.get(event.type)
        if value_key is not None:
            fields = _fields(event)
            if fields.get("source") == "delegation" and isinstance(fields.get(value_key), str):
                baselines.setdefault(event.type, fields[value_key])
        elif event.type == "turn/start":
            break
    return dataclasses.replace(
        header,
        seed_length=cut if header.is_seeded else None,
        sandbox_mode=baselines.get("sandbox/mode"),
        approval_policy=baselines.get("approval/policy"),
    )


def _fields(event: SessionEvent) -> Mapping[str, Any]:
    """Return the event's data; empty for data that is no object, which is a matter of what the log means."""
    try:
        data = event.data
    except ValueError:
        return {}
    return cast("Mapping[str, Any]", data) if isinstance(data, dict) else {}
