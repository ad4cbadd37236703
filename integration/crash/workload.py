"""`python -m crash.workload WHAT ROOT`: a writer that a harness of faults runs, kills and runs again.

It prints a flushed line for each acknowledgement, a session's id and the next seq, and one before a torn tail is cut.
Exit code 3 says that it gave up; any other but 0, that something happened which no failure of the medium explains.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from dsh_persistence import (
    LogWriter,
    OutcomeUnknown,
    Receipt,
    SessionNotFound,
    SessionPersistence,
    StoredPrefix,
    StoreUnusable,
    WriteFailed,
)
from dsh_session import EncodedBatch

from . import broken
from .stores import KINDS, Store, open_store
from .story import Story, live_once, loaded, stop_the_clock

T = TypeVar("T")

TRIES = 10
PASSING = (OSError, OutcomeUnknown, StoreUnusable, WriteFailed, ExceptionGroup)
"""What may work when it is tried again."""
SESSIONS = ("one-a", "two-b")


def announce_tail(stored: StoredPrefix | None) -> None:
    """Say what a repair is about to cut, so that a judge can ask where it is."""
    if stored is not None and stored.torn is not None:
        tail = Path(stored.source).read_bytes()[stored.torn.offset :]
        if tail.strip(b"\0"):
            digest = hashlib.blake2b(tail, digest_size=16).hexdigest()
            sys.stdout.write(f"torn {stored.header.id} {stored.torn.offset} {digest}\n")
            sys.stdout.flush()


class GaveUp(SystemExit):
    """Nothing worked, ``TRIES`` times in a row."""

    def __init__(self) -> None:
        super().__init__(3)


def acknowledge(session_id: str, next_seq: int) -> None:
    """Promise that a session is durable up to ``next_seq``."""
    sys.stdout.write(f"{session_id} {next_seq}\n")  # one write, so that no crash lies inside a line
    sys.stdout.flush()


def insist(work: Callable[[], T], *, failed: Callable[[Exception, int], None] | None = None) -> T:
    """Return what ``work`` returns, once it does."""
    for attempt in range(TRIES):
        try:
            return work()
        except PASSING as error:
            if failed is not None:
                failed(error, attempt)
    raise GaveUp


async def insist_async(work: Callable[[], Awaitable[object]]) -> object:
    """Await until it works."""
    for _ in range(TRIES):
        try:
            return await work()
        except PASSING:
            await asyncio.sleep(0)
    raise GaveUp


class Pen:
    """Writes one session's story; after failures it goes on with the same writer and with a new one in turn."""

    def __init__(self, store: Store, session_id: str) -> None:
        self.story = Story(session_id)
        self._store = store
        self._writer: LogWriter | None = None
        self._owed = True
        """Whether ``resend`` has to settle what lies there; at first that is what an earlier process left."""

    def write(self, batches: int) -> None:
        """Make the log that many batches longer, and acknowledge each."""
        for _ in range(batches):
            self._insist_on(self._due())

    def join(self) -> tuple[LogWriter, EncodedBatch]:
        """Return what it takes part in a group with; whatever is owed is settled before."""
        while True:
            batch = self._due()
            if not self._owed:
                return insist(self._open), batch
            self._insist_on(batch)

    def leave(self, batch: EncodedBatch, answer: Receipt | Exception) -> None:
        """Acknowledge what the group made durable, and what it did not once that is made up for."""
        if isinstance(answer, Receipt):
            acknowledge(self.story.header.id, answer.next_seq)
        elif isinstance(answer, PASSING):
            self._doubt(answer, 0)
            self._insist_on(batch)
        else:
            raise answer

    def rest(self) -> None:
        """Give up the claim; the next write opens the log anew."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.checkpoint()
            writer.close()

    def _due(self) -> EncodedBatch:
        return self.story.batch_at(insist(lambda: self._open().next_seq))

    def _insist_on(self, batch: EncodedBatch) -> None:
        insist(lambda: self._put(batch), failed=self._doubt)
        acknowledge(self.story.header.id, batch.next_seq)

    def _open(self) -> LogWriter:
        if self._writer is None:
            try:
                self._writer = self._store.open(self.story.header.id)
                announce_tail(self._writer.stored)
            except SessionNotFound:
                self._writer, self._owed = self._store.create(self.story.header), False
        self._writer.repair()
        return self._writer

    def _put(self, batch: EncodedBatch) -> None:
        writer = self._open()
        receipt = writer.resend(batch) if self._owed else writer.append(batch)
        assert receipt.next_seq == writer.next_seq == batch.next_seq
        self._owed = False

    def _doubt(self, error: Exception, attempt: int) -> None:
        # An OSError says that the batch is not there, so ``append`` has to do, by whatever writer.
        self._owed = self._owed or isinstance(error, OutcomeUnknown)
        if attempt % 2:
            self.rest()


def write(store: Store, batches: int, sessions: int) -> None:
    """Go on with one session or two in turn, closing and reopening each on the way."""
    pens = [Pen(store, session_id) for session_id in SESSIONS[:sessions]]
    first = max(1, batches // 2)
    for pen in pens:
        pen.write(first)
    for pen in pens:
        pen.rest()
        pen.write(batches - first)
        pen.rest()


def write_together(store: Store, batches: int, sessions: int) -> None:
    """Make all sessions longer in groups, a batch of each at a time; close and reopen the first on the way."""
    pens = [Pen(store, session_id) for session_id in SESSIONS[:sessions]]
    for number in range(batches):
        if number == batches // 2:
            pens[0].rest()
        group = [pen.join() for pen in pens]
        for pen, (_, batch), answer in zip(pens, group, store.append_group(group), strict=True):
            pen.leave(batch, answer)
    for pen in pens:
        pen.rest()


async def load(store: Store) -> None:
    """Load every session, which commits its crash repair."""
    async with SessionPersistence(store) as persistence:
        for entry in await persistence.list():
            assert entry.header is not None, entry.problem
            session_id = entry.header.id
            announce_tail(store.read(session_id))
            acknowledge(session_id, await loaded(persistence, session_id, insist_async))


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["write", "together", "live", "load"])
    parser.add_argument("root")
    parser.add_argument("--store", choices=KINDS, default="zstd")
    parser.add_argument("--batches", type=int, default=4, help="how many each session is made longer by")
    parser.add_argument("--sessions", type=int, choices=[1, 2], default=2)
    parser.add_argument("--broken", choices=sorted(broken.WAYS), help="a protection to do without")
    asked = parser.parse_args()
    stop_the_clock()
    if asked.broken:
        broken.WAYS[asked.broken]()
    store = insist(lambda: open_store(asked.store, Path(asked.root)))
    if asked.what == "write":
        write(store, asked.batches, asked.sessions)
    elif asked.what == "together":
        write_together(store, asked.batches, asked.sessions)
    elif asked.what == "live":
        asyncio.run(live_once(store, acknowledge, insist_async))
    else:
        asyncio.run(load(store))


if __name__ == "__main__":
    main()
