"""A new log out of what is intact of a damaged or forked one, which is left as it is."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from dsh_persistence import LogWriter, SessionCorrupt, SessionLocation, StoreUnusable
from dsh_persistence.files import open_regular
from dsh_session import EncodedBatch, EventRefused, SessionEvent, SessionHeader

from ._branches import Branch, Branches, of_branch
from ._layout import LogFile, project_segment
from ._mark import read_mark
from ._named import id_of, log_of, require_current
from ._numbering import Invalid, Numbered, Part, numbered
from ._rebuild import Kept, Lost, Rebuild
from ._scan import parse_header
from ._store import JsonlLogStore
from ._survey import Hole, Survey, rows_of

_BATCH_BYTES = 1 << 20
"""About how much goes into one frame of the new log."""
_BATCH_EVENTS = 1_000


class SessionForked(SessionCorrupt):
    """A log with several branches was to be salvaged, and none was chosen."""

    def __init__(self, path: str, branches: Sequence[Branch]) -> None:
        super().__init__(path, f"the log has {len(branches)} branches; choose one of them", offset=branches[1].offset)
        self.branches = tuple(branches)


class SalvageReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a salvage found and what it made of that."""

    session_id: str
    source: str
    written: str
    """The new log."""
    branches: tuple[Branch, ...]
    branch: int
    """The number of the branch that was taken."""
    events: int
    """How many events the new log has; all those below."""
    kept: int
    """How many are events of the source as they were."""
    renumbered: tuple[Kept, ...]
    """Which of those had a wrong seq and are kept under the one that was due."""
    unproven: int
    """How many of those come from a cut frame, for which no checksum vouches."""
    wrapped: tuple[Kept, ...]
    """Events that the rules refuse in their new surroundings; each is inside a ``plugin:dsh-py/salvaged``."""
    lost: tuple[Lost, ...]
    """Runs of seqs whose events are lost; a ``plugin:dsh-py/lost`` stands for each, or what was made instead."""
    bridged: tuple[int, ...]
    """Seqs of lost events for which others were made, so that turns and steps begin and end."""
    damage: tuple[Hole | Invalid, ...]
    """The bytes that are no intact events."""
    header_made: bool
    """Whether the header of the source was lost or had to change."""


class _Source(msgspec.Struct, frozen=True, kw_only=True):
    """An open log, and what a first pass over it found."""

    file: LogFile
    fd: int
    size_bytes: int
    marked: bool
    header: SessionHeader
    header_made: bool
    branches: tuple[Branch, ...]
    damage: tuple[Hole | Invalid, ...]

    def parts(self) -> Iterator[Part]:
        return numbered(rows_of(Survey(self.file, self.fd, self.size_bytes, marked=self.marked)))


def salvage(
    store: JsonlLogStore,
    ref: str | SessionLocation,
    into: JsonlLogStore,
    *,
    branch: int | None = None,
    cwd: str | None = None,
) -> SalvageReport:
    """Write what is intact of a session to another store, under the same id and header, and read it back.

    Every event keeps its seq. ``branch`` chooses one of a forked log. ``cwd`` is the session's working directory, for
    a log whose header is lost. Nothing of the source is touched, and the new log is there whole or not at all.

    Raises ``SessionForked``; ``SessionCorrupt`` when the header is lost and no ``cwd`` is given, or no event is left;
    ``StoreUnusable`` for a store that is the session's own; and what reading and writing raise.
    """
    file = log_of(store.root, ref)
    require_current(file)
    _require_elsewhere(store, file, into)
    try:
        fd, status = open_regular(file.path)
    except OSError as error:
        raise SessionCorrupt(file.path, f"the log cannot be read: {error.strerror}") from error
    try:
        return _salvaged(_survey(file, fd, status.st_size, cwd), into, branch)
    finally:
        os.close(fd)


def _salvaged(source: _Source, into: JsonlLogStore, branch: int | None) -> SalvageReport:
    taken = _choose(source.file, source.branches, branch)
    header, rebuild = _settled(source, taken)
    written = _write(source, taken, header, rebuild.forced, into)
    return SalvageReport(
        session_id=header.id,
        source=source.file.path,
        written=written,
        branches=source.branches,
        branch=taken,
        events=rebuild.state.next_seq,
        kept=rebuild.kept,
        renumbered=tuple(rebuild.renumbered),
        unproven=rebuild.unproven,
        wrapped=tuple(rebuild.wrapped),
        lost=tuple(rebuild.lost),
        bridged=tuple(rebuild.bridged),
        damage=source.damage,
        header_made=source.header_made or header != source.header,
    )


