"""What is wrong with a session, and what is merely worth knowing; nothing is changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from dsh_persistence import (
    FormatNotSupported,
    RowTooLarge,
    SessionCorrupt,
    SessionLocation,
    SessionNotFound,
    StoredPrefix,
    StoreUnusable,
)
from dsh_persistence.files import holder_of
from dsh_session import EventRefused, SessionEvent, generations

from ._autopsy import autopsy
from ._findings import Finding, found
from ._index import IndexReader, index_path
from ._layout import LOCK_NAME, SUFFIXES, LogFile, folders_of, logs_in, project_segment, session_segment
from ._mark import digest_of, mark_path, read_mark
from ._named import id_of
from ._read import opened, read_whole
from ._scan import Scan
from ._store import JsonlLogStore

_PRIVATE = 0o077
"""What nobody but the owner may do."""
_STEP_EVENTS = 256


def examine(store: JsonlLogStore, ref: str | SessionLocation, *, deep: bool = False) -> Iterator[Finding]:
    """Yield what there is to say about a session's log and the files beside it; nothing of it is damage when it reads.

    Frames, checksums, the count of rows and the mark are checked; ``deep`` reads every row and checks what they mean.
    Takes no lock, and raises nothing for damage; ``SessionNotFound`` where there is no session.
    """
    folder, log = _place_of(store, ref)
    try:
        logs = logs_in(folder)
        names = sorted(os.listdir(folder))  # noqa: PTH208  # names are enough
    except (OSError, StoreUnusable) as error:
        yield found("unreadable", folder, str(error))
        return
    if not logs:
        raise SessionNotFound(id_of(folder), str(store.root))
    yield from _beside(folder, names)
    if len({one.encoding for one in logs}) > 1:
        yield found("both-encodings", folder, f"holds logs of both encodings, {', '.join(one.name for one in logs)}")
    yield from _elsewhere(store, folder)
    yield from _log(next((one for one in logs if one.path == log), logs[0]), deep=deep)


def _place_of(store: JsonlLogStore, ref: str | SessionLocation) -> tuple[str, str]:
    """Return the folder of a session, and the log that was named."""
    if isinstance(ref, str):
        folders = folders_of(str(store.root), ref) if ref else []
        if not folders:
            raise SessionNotFound(ref, str(store.root))
        return folders[0], ""
    path = Path(ref.path)
    # An entry of a listing may name a folder that could not be read.
    is_folder = path.is_dir() and not path.name.endswith(tuple(SUFFIXES.values()))
    return str(path if is_folder else path.parent), ref.path


def _beside(folder: str, names: list[str]) -> Iterator[Finding]:
    """Yield what the files of a session's folder tell without being read."""
    wide: list[str] = []
    for name in [".", *names]:
        path = folder if name == "." else f"{folder}/{name}"
        try:
            status = os.lstat(path)
        except OSError:
            continue  # gone since
        if name.startswith("session.") and name.endswith(".tmp"):
            yield found("stale-tmp", path, "is what a writer left that died while it made the log")
        elif ".torn-" in name:
            yield found("saved-tail", path, f"keeps {status.st_size} bytes that a repair cut")
        if not stat.S_ISLNK(status.st_mode) and status.st_mode & _PRIVATE:
            wide.append(f"{name} {stat.S_IMODE(status.st_mode):04o}")
    if wide:
        yield found("permissions", folder, f"others may use what is private: {', '.join(wide)}")


def _elsewhere(store: JsonlLogStore, folder: str) -> Iterator[Finding]:
    session_id = id_of(folder)
    try:
        others = [other for other in folders_of(str(store.root), session_id) if other != folder and logs_in(other)]
    except (OSError, ValueError, StoreUnusable):
        return
    for other in others:
        yield found("duplicate-id", folder, f"session {session_id!r} lies in {other} as well")


def _log(file: LogFile, *, deep: bool) -> Iterator[Finding]:
    if os.path.islink(file.path):  # noqa: PTH114  # a Path for it alone
        yield found("link-in-place", file.path, "a link is where the log should be, and is not followed")
        return
    if file.generation != generations.CURRENT:
        reason = f"it is of generation v{file.generation}, and v{generations.CURRENT} is what is examined"
        yield found("other-generation", file.path, reason)
        return
    holder = holder_of(Path(file.folder, LOCK_NAME))
    try:
        scan, stored, _ = read_whole(file)
        sound = list(_of_readable(file, scan, stored, holder))
        if deep:
            sound += _deep(file, scan, stored)
    except FormatNotSupported as other:
        yield found("other-generation", file.path, str(other).removeprefix(f"{file.path}: "))
    except (SessionCorrupt, RowTooLarge) as damage:
        yield from autopsy(file, damage)
    except (OSError, StoreUnusable) as error:
        yield found("unreadable", file.path, str(error).removeprefix(f"{file.path}: "))
    else:
        yield from sound


