"""What a database costs: commits against the drivers alone and against others' stores, reading, and listing.

Batches are made before the clock starts, for both sides; hashing, checking and storing them is on it.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from services.postgres import Unavailable, serve

from dsh_persistence import LogWriter, SessionPersistence
from dsh_persistence_sqlite import SqlLogStore
from dsh_session import EncodedBatch, Session, SessionHeader

from .appending import DATA, TYPE
from .contest import Arena, Figure, clock, require, say
from .logs import FRAME_EVENTS, Logs, numbered, once
from .peers import GoogleADK, OpenAIAgents, Peer, Raw, RawPostgres, Row
from .reading import SHORT_TURNS, SUFFIX
from .story import Story
from .throughput import batch_of

COMMITS = 200
TURN_EVENTS = 20
TURNS = 40
AWAITED = 100
"""Events of a turn of those who have an event loop."""
SESSIONS = 16
EACH = 20
"""Commits of each of the many sessions, or of the group of them."""
WRITTEN_AT_ONCE = 1_000


def commits(arena: Arena, folder: Path, logs: Logs) -> Iterable[Figure]:
    """Measure everything over SQLite, and commits over PostgreSQL where there is a server."""
    with TemporaryDirectory(dir=folder, prefix="database-") as scratch, asyncio.Runner() as runner:
        root = Path(scratch)
        yield from _sqlite(arena, root)
        yield from _peers(arena, root, runner)
        yield from _groups(arena, SqlLogStore(url_of(root / "groups.db")), "SQLite", least=3)
        yield from _many(arena, root, runner)
        yield from _postgres(arena)
    yield from _suffix(arena, logs)
    yield from _listing(arena, logs)


def url_of(path: Path) -> str:
    """Return the URL of a SQLite file."""
    return f"sqlite:///{path}"


def _sqlite(arena: Arena, root: Path) -> Iterable[Figure]:
    with (
        closing(Raw(root / "raw.db")) as raw,
        closing(SqlLogStore(url_of(root / "ours.db"))) as store,
        store.create(numbered(0)) as writer,
    ):
        yield from _against_raw(arena, raw, writer, "SQLite", most={1: 1.5, TURN_EVENTS: 1.2})


def _against_raw(
    arena: Arena, raw: Raw | RawPostgres, writer: LogWriter, database: str, *, most: Mapping[int, float]
) -> Iterable[Figure]:
    rows = _rows()
    for events, count in ((1, COMMITS), (TURN_EVENTS, TURNS)):

        def ours(events: int = events, count: int = count) -> float:
            batches = list(_batches(writer.next_seq, events, count))
            return clock(lambda: [writer.append(batch) for batch in batches])

        def theirs(events: int = events, count: int = count) -> float:
            batches = [list(islice(rows, events)) for _ in range(count)]
            return clock(lambda: [raw.append(batch) for batch in batches])

        samples = arena.hold(f"{database}, commits of {events}", {"raw": theirs, "ours": ours}, rounds=15, warm_up=True)
        base = f"the driver alone, the same events in a plain table, {samples.median('raw') / count * 1e6:.0f} µs each"
        what = f"{database}, durable commit of {events}"
        yield Figure(what=what, value=samples.ratio("ours", "raw"), unit="x", against=base, most=most.get(events))


def _peers(arena: Arena, root: Path, runner: asyncio.Runner) -> Iterable[Figure]:
    session = Session(SessionHeader.new(cwd="/srv/project"))

    async def attach() -> SessionPersistence:
        persistence = SessionPersistence(SqlLogStore(url_of(root / "coordinator.db")))
        persistence.attach(session)
        return persistence

    async def coordinator() -> None:
        for _ in range(AWAITED):
            session.append(TYPE, DATA)
            await persistence.flush(session.id)

    def turn_of(peer: Peer) -> Callable[[], float]:
        async def work() -> None:
            for seq in range(AWAITED):
                await peer.append(seq=seq, note=DATA["note"])

        return lambda: clock(lambda: runner.run(work()))

    peers = _open_peers(root, runner)
    persistence = runner.run(attach())
    try:
        with closing(SqlLogStore(url_of(root / "writer.db"))) as store, store.create(numbered(1)) as writer:

            def own() -> float:
                batches = list(_batches(writer.next_seq, 1, AWAITED))
                return clock(lambda: [writer.append(batch) for batch in batches])

            contestants = {"writer": own, "coordinator": lambda: clock(lambda: runner.run(coordinator()))}
            contestants |= {peer.name: turn_of(peer) for peer in peers}
            samples = arena.hold("others' stores", contestants, rounds=11, warm_up=True)
    finally:
        runner.run(persistence.close())
        for peer in peers:
            runner.run(peer.close())
    targets = {OpenAIAgents.name: 5, GoogleADK.name: 20}
    for peer in peers:
        against = f"{peer.name}, {AWAITED / samples.median(peer.name):,.0f} events/s"
        for one, least in (("writer", targets[peer.name]), ("coordinator", None)):
            ratio = samples.ratio(peer.name, one)
            yield Figure(
                what=f"events/s, awaited, database, {one}", value=ratio, unit="x", against=against, least=least
            )


def _open_peers(root: Path, runner: asyncio.Runner) -> Sequence[Peer]:
    peers: list[Peer] = [runner.run(OpenAIAgents.open(root / "agents.db"))]
    try:
        peers.append(runner.run(GoogleADK.open(root / "adk.db")))
    except ImportError as error:
        say(f"google-adk is not installed here ({error}): what is measured against it is left out\n")
    return peers


def _groups(arena: Arena, store: SqlLogStore, database: str, *, least: float | None) -> Iterable[Figure]:
    """Measure one transaction of 16 sessions against 16 transactions."""
    with ExitStack() as stack:
        stack.callback(store.close)
        writers = [stack.enter_context(store.create(SessionHeader.new(cwd="/srv/project"))) for _ in range(SESSIONS)]

        def batches() -> Iterator[Sequence[tuple[LogWriter, EncodedBatch]]]:
            first = writers[0].next_seq
            for seq in range(first, first + EACH):
                yield [(writer, batch_of(seq, 1)) for writer in writers]

        def singly() -> float:
            made = list(batches())
            return clock(lambda: [writer.append(batch) for items in made for writer, batch in items])

        def grouped() -> float:
            made = list(batches())
            start = time.perf_counter()
            answers = [answer for items in made for answer in store.append_group(items)]
            seconds = time.perf_counter() - start
            require([], [answer for answer in answers if isinstance(answer, Exception)], "refused batches")
            return seconds

        samples = arena.hold(f"{database}, groups", {"singly": singly, "grouped": grouped}, rounds=15, warm_up=True)
    rate = SESSIONS * EACH / samples.median("singly")
    against = f"append by append, {rate:,.0f} events/s"
    what = f"{database}, append_group of {SESSIONS}, events/s"
    yield Figure(what=what, value=samples.ratio("singly", "grouped"), unit="x", against=against, least=least)


def _many(arena: Arena, root: Path, runner: asyncio.Runner) -> Iterable[Figure]:
    """Measure 16 sessions that await their events through the coordinator, against one that awaits as many."""
    sessions = [Session(SessionHeader.new(cwd="/srv/project")) for _ in range(SESSIONS)]

    async def attach() -> SessionPersistence:
        persistence = SessionPersistence(SqlLogStore(url_of(root / "many.db")))
        for session in sessions:
            persistence.attach(session)
        return persistence

    async def append(session: Session, count: int) -> None:
        for _ in range(count):
            session.append(TYPE, DATA)
            await persistence.flush(session.id)

    async def many() -> None:
        await asyncio.gather(*(append(session, EACH) for session in sessions))

    async def one() -> None:
        await append(sessions[0], SESSIONS * EACH)

    persistence = runner.run(attach())
    try:
        contestants = {
            "many": lambda: clock(lambda: runner.run(many())),
            "one": lambda: clock(lambda: runner.run(one())),
        }
        samples = arena.hold("many sessions in a database", contestants, rounds=11, warm_up=True)
    finally:
        runner.run(persistence.close())
    against = f"one session awaiting as many, {SESSIONS * EACH / samples.median('one'):,.0f} events/s"
    what = f"events/s, {SESSIONS} sessions awaiting, database"
    yield Figure(what=what, value=samples.ratio("one", "many"), unit="x", against=against)


def _suffix(arena: Arena, logs: Logs) -> Iterable[Figure]:
    count = logs.middle.events
    header = numbered(count)

    def write(root: Path) -> None:
        say(f"writing a log of {count} events into a database")
        root.mkdir(mode=0o700)
        events = Story(seed=count).events(count)
        with closing(SqlLogStore(url_of(root / "store.db"))) as store, store.create(header) as writer:
            while some := tuple(islice(events, WRITTEN_AT_ONCE)):
                writer.append(EncodedBatch(first_seq=some[0].seq, events=some))

    place = once(logs.folder / f"database-log-{count}", write) / "store.db"
    with closing(SqlLogStore(url_of(place))) as store:

        def last() -> float:
            start = time.perf_counter()
            for _ in range(SHORT_TURNS):
                events = list(store.read(header.id, from_seq=count - SUFFIX).events)
            seconds = time.perf_counter() - start
            require((SUFFIX, count - SUFFIX), (len(events), events[0].seq), "the last events")
            return seconds / SHORT_TURNS

        samples = arena.hold(f"the last {SUFFIX}, database", {"last": last}, rounds=11, warm_up=True)
    yield Figure(what=f"last {SUFFIX} of {count:,}, database", value=samples.median("last") * 1e3, unit="ms", most=1)


def _listing(arena: Arena, logs: Logs) -> Iterable[Figure]:
    count = len(logs.raw_sessions)
    turn = tuple(Story(seed=count).events(FRAME_EVENTS, turn_events=FRAME_EVENTS))

    def write(root: Path) -> None:
        say(f"writing {count} sessions into a database")
        root.mkdir(mode=0o700)
        with closing(SqlLogStore(url_of(root / "store.db"))) as store:
            for first in range(0, count, WRITTEN_AT_ONCE // FRAME_EVENTS):
                with ExitStack() as stack:
                    numbers = range(first, min(count, first + WRITTEN_AT_ONCE // FRAME_EVENTS))
                    writers = [stack.enter_context(store.create(numbered(number))) for number in numbers]
                    store.append_group([(writer, EncodedBatch(first_seq=0, events=turn)) for writer in writers])

    place = once(logs.folder / f"database-sessions-{count}", write) / "store.db"
    with closing(SqlLogStore(url_of(place))) as store, closing(sqlite3.connect(place)) as raw:

        def select() -> None:
            require(count, len(raw.execute("SELECT * FROM sessions").fetchall()), "rows selected")

        def listed() -> None:
            require(count, sum(session.header is not None for session in store.list()), "sessions listed")

        contestants = {"select": lambda: clock(select), "list": lambda: clock(listed)}
        samples = arena.hold("listing a database", contestants, rounds=15, warm_up=True)
    base = f"SELECT * of the same rows by sqlite3, {samples.median('select') / count * 1e6:.2f} µs each"
    ratio = samples.ratio("list", "select")
    yield Figure(what=f"list() of {count:,}, database", value=ratio, unit="x", against=base, most=5)
    yield Figure(what="list(), each, database", value=samples.median("list") / count * 1e6, unit="µs")


def _postgres(arena: Arena) -> Iterable[Figure]:
    """Measure commits to a server on this machine, which syncs as it does by default."""
    try:
        with serve() as server:
            with (
                closing(RawPostgres(server.url.replace("+psycopg", ""))) as raw,
                closing(SqlLogStore(server.url)) as store,
                store.create(numbered(0)) as writer,
            ):
                yield from _against_raw(arena, raw, writer, "PostgreSQL", most={})
            yield from _groups(arena, SqlLogStore(server.url), "PostgreSQL", least=None)
    except (Unavailable, ImportError) as error:
        say(f"PostgreSQL is left out: {error}\n")


def _batches(first: int, events: int, count: int) -> Iterator[EncodedBatch]:
    return (batch_of(first + number * events, events) for number in range(count))


def _rows() -> Iterator[Row]:
    """Yield the rows of a plain table, without end."""
    seq = 0
    session = numbered(0).id
    while True:
        for event in batch_of(seq, 1).events:
            yield session, event.seq, event.type, event.time, event.encoded
            seq += 1
