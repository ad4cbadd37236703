"""What the workloads write: conversations that are a function of the session's id alone, and where their batches end.

So a checker that knows an id knows every byte that may stand in its log. The clock of all of it runs backwards, and
the machine's own stands still in 1970: nothing may depend on either.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from itertools import accumulate, cycle, takewhile

from interop.author import Author

from dsh_persistence import LogStore, MemoryLogStore, SessionPersistence
from dsh_session import EncodedBatch, Session, SessionEvent, SessionHeader

BEGUN_AT = 1_760_000_000_000
BATCH_SIZES = (6, 1, 4, 2, 1, 5, 3)
"""Events per batch, over and over; they fit no turn, so that most crashes lie inside one."""
BIG_BYTES = 80_000
"""Random bytes in some turns, as hex: more than one zstd block of 128 KiB."""

Acknowledge = Callable[[str, int], None]
"""Called with a session's id and the seq up to which it is now promised."""
Insist = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]
"""Calls, and calls again where a failure may pass."""


def stop_the_clock() -> None:
    """Let the process see 1970."""
    time.time_ns = lambda: 0


class Story:
    """One session's conversation, as long as somebody asks for."""

    def __init__(self, session_id: str) -> None:
        self.header = _header(session_id)
        self._session = _live(self.header)
        self._author = Author(self._session)
        self._random = random.Random(session_id)
        self._big_turn = 1 if session_id.endswith("b") else 2

    def events(self, count: int) -> list[SessionEvent]:
        """Return the first ``count`` events."""
        while self._session.next_seq < count:
            self._turn(self._session.state.last_turn + 1)
        return list(self._session.events[:count])

    def batch_at(self, seq: int) -> EncodedBatch:
        """Return the batch that event ``seq`` belongs to."""
        end = next(end for end in accumulate(cycle(BATCH_SIZES)) if end > seq)
        first = max((begin for begin in _ends_up_to(seq)), default=0)
        return EncodedBatch(first_seq=first, events=tuple(self.events(end)[first:]))

    @staticmethod
    def is_end_of_batch(seq: int) -> bool:
        """Tell whether a log that holds nothing but whole batches may go on with ``seq``."""
        return seq in {0, *_ends_up_to(seq)}

    def _turn(self, number: int) -> None:
        big = self._random.randbytes(BIG_BYTES if number % 8 == self._big_turn else 20).hex()
        call = f"call-{number}"
        self._author.open(f"Prompt {big}").shell(call, f"output {self._random.random()}").next_step()
        self._author.say("Done. \N{HEAVY CHECK MARK}")
        self._author.close()


def _ends_up_to(seq: int) -> list[int]:
    return list(takewhile(lambda end: end <= seq, accumulate(cycle(BATCH_SIZES))))


def _header(session_id: str) -> SessionHeader:
    cwd = f"/work/{session_id.partition('-')[2]}"
    return SessionHeader(id=session_id, created_at=BEGUN_AT, cwd=cwd)


def _live(header: SessionHeader) -> Session:
    session = Session(header)
    _wind_back(session)
    return session


def _wind_back(session: Session) -> None:
    session.clock = lambda: BEGUN_AT - 1_000 * session.next_seq


async def live_once(store: LogStore, acknowledge: Acknowledge, insist: Insist) -> None:
    """Drive two sessions through the coordinator: bursts, a flush of both, an interrupted turn, a resume, a load."""
    async with SessionPersistence(store) as persistence:
        first, second = _live(_header("live-a")), _live(_header("live-b"))
        for session in (first, second):
            persistence.attach(session)

        async def flush(*sessions: Session) -> None:
            only = sessions[0].id if len(sessions) == 1 else None
            await insist(lambda: persistence.flush(only))
            for session in sessions:
                acknowledge(session.id, session.next_seq)

        author = Author(first).open("Begin.")
        await flush(first)
        author.say("I will look.", ("call-1", "{}"))
        await flush(first)
        author.start("call-1", "{}")
        Author(second).turn(random.Random(1).randbytes(BIG_BYTES).hex())
        await flush(first, second)
        await insist(lambda: persistence.detach(first))

        resumed: list[Session] = []

        async def resume() -> None:
            resumed.append(await persistence.resume(first.id))

        await insist(resume)
        (again,) = resumed
        acknowledge(again.id, again.next_seq - 1)  # the closers; the mark of the resume is still to be written
        _wind_back(again)
        Author(again).turn("Go on.")
        await flush(again)
        Author(second).open("One more.")
        await flush(second)
        await insist(lambda: persistence.detach(second))
        stored = await loaded(persistence, second.id, insist)
        acknowledge(second.id, stored)


async def loaded(persistence: SessionPersistence, session_id: str, insist: Insist) -> int:
    """Load a session, and return up to which seq it goes."""
    found: list[int] = []

    async def load() -> None:
        found.append((await persistence.load(session_id)).next_seq)

    await insist(load)
    return found[-1]


def lived() -> tuple[dict[str, list[SessionEvent]], dict[str, set[int]]]:
    """Return what ``live_once`` writes where nothing ever fails: each session's events, and where its batches end."""
    store = MemoryLogStore()
    ends: dict[str, set[int]] = {}

    async def once(work: Callable[[], Awaitable[object]]) -> object:
        return await work()

    asyncio.run(live_once(store, lambda session_id, seq: ends.setdefault(session_id, set()).add(seq), once))
    return {session_id: list(store.read(session_id).events) for session_id in ends}, ends