def _of_readable(file: LogFile, scan: Scan, stored: StoredPrefix, holder: str | None) -> Iterator[Finding]:
    """Yield what there is to say about a log that reads."""
    header = stored.header
    place = f"{project_segment(header.cwd)}/{session_segment(header.id)}"
    if not file.folder.endswith(f"/{place}"):
        reason = f"the header names session {header.id!r} in {header.cwd!r}, which lies in {place}"
        yield found("wrong-place", file.path, reason, offset=0, line=1)
    if scan.torn is not None:
        size, whole = scan.torn.size_bytes, f", {scan.salvaged} event(s) in them whole" if scan.salvaged else ""
        reason = f"the last {size} bytes are torn and were never acknowledged{whole}"
        if holder is not None:
            reason = f"{holder} is writing the last {size} bytes"
        line = stored.next_seq - scan.salvaged + 2
        rule = "torn-tail" if holder is None else "in-flight"
        yield found(rule, file.path, reason, offset=scan.torn.offset, line=line, seq=line - 2)
    elif holder is not None:
        yield found("in-use", file.path, f"{holder} holds the session")
    yield from _protection(file, protected=stored.protected)
    yield from _index(file, scan)
    turn = _open_turn(stored) if holder is None else None
    if turn is not None:
        yield found(
            "open-turn", file.path, "a turn was interrupted; a resume closes it", line=turn.seq + 2, seq=turn.seq
        )


def _protection(file: LogFile, *, protected: bool) -> Iterator[Finding]:
    if not protected:
        yield found("unprotected", file.path, "no checksums guard its rows; its mark vouches for them as one")
    mark = read_mark(file.path)
    if mark is None:
        there = os.path.lexists(mark_path(file.path))
        reason = "its mark says nothing that is intact" if there else "it has no mark"
        yield found("mark-missing", file.path, f"{reason}; damage to its end passes for a torn write")
        return
    with opened(file) as (fd, _):
        if protected and digest_of(fd, mark.length).digest() != mark.digest:
            reason = f"its first {mark.length} bytes are not those that were acknowledged, and yet intact; a copy?"
            yield found("mark-differs", file.path, reason)


def _index(file: LogFile, scan: Scan) -> Iterator[Finding]:
    """Compare the index with the frames; one that lags behind is none the worse, a raw log's is not looked at."""
    if file.encoding == "raw":
        return
    try:
        index = IndexReader(file.path)
    except OSError:
        return
    try:
        known = set(zip(scan.blocks.first_seqs, scan.blocks.begins, strict=True))
        wrong = [record for record in index.records() if record not in known]
    finally:
        index.close()
    if wrong:
        first_seq, offset = wrong[0]
        reason = f"it says that a frame at byte {offset} begins with seq {first_seq}; reading does without it"
        yield found("index-stale", index_path(file.path), reason)


def _open_turn(stored: StoredPrefix) -> SessionEvent | None:
    """Return the start of the turn the log ends in, looked for from its end."""
    events = stored.events
    for end in range(len(events), 0, -_STEP_EVENTS):
        for event in reversed(events[max(0, end - _STEP_EVENTS) : end]):
            if event.type in ("turn/start", "turn/end"):
                return event if event.type == "turn/start" else None
    return None


def _deep(file: LogFile, scan: Scan, stored: StoredPrefix) -> Iterator[Finding]:
    """Read every row, and say what breaks a rule. Raises ``SessionCorrupt`` for a row that is none."""
    try:
        stored.events.validate(stored.header)
    except EventRefused as refused:
        if refused.seq is None:
            yield found("rules", file.path, refused.reason)
            return
        frame, offset = _place_in(file, scan, refused.seq)
        unknown = refused.type not in generations.KNOWN_TYPES
        rule, reason = "event-unknown" if unknown else "rules", f"{refused.type}: {refused.reason}"
        yield found(rule, file.path, reason, offset=offset, frame=frame, line=refused.seq + 2, seq=refused.seq)


def _place_in(file: LogFile, scan: Scan, seq: int) -> tuple[int | None, int | None]:
    """Return the frame that holds an event and its offset, in a raw log the offset of the row."""
    if not len(scan.blocks) or seq >= scan.log.next_seq - scan.salvaged:
        return None, scan.end
    block = scan.blocks.holding(seq)
    offset = scan.blocks.begins[block]
    if file.encoding == "zstd":
        return block + 1, offset
    before = scan.blocks.stored(block).split(b"\n")[: seq - scan.blocks.first_seqs[block]]
    return None, offset + sum(len(line) + 1 for line in before)
