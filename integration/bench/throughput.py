"""How many durable events a second: awaited singly, in turns of 20, pipelined, and in many sessions at a time.

The contestants are a plain writer of JSON lines that syncs, and the SQLite session store of `openai-agents`, which
syncs each `add_items` as well.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from agents import SQLiteSession

from dsh_persistence import SessionPersistence
from dsh_persistence._threads import WriterThreads
from dsh_persistence_jsonl import JsonlLogStore, JsonlLogWriter
from dsh_session import EncodedBatch, Session, SessionEvent, SessionHeader, encode_data

from .appending import DATA, TYPE, one_event
from .contest import Arena, Figure, clock, require

if TYPE_CHECKING:
    from agents import TResponseInputItem

AWAITED = 200
"""Events of a turn in which each is awaited."""
TURN_EVENTS = 20
TURNS = 40
PIPELINED = 5_000
FLUSH_EVERY = 1_000
SESSIONS = 16
EACH = 20
"""Events of each of the many sessions."""
SYNCS_PER_10_000 = 20


class Plain:
    """A writer of JSON lines as anybody would write it, and durable."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def append(self, events: Iterable[object]) -> None:
        """Write a line for each, and sync."""
        for event in events:
            self._file.write(json.dumps(event) + "\n")
        self._file.flush()
        os.fdatasync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class OnTheLoop(WriterThreads):
    """No threads: the coordinator makes every write, and so waits for every sync, on the loop."""

    def _start_thread(self) -> None:
        pass


class Desk:
    """One of each contestant, over a folder of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sqlite = SQLiteSession("session", root / "sessions.db")
        self.plain = Plain(root / "plain.jsonl")
        self.writer = self.new_writer("writer")
        self.persistence = SessionPersistence(JsonlLogStore(root / "coordinator"))
        self.session = self.new_session()

    def new_writer(self, name: str) -> JsonlLogWriter:
        """Return a writer of a new log in a root of that name."""
        return JsonlLogStore(self.root / name).create(SessionHeader.new(cwd="/srv/project"))

    def new_session(self, persistence: SessionPersistence | None = None) -> Session:
        """Return a new session that a coordinator follows, by default the desk's."""
        session = Session(SessionHeader.new(cwd="/srv/project"))
        (persistence or self.persistence).attach(session)
        return session

    async def close(self) -> None:
        """Close all of them."""
        await self.persistence.close()
        self.writer.close()
        self.plain.close()
        self.sqlite.close()


def durable(arena: Arena, folder: Path) -> Iterable[Figure]:
    """Measure all four."""
    with TemporaryDirectory(dir=folder, prefix="throughput-") as scratch, asyncio.Runner() as runner:
        desk = runner.run(_open(Path(scratch)))
        try:

            def timed(work: Callable[[], Awaitable[None]]) -> Callable[[], float]:
                async def run() -> None:
                    await work()

                return lambda: clock(lambda: runner.run(run()))

            yield from _awaited(arena, desk, timed)
            yield from _turns(arena, desk, timed)
            yield from _pipelined(arena, desk, timed)
            yield from _many(arena, desk, timed)
        finally:
            runner.run(desk.close())


Timed = Callable[[Callable[[], Awaitable[None]]], Callable[[], float]]


def _awaited(arena: Arena, desk: Desk, timed: Timed) -> Iterable[Figure]:
    async def sqlite() -> None:
        for _ in range(AWAITED):
            await desk.sqlite.add_items(_items(1))

    async def coordinator() -> None:
        for _ in range(AWAITED):
            desk.session.append(TYPE, DATA)
            await desk.persistence.flush(desk.session.id)

    def writer() -> None:
        for _ in range(AWAITED):
            desk.writer.append(one_event(desk.writer.next_seq))

    contestants = {"sqlite": timed(sqlite), "coordinator": timed(coordinator), "writer": lambda: clock(writer)}
    samples = arena.hold("awaiting", contestants, rounds=11, warm_up=True)
    against = f"SQLiteSession.add_items, {AWAITED / samples.median('sqlite'):,.0f} events/s"
    for name, least in (("writer", 1.5), ("coordinator", 1.0)):
        ratio = samples.ratio("sqlite", name)
        yield Figure(what=f"events/s, awaited, {name}", value=ratio, unit="x", against=against, least=least)


