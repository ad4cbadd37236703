"""`python -m crash.check`: judges what a crash left, against what had been acknowledged by then.

A server: for each line `{"state": FOLDER, "stdout": FILE}` on its standard input it prints a line that begins with
`ok` or `fail`. The folder is looked at, which must change nothing, and then a copy of it is opened, repaired and
continued, which must work and be sound.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from dsh_persistence import PersistenceError, SessionCorrupt, SessionPersistence, StoredPrefix
from dsh_persistence_jsonl import JsonlLogStore
from dsh_session import LogState, SessionEvent, repair_closers

from .stores import Store, holds_database, open_database
from .story import Story, lived, stop_the_clock

_examined: dict[tuple[bytes, bool], int] = {}
_databases: dict[bytes, Counter[str]] = {}
"""What was found before is known by its bytes."""
_TAIL = re.compile(r"torn ([\w.-]+) (\d+) ([0-9a-f]{32})")
_ACKNOWLEDGEMENT = re.compile(r"([\w.-]+) (\d+)")


class Unsound(Exception):
    """A promise that does not hold; the message begins with its number in docs/durability.md."""


class Tail(NamedTuple):
    """What a repair was about to cut."""

    session_id: str
    offset: int
    digest: str


class Expected(NamedTuple):
    """What may stand in one session's log."""

    events: Callable[[int], Sequence[SessionEvent]]
    """Gives that many events, or as many as there are."""
    is_end: Callable[[int], bool]
    """Whether whole batches end at a seq."""
    story: Story | None


@cache
def _lived() -> tuple[dict[str, list[SessionEvent]], dict[str, set[int]]]:
    return lived()


@cache
def expected_of(session_id: str) -> Expected:
    """Return what a session's workload may have written."""
    if not session_id.startswith("live-"):
        story = Story(session_id)
        return Expected(story.events, story.is_end_of_batch, story)
    events, ends = _lived()
    return Expected(lambda count: events[session_id][:count], lambda seq: seq in ends[session_id], None)


def acknowledged(stdout: str) -> Counter[str]:
    """Return up to which seq each session was promised; a line that was cut counts for nothing."""
    promised: Counter[str] = Counter()
    for line in stdout.splitlines(keepends=True):
        found = _ACKNOWLEDGEMENT.fullmatch(line.removesuffix("\n"))
        if found and line.endswith("\n"):
            promised[found[1]] = max(promised[found[1]], int(found[2]))
    return promised


def announced(stdout: str) -> list[Tail]:
    """Return the tails that were to be cut."""
    found = map(_TAIL.fullmatch, stdout.splitlines())
    return [Tail(match[1], int(match[2]), match[3]) for match in found if match]


def judge(state: Path, promised: Counter[str], tails: Sequence[Tail] = ()) -> None:
    """Look at a folder, and mend copies of its sessions. Raises ``Unsound``."""
    held = examine_database(state) if holds_database(state) else examine_files(state, promised, tails)
    for session_id, seq in promised.items():
        if held[session_id] < seq:
            raise Unsound(f"G1: {seq} events of {session_id} were acknowledged, {held[session_id]} are there")


def examine_database(state: Path) -> Counter[str]:
    """Read and mend every session of a database and begin another; return how many events each had.

    That is done to a copy: a database may mend itself as soon as it is opened.
    """
    known = _digest(state)
    if known not in _databases:
        with tempfile.TemporaryDirectory(dir=state.parent) as other:
            copy = Path(other) / "copy"
            shutil.copytree(state, copy, symlinks=True)
            store = open_database(copy)
            held: Counter[str] = Counter()
            for entry in list(store.list()):
                if entry.header is None:
                    raise Unsound(f"G4: listed as damaged: {entry.problem}")
                stored = look(store, entry.header.id)
                held[entry.header.id] = stored.next_seq
                mend(store, entry.header.id, stored)
            begin_another(store)
            store.close()
        _databases[known] = held
    return _databases[known]


