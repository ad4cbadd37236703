"""The logs that are measured, written once, through the store, and then kept."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from dsh_persistence_jsonl import JsonlLogStore
from dsh_session import EncodedBatch, SessionHeader

from . import story
from .contest import say
from .story import BEGUN_AT, TURN_EVENTS, TURN_SURFACE_EVENTS, Story

FRAME_EVENTS = 20
PROJECTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How many events the long logs have, and how many sessions there are to list."""

    big: int
    middle: int
    small: int
    sessions: int


FULL = Sizes(big=1_000_000, middle=200_000, small=10_000, sessions=10_000)
QUICK = Sizes(big=40_000, middle=20_000, small=2_000, sessions=500)


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One stored log."""

    store: JsonlLogStore
    id: str
    events: int
    path: Path

    @property
    def surface_events(self) -> int:
        """How many of the events are the conversation."""
        return self.events // TURN_EVENTS * TURN_SURFACE_EVENTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """Everything that is measured."""

    folder: Path
    """Where they lie, and whatever else is written once with the same content."""
    big: Log
    middle: Log
    middle_plain: Log
    """The middle log alone, without the files that the writer kept beside it."""
    small: Log
    sessions: JsonlLogStore
    raw_sessions: list[str]
    """The same sessions as raw files, by their known paths."""


def prepare(folder: Path, sizes: Sizes, *, fresh: bool) -> Logs:
    """Return the logs of these sizes, writing those that are not there; ``fresh`` writes all of them anew."""
    recipe = hashlib.sha256(Path(__file__).read_bytes() + Path(story.__file__).read_bytes()).hexdigest()[:12]
    folder /= recipe
    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
    middle = _log(folder, sizes.middle)
    raw = _sessions(folder / f"raw-{sizes.sessions}", sizes.sessions, "raw")
    return Logs(
        folder=folder,
        big=_log(folder, sizes.big),
        middle=middle,
        middle_plain=_alone(middle, folder / f"plain-{sizes.middle}"),
        small=_log(folder, sizes.small),
        sessions=JsonlLogStore(_sessions(folder / f"zstd-{sizes.sessions}", sizes.sessions, "zstd")),
        raw_sessions=sorted(map(str, raw.rglob("*.jsonl"))),
    )


def numbered(number: int) -> SessionHeader:
    """Return the header of a session by its number; the projects have equal shares."""
    digits = hashlib.sha256(str(number).encode()).hexdigest()
    id = f"session-{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-8{digits[15:18]}-{digits[18:30]}"
    return SessionHeader(id=id, created_at=BEGUN_AT + number, cwd=f"/srv/projects/service-{number % PROJECTS}")


def _log(folder: Path, count: int) -> Log:
    header = numbered(count)

    def write(root: Path) -> None:
        say(f"writing a log of {count} events")
        events = Story(seed=count).events(count)
        with JsonlLogStore(root, encoding="zstd").create(header) as writer:
            while frame := tuple(islice(events, FRAME_EVENTS)):
                writer.append(EncodedBatch(first_seq=frame[0].seq, events=frame))

    store = JsonlLogStore(once(folder / f"log-{count}", write))
    return Log(store=store, id=header.id, events=count, path=Path(store.locate(header).path))


def _alone(log: Log, root: Path) -> Log:
    place = log.path.relative_to(log.store.root)

    def write(root: Path) -> None:
        (root / place).parent.mkdir(parents=True)
        shutil.copy2(log.path, root / place)

    return Log(store=JsonlLogStore(once(root, write)), id=log.id, events=log.events, path=root / place)


def _sessions(root: Path, count: int, encoding: Literal["zstd", "raw"]) -> Path:
    """Return a root of sessions with one short turn each."""
    turn = tuple(Story(seed=count).events(FRAME_EVENTS, turn_events=FRAME_EVENTS))

    def write(root: Path) -> None:
        store = JsonlLogStore(root, encoding=encoding)
        for number in range(count):
            if number % 1_000 == 0:
                say(f"writing {count} {encoding} sessions, at {number}")
            with store.create(numbered(number)) as writer:
                writer.append(EncodedBatch(first_seq=0, events=turn))

    return once(root, write)


def once(root: Path, write: Callable[[Path], None]) -> Path:
    """Return the root, written if it is not there; a run that is stopped leaves no part of one."""
    if not root.exists():
        part = root.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.parent.mkdir(parents=True, exist_ok=True)
        write(part)
        part.rename(root)
    return root
