"""Durable appends of one event of 1 KB, in bare syncs of the same run."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from dsh_persistence import SessionPersistence
from dsh_persistence_jsonl import JsonlLogStore
from dsh_session import EncodedBatch, Session, SessionEvent, SessionHeader, encode_data

from .contest import Arena, Figure

BYTES = 1 << 10
APPENDS = 100
"""How many appends a turn makes; it yields their median."""
TYPE = "plugin:bench/note"


def durable(arena: Arena, folder: Path) -> Iterable[Figure]:
    """Measure the median of awaited appends: by the writer, and through the coordinator and its thread."""
    data = {"note": "x" * (BYTES - 110)}
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
            seq = next(seqs)
            event = SessionEvent(type=TYPE, seq=seq, time=0, encoded=encode_data(TYPE, data), ignorable=True)
            writer.append(EncodedBatch(first_seq=seq, events=(event,)))

        async def open_persistence() -> SessionPersistence:
            persistence = SessionPersistence(JsonlLogStore(root / "coordinator"))
            persistence.attach(session)
            return persistence

        async def flush() -> float:
            taken: list[float] = []
            for _ in range(APPENDS):
                start = time.perf_counter()
                session.append(TYPE, data)
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
                rounds=9,
                warm_up=True,
            )
        finally:
            runner.run(persistence.close())
            writer.close()
            os.close(bare)
    base = f"write + fdatasync of 1 KB, {samples.median('bare') * 1e6:.0f} µs (p50)"
    yield Figure(what="LogWriter.append", value=samples.ratio("writer", "bare"), unit="x", against=base)
    yield Figure(what="Session.append + flush", value=samples.ratio("coordinator", "bare"), unit="x", against=base)


def _median(work: Callable[[], None]) -> float:
    taken: list[float] = []
    for _ in range(APPENDS):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)