def _require_elsewhere(store: JsonlLogStore, file: LogFile, into: JsonlLogStore) -> None:
    new, own = Path(os.path.realpath(into.root)), Path(os.path.realpath(file.folder))
    if new == Path(os.path.realpath(store.root)) or new == own or own in new.parents:
        raise StoreUnusable(str(into.root), "is where the damaged session lies; name another root for what is salvaged")


def _survey(file: LogFile, fd: int, size_bytes: int, cwd: str | None) -> _Source:
    """Read the log once: its header, and which branches it has."""
    marked = read_mark(file.path) is not None
    first = next(iter(Survey(file, fd, size_bytes, marked=marked)), None)
    branches, damage, seeded = Branches(), list[Hole | Invalid](), False
    for part in numbered(rows_of(Survey(file, fd, size_bytes, marked=marked))):
        if isinstance(part, Numbered):
            branches.add(part)
            seeded = seeded or (part.row.type == "session/end-seed" and b'"inherited":true' in part.line.text)
        else:
            damage.append(part)
    if not branches.found:
        raise SessionCorrupt(file.path, "no event of it is intact")
    try:
        header, made = parse_header(file, b"" if first is None else first.text), False
    except SessionCorrupt as lost:
        header, made = _header_made(file, lost, cwd, branches.first_time, seeded=seeded), True
    return _Source(
        file=file,
        fd=fd,
        size_bytes=size_bytes,
        marked=marked,
        header=header,
        header_made=made,
        branches=tuple(branches.found),
        damage=tuple(damage),
    )


def _header_made(
    file: LogFile, damage: SessionCorrupt, cwd: str | None, created_at: int, *, seeded: bool
) -> SessionHeader:
    """Return a header in place of a lost one: the folders tell the id, and whether the directory is the right one."""
    folder = Path(file.folder)
    if project_segment(cwd) != folder.parent.name:
        wrong = "" if cwd is None else f", and no session of {cwd} lies there"
        reason = f"its header is lost ({damage.reason}){wrong}; give its working directory (cwd)"
        raise SessionCorrupt(file.path, reason, offset=0, line=1)
    return SessionHeader(id=id_of(file.folder), created_at=max(0, created_at), cwd=cwd, is_seeded=seeded)


def _choose(file: LogFile, branches: Sequence[Branch], branch: int | None) -> int:
    if branch is None and len(branches) > 1:
        raise SessionForked(file.path, branches)
    taken = branch or 1
    if not 1 <= taken <= len(branches):
        msg = f"there is no branch {taken}; {file.path} has {len(branches)}"
        raise ValueError(msg)
    return taken


def _settled(source: _Source, branch: int) -> tuple[SessionHeader, Rebuild]:
    """Go through the log without writing, until what comes out is a log that loads.

    Some events are refused only for what does not follow, so that is known at the end; each is then wrapped.
    """
    header, forced = source.header, frozenset[int]()
    while True:
        rebuild = Rebuild(header, forced)
        for _ in rebuild.events(of_branch(source.parts(), source.branches, branch)):
            pass
        try:
            rebuild.state.settle()
        except EventRefused as refused:
            if refused.seq is None:  # the end of the inherited part is lost, and with it what was inherited
                header = dataclasses.replace(header, is_seeded=False, seed_length=None)
            elif refused.seq in forced:
                raise
            else:
                forced |= {refused.seq}
        else:
            return header, rebuild


def _write(source: _Source, branch: int, header: SessionHeader, forced: frozenset[int], into: JsonlLogStore) -> str:
    """Write the new log with the ordinary writer, and read it back."""
    log = Path(into.locate(header).path)
    parts = of_branch(source.parts(), source.branches, branch)
    writer = into.create(header)
    try:
        with writer:
            _append(writer, Rebuild(header, forced).events(parts))
        into.read(header.id).events.validate(header)
    except BaseException:
        if writer.next_seq:  # it is ours; half of a salvaged session would be taken for all of it
            for leftover in log.parent.glob(f"{log.name}*"):
                leftover.unlink()
        raise
    return str(log)


def _append(writer: LogWriter, events: Iterator[SessionEvent]) -> None:
    held: list[SessionEvent] = []
    size_bytes = 0
    for event in events:
        held.append(event)
        size_bytes += len(event.encoded)
        if size_bytes >= _BATCH_BYTES or len(held) >= _BATCH_EVENTS:
            writer.append(EncodedBatch(first_seq=held[0].seq, events=tuple(held)))
            held, size_bytes = [], 0
    if held:
        writer.append(EncodedBatch(first_seq=held[0].seq, events=tuple(held)))
