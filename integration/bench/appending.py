"""Single durable appends of one event of 1 KB, in bare syncs of the same run, and what a long log adds to them."""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from dsh_persistence import SessionPersistence
from dsh_persistence_jsonl import JsonlLogStore, JsonlLogWriter
from dsh_session import EncodedBatch, Session, SessionEvent, SessionHeader, encode_data

from .contest import Arena, Figure
from .logs import Log, Logs

BYTES = 1 << 10
APPENDS = 100
"""How many appends a turn makes; it yields their median."""
TYPE = "plugin:bench/note"
DATA = {"note": "x" * (BYTES - 110)}
_TMPFS = Path("/dev/shm")  # what it costs without a disk is asked, in a folder of its own


def durable(arena: Arena, folder: Path) -> Iterable[Figure]:
    """Measure the median of awaited appends: by the writer, and through the coordinator and its thread."""
    with TemporaryDirectory(dir=folder, prefix="append-") as scratch, asyncio.Runner() as runner:
        root = Path(scratch)
        bare = os.open(root / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        writer = JsonlLogStore(root / "writer").create(SessionHeader.new(cwd="/srv/project"))
        session = Session(SessionHeader.new(cwd="/srv/project"))
        seqs = count()

        def sync() -> None:
            os.write(bare, b"x" * BYTES)
            os.fdatasync(bare)

        def append() -> None:
            writer.append(one_event(next(seqs)))

        async def open_persistence() -> SessionPersistence:
            persistence = SessionPersistence(JsonlLogStore(root / "coordinator"))
            persistence.attach(session)
            return persistence

        async def flush() -> float:
            taken: list[float] = []
            for _ in range(APPENDS):
                start = time.perf_counter()
                session.append(TYPE, DATA)
                await persistence.flush(session.id)
                taken.append(time.perf_counter() - start)
            return statistics.median(taken)

        persistence = runner.run(open_persistence())
        try:
            samples = arena.hold(
                "appending",
                {
                    "bare": lambda: _median(sync),
                    "writer": lambda: _median(append),
                    "coordinator": lambda: runner.run(flush()),
                },
                rounds=15,
                warm_up=True,
            )
        finally:
            runner.run(persistence.close())
            writer.close()
            os.close(bare)
    base = f"write + fdatasync of 1 KB, {samples.median('bare') * 1e6:.0f} µs (p50)"
    yield Figure(what="LogWriter.append", value=samples.ratio("writer", "bare"), unit="x", against=base, most=1.5)
    through = samples.ratio("coordinator", "bare")
    yield Figure(what="Session.append + flush", value=through, unit="x", against=base, most=2.4)


def grown(arena: Arena, logs: Logs) -> Iterable[Figure]:
    """Measure what an append costs behind a long log and behind a short one, on a file system without a disk."""
    if not os.access(_TMPFS, os.W_OK):
        return
    with TemporaryDirectory(dir=_TMPFS, prefix="dsh-bench-") as scratch:
        long, short = (_reopened(log, Path(scratch) / name) for name, log in (("l", logs.big), ("s", logs.small)))
        try:
            turns = {
                "long": lambda: _median(lambda: long.append(one_event(long.next_seq))),
                "short": lambda: _median(lambda: short.append(one_event(short.next_seq))),
            }
            samples = arena.hold("appending to grown logs", turns, rounds=41, warm_up=True)
        finally:
            long.close()
            short.close()
    sizes = f"{logs.big.events:,} events against {logs.small.events:,}"
    base = f"{samples.median('short') * 1e6:.0f} µs on tmpfs"
    yield Figure(what=f"append, {sizes}", value=samples.ratio("long", "short"), unit="x", against=base, most=1.1)


def one_event(seq: int) -> EncodedBatch:
    """Return a batch of one event of 1 KB."""
    event = SessionEvent(type=TYPE, seq=seq, time=0, encoded=encode_data(TYPE, DATA), ignorable=True)
    return EncodedBatch(first_seq=seq, events=(event,))


def _reopened(log: Log, root: Path) -> JsonlLogWriter:
    """Open a copy of a log for writing, past its first append, which reads it once more for the mark."""
    shutil.copytree(log.store.root, root)
    writer = JsonlLogStore(root).open(log.id)
    writer.append(one_event(writer.next_seq))
    return writer


def _median(work: Callable[[], object]) -> float:
    taken: list[float] = []
    for _ in range(APPENDS):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)