def begin_another(store: Store) -> None:
    """A new session has to find room beside the others."""
    story = Story("new-a")
    with store.create(story.header) as writer:
        batch = story.batch_at(0)
        writer.append(batch)
    if list(store.read(story.header.id).events) != story.events(batch.next_seq):
        raise Unsound("G10: a new session is not as it was written")


def examine_files(state: Path, promised: Counter[str], tails: Sequence[Tail]) -> Counter[str]:
    """Read every session of a root and mend copies of them; return how many events each had."""
    before = picture(state)
    store = JsonlLogStore(state)
    held: Counter[str] = Counter()
    for entry in store.list():
        if entry.header is None:
            raise Unsound(f"G4: listed as damaged: {entry.problem}")
        if store.locate(entry.header) != entry.location:
            raise Unsound("G9: locate and list do not agree")
        folder = Path(entry.location.path).parent
        held[entry.header.id] = examine(state, entry.header.id, folder, acknowledged=promised[entry.header.id] > 0)
        require_tails(Path(entry.location.path), [tail for tail in tails if tail.session_id == entry.header.id])
    if picture(state) != before:
        raise Unsound("G9: looking changed the folder")
    return held


def require_tails(log: Path, tails: Sequence[Tail]) -> None:
    """What was to be cut has to be in the log still, or saved."""
    kept = [path.read_bytes() for path in log.parent.glob(f"{log.name}.torn-*")]
    for _, offset, digest in tails:
        places = [log.read_bytes()[offset:], *kept]
        if all(hashlib.blake2b(place, digest_size=16).hexdigest() != digest for place in places):
            raise Unsound(f"G6: the tail that was cut at {offset} is neither in the log nor saved")


def examine(root: Path, session_id: str, folder: Path, *, acknowledged: bool) -> int:
    """Read and mend one session; return how many events it holds. What was examined before is known by its bytes."""
    known = _digest(folder), acknowledged
    if known not in _examined:
        with tempfile.TemporaryDirectory(dir=root.parent) as other:
            copy = Path(other) / folder.relative_to(root)
            shutil.copytree(folder, copy, symlinks=True)
            try:
                stored = look(JsonlLogStore(root), session_id)
            except SessionCorrupt as refusal:
                _cut_as_allowed(copy, refusal)
                stored = look(JsonlLogStore(other), session_id)
            if acknowledged and stored.protected and stored.torn is None:
                _require_mark(JsonlLogStore(other), stored)
            mend(JsonlLogStore(other), session_id, stored)
        _examined[known] = stored.next_seq
    return _examined[known]


def _require_mark(store: JsonlLogStore, stored: StoredPrefix) -> None:
    """Whatever follows what was acknowledged is a torn tail, even bytes that are no frame: the mark has to be there."""
    log = Path(store.locate(stored.header).path)
    size = log.stat().st_size
    with log.open("ab") as file:
        file.write(b"\xff" * 16)
    if store.read(stored.header.id).next_seq != stored.next_seq:
        raise Unsound("G4: junk behind the last frame costs events")
    os.truncate(log, size)


def _cut_as_allowed(folder: Path, refusal: SessionCorrupt) -> None:
    """Cut a raw log where its reader stopped; any other log must not be refused.

    Above its mark a raw log is read as ``dsh`` reads it: a bad row is damage where an intact turn end follows it, which
    a torn write of several rows can look like. What was acknowledged has to stand before it.
    """
    log = folder / Path(refusal.path).name
    rest = log.read_bytes()[refusal.offset or 0 :]
    if log.suffix == ".zstd" or not refusal.offset or b'\n{"type":"turn/end",' not in rest:
        raise refusal
    os.truncate(log, refusal.offset)
    with Path(os.environ.get("CRASH_REFUSALS", os.devnull)).open("a") as refusals:
        refusals.write(f"{refusal}\n")


def _digest(folder: Path) -> bytes:
    state = hashlib.blake2b(str(folder.name).encode(), digest_size=16)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        state.update(f"{path.relative_to(folder)} {path.stat().st_mode:o} {len(content)}\n".encode() + content)
    return state.digest()