def _turns(arena: Arena, desk: Desk, timed: Timed) -> Iterable[Figure]:
    async def sqlite() -> None:
        for _ in range(TURNS):
            await desk.sqlite.add_items(_items(TURN_EVENTS))

    async def coordinator() -> None:
        for _ in range(TURNS):
            for _ in range(TURN_EVENTS):
                desk.session.append(TYPE, DATA)
            await desk.persistence.flush(desk.session.id)

    def writer() -> None:
        for _ in range(TURNS):
            desk.writer.append(batch_of(desk.writer.next_seq, TURN_EVENTS))

    def plain() -> None:
        for _ in range(TURNS):
            desk.plain.append({"type": TYPE, "time": 0, "data": DATA} for _ in range(TURN_EVENTS))

    contestants = {
        "sqlite": timed(sqlite),
        "coordinator": timed(coordinator),
        "writer": lambda: clock(writer),
        "plain": lambda: clock(plain),
    }
    samples = arena.hold("in turns", contestants, rounds=11, warm_up=True)
    events = TURNS * TURN_EVENTS
    lines = f"JSON lines + fdatasync, {events / samples.median('plain'):,.0f} events/s"
    store = f"SQLiteSession.add_items, {events / samples.median('sqlite'):,.0f} events/s"
    for name, targets in (("writer", (1.05, 2.0)), ("coordinator", (None, None))):
        what = f"events/s, turns of {TURN_EVENTS}, {name}"
        for base, against, least in (("plain", lines, targets[0]), ("sqlite", store, targets[1])):
            yield Figure(what=what, value=samples.ratio(base, name), unit="x", against=against, least=least)


def _pipelined(arena: Arena, desk: Desk, timed: Timed) -> Iterable[Figure]:
    syncs: list[int] = []
    real = os.fdatasync

    async def awaited() -> None:
        for _ in range(AWAITED):
            desk.session.append(TYPE, DATA)
            await desk.persistence.flush(desk.session.id)

    async def pipelined() -> None:
        counted = 0

        def count(fd: Any) -> None:
            nonlocal counted
            counted += 1
            real(fd)

        os.fdatasync = count
        try:
            for _ in range(PIPELINED // FLUSH_EVERY):
                for _ in range(FLUSH_EVERY):
                    desk.session.append(TYPE, DATA)
                await desk.persistence.flush(desk.session.id)
        finally:
            os.fdatasync = real
        syncs.append(counted)

    contestants = {"awaited": timed(awaited), "pipelined": timed(pipelined)}
    samples = arena.hold("pipelining", contestants, rounds=9, warm_up=True)
    ratio = samples.ratio("awaited", "pipelined") * PIPELINED / AWAITED
    against = f"the same, each awaited, {AWAITED / samples.median('awaited'):,.0f} events/s"
    yield Figure(what=f"events/s, a flush every {FLUSH_EVERY:,}", value=ratio, unit="x", against=against, least=12)
    most = max(syncs) * 10_000 / PIPELINED
    yield Figure(what="syncs for 10,000 of them", value=most, unit="", against="counted", most=SYNCS_PER_10_000)


def _many(arena: Arena, desk: Desk, timed: Timed) -> Iterable[Figure]:
    inline = SessionPersistence(JsonlLogStore(desk.root / "inline"))
    inline._writers = OnTheLoop()
    sessions: dict[SessionPersistence, list[Session]] = {desk.persistence: [], inline: []}
    with ExitStack() as stack:
        writers = [stack.enter_context(desk.new_writer("many")) for _ in range(SESSIONS)]

        def through(persistence: SessionPersistence) -> Callable[[], Awaitable[None]]:
            async def one(session: Session) -> None:
                for _ in range(EACH):
                    session.append(TYPE, DATA)
                    await persistence.flush(session.id)

            async def all_of_them() -> None:
                mine = sessions[persistence]
                mine.extend(desk.new_session(persistence) for _ in range(SESSIONS - len(mine)))
                await asyncio.gather(*map(one, mine))

            return all_of_them

        async def bare() -> None:
            async def one(writer: JsonlLogWriter) -> None:
                for _ in range(EACH):
                    writer.append(one_event(writer.next_seq))
                    await asyncio.sleep(0)

            await asyncio.gather(*map(one, writers))

        contestants = {
            "threads": timed(through(desk.persistence)),
            "loop": timed(through(inline)),
            "bare": timed(bare),
        }
        samples = arena.hold("many sessions", contestants, rounds=15, warm_up=True)
        timed(inline.close)()
    what = f"events/s, {SESSIONS} sessions awaiting"
    for name, who, least in (("loop", "the same coordinator", 1.4), ("bare", "bare writers", None)):
        rate = SESSIONS * EACH / samples.median(name)
        against = f"{who}, syncing on the loop, {rate:,.0f} events/s"
        yield Figure(what=what, value=samples.ratio(name, "threads"), unit="x", against=against, least=least)
    for mine in sessions.values():
        require(SESSIONS, sum(session.next_seq > 0 for session in mine), "sessions written")


async def _open(root: Path) -> Desk:
    return Desk(root)


def batch_of(first_seq: int, count: int) -> EncodedBatch:
    """Return a batch of events of 1 KB."""
    events = (
        SessionEvent(type=TYPE, seq=first_seq + step, time=0, encoded=encode_data(TYPE, DATA), ignorable=True)
        for step in range(count)
    )
    return EncodedBatch(first_seq=first_seq, events=tuple(events))


def _items(count: int) -> list[TResponseInputItem]:
    item = {"role": "user", "content": DATA["note"]}
    return [cast("TResponseInputItem", item) for _ in range(count)]