def look(store: Store, session_id: str) -> StoredPrefix:
    """Read a session in every way, and compare it with what it may be."""
    stored = store.read(session_id)
    events = list(stored.events)
    compare(session_id, events, whole_batches=stored.protected)
    if list(store.scan(session_id)) != events:
        raise Unsound("G2: scan and read do not agree")
    half = len(events) // 2
    if list(store.read(session_id, from_seq=half).events) != events[half:]:
        raise Unsound("G2: a suffix and the whole do not agree")
    return stored


def compare(session_id: str, events: Sequence[SessionEvent], *, whole_batches: bool) -> None:
    """Hold a log's events against its story, and perhaps the closers after it."""
    expected = expected_of(session_id)
    story = expected.events(len(events))
    pairs = zip(events, story, strict=False)
    same = next((at for at, (found, told) in enumerate(pairs) if found != told), len(story))
    added, due = tuple(events[same:]), closers(events[:same])
    if added and added != due[: len(added)]:
        raise Unsound(f"G2: event {same} of {session_id} is one that nobody submitted")
    if whole_batches and not (expected.is_end(same) and added in ((), due)):
        raise Unsound(f"G3: {session_id} ends inside a batch, with seq {len(events)}")


def closers(events: Sequence[SessionEvent]) -> tuple[SessionEvent, ...]:
    """Return what closes the turn in which these events end."""
    state = LogState()
    state.feed_all(events)
    return repair_closers(state)


def mend(store: Store, session_id: str, before: StoredPrefix) -> None:
    """Open a session as its next writer would, go on with it, and have the coordinator load it twice."""
    tail = b"" if before.torn is None else Path(before.source).read_bytes()[before.torn.offset :]
    story = expected_of(session_id).story
    events = list(before.events)
    if story is not None and events == story.events(len(events)):
        with store.open(session_id) as writer:
            repair = writer.repair()
            if (repair is not None) != bool(tail) or writer.next_seq != before.next_seq:
                raise Unsound(f"G7: a repair kept {writer.next_seq} events of {before.next_seq}, with {repair}")
            if repair is not None and writer.repair() is not None:
                raise Unsound("G7: a second repair found something")
            batch = story.batch_at(writer.next_seq)
            writer.resend(batch)
        events = story.events(batch.next_seq)
        if list(store.read(session_id).events) != events:
            raise Unsound("G10: what was appended after the crash is not there")
    first, second = asyncio.run(_load_twice(store, session_id))
    if first != second:
        raise Unsound("G8: a second load changed the log")
    if list(store.read(session_id).events) != [*events, *closers(events)]:
        raise Unsound("G8: a load did not close the interrupted turn, or more than that")
    if tail.strip(b"\0"):
        log = Path(store.read(session_id).source)
        saved = [
            path.read_bytes() for path in log.parent.glob(f"{log.name}.torn-*") if path.stat().st_mode & 0o777 == 0o600
        ]
        if tail not in saved:
            raise Unsound(f"G6: what was cut is in none of {len(saved)} private files")


async def _load_twice(store: Store, session_id: str) -> list[str]:
    found = []
    for _ in range(2):
        async with SessionPersistence(store) as persistence:
            await persistence.load(session_id)
        found.append(store.read(session_id).revision)
    return found


def picture(root: Path) -> dict[str, tuple[int, ...]]:
    """Return the mode, size and time of everything below a folder; the harness compares the bytes."""
    paths = [root, *root.rglob("*")]
    return {str(path): ((s := path.lstat()).st_mode, s.st_size, s.st_mtime_ns, s.st_ino) for path in paths}


def verdict(state: str, stdout: str) -> str:
    """Return ``ok``, or ``fail`` and why."""
    try:
        said = Path(stdout).read_text(errors="replace")
        judge(Path(state), acknowledged(said), announced(said))
    except Unsound as error:
        return f"fail: {error}"
    except (PersistenceError, OSError, ValueError, AssertionError) as error:
        return f"fail: G4: {type(error).__name__}: {error}".replace("\n", " ")
    return "ok"


def main() -> None:
    """Answer until the input ends."""
    stop_the_clock()
    for line in sys.stdin:
        print(verdict(**json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
