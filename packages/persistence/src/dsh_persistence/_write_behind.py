"""One session's way to disk: what is appended is written behind the producer's back, in order, batch by batch.

The queue is the session's own log from ``durable_seq`` on; nothing is copied and a failed batch cannot get lost.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

import msgspec

from dsh_session import EncodedBatch, Session, SessionEvent

from ._backlog import Backlog
from ._opening import adopt
from ._seam import LogStore, LogWriter
from ._threads import Job, WriterThreads
from .errors import (
    ForeignChange,
    FormatNotSupported,
    OutcomeUnknown,
    PersistenceClosed,
    QueueFull,
    RowTooLarge,
    SeqConflict,
    SessionAlreadyStored,
    SessionCorrupt,
    SessionIdCollision,
    SessionIdTooLong,
    WriteFailed,
)

logger = logging.getLogger(__name__)

RETRY_DELAYS_S = (0.2, 1.0, 5.0, 30.0)
"""Pauses after the first, second … failure in a row; the last one repeats."""
BATCH_BYTES = 8 << 20
"""The most that one write takes, but for a larger event."""
_BATCH_EVENTS = BATCH_BYTES >> 8
"""No batch can have more: an event counts 256 bytes at least."""
_LASTING = (
    ForeignChange,
    FormatNotSupported,
    RowTooLarge,
    SeqConflict,
    SessionAlreadyStored,
    SessionCorrupt,
    SessionIdCollision,
    SessionIdTooLong,
)
"""Failures that time does not cure: they are tried again when somebody appends or flushes, not by the clock."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How far one session's durability has come."""

    session_id: str
    last_durable_seq: int
    """The seq of the last event on disk, -1 when none is."""
    queued: int
    """How many events wait."""
    queued_bytes: int
    """How many bytes they take, about."""
    last_error: BaseException | None
    """Why the last write failed; None once one has succeeded again."""


class _Waiter:
    """Somebody awaiting ``flush``; it is owed at least one attempt that began after the call."""

    __slots__ = ("future", "tried")

    def __init__(self, future: asyncio.Future[None]) -> None:
        self.future = future
        self.tried = False


class WriteBehind:
    """Follows a session and writes its new events through a writer, at most one batch at a time.

    Everything but the write itself happens on the event loop; a write ends with one wake-up of the loop.
    """

    def __init__(
        self,
        session: Session,
        writer: LogWriter,
        *,
        durable_seq: int,
        live: bool,
        store: LogStore,
        window_ms: float,
        threads: WriterThreads,
        backlog: Backlog,
        report: Callable[[Health], None],
    ) -> None:
        """``durable_seq`` is the first seq that is not on disk yet; ``window_ms`` how long the first event waits.

        ``live`` says that somebody works with the session: what they append is refused beyond the backlog's limit, and
        a stored log that their session goes on from is adopted.
        """
        self.session = session
        self.live = live
        self.handed_over_in_vain = range(0)
        """Seqs whose append by id has raised although the events are kept: they may be handed over again."""
        self._writer = writer
        self._writer_lock = threading.Lock()
        self._durable_seq = durable_seq
        self._store = store
        self._window_s = window_ms / 1000
        self._threads = threads
        self._backlog = backlog
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | None = None
        self._writing = False
        self._batch: EncodedBatch | None = None
        """What is being written, or was and may be durable."""
        self._batch_bytes = 0
        self._outcome_unknown = False
        """Whether the batch has to be settled before anything new is written."""
        self._more_due = False
        """Whether more waited when the write began than it takes."""
        self._queued_bytes = 0
        self._stopped = False
        self._error: BaseException | None = None
        self._failures = 0
        self._waiters: list[_Waiter] = []
        self._unfollow = self._follow()

    @property
    def health(self) -> Health:
        """Return the present state."""
        return Health(
            session_id=self.session.id,
            last_durable_seq=self._durable_seq - 1,
            queued=self.queued,
            queued_bytes=self._queued_bytes,
            last_error=self._error,
        )

    @property
    def queued(self) -> int:
        """How many events wait."""
        return self.session.next_seq - self._durable_seq

    @property
    def durable_seq(self) -> int:
        """The first seq that is not on disk yet."""
        return self._durable_seq

    @property
    def crowded(self) -> bool:
        """Whether as much waits that half the limit again could be refused."""
        return self._backlog.refuses(self._backlog.limit_bytes // 2, self._queued_bytes)

    def hand_over(self, session: Session) -> None:
        """Go on with a live session whose log begins with this one's events."""
        self._unfollow()
        self.session = session
        self.live = True
        self._unfollow = self._follow()

    async def flush(self) -> None:
        """Return when every event of the session is durable, those included that arrive meanwhile.

        Raises ``WriteFailed`` when an attempt that began after the call fails; the events stay queued, and are retried
        unless only somebody's help can cure the failure.
        A failure of a write already under way does not count. Cancelling stops the waiting, never the write.
        """
        if not self.queued:
            return
        waiter = _Waiter(self._loop.create_future())
        self._waiters.append(waiter)
        if not self._writing:
            self._start()
        try:
            await waiter.future
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def release(self) -> asyncio.Future[None]:
        """Follow the session no longer and close the writer, once a write under way has ended.

        What is queued stays unwritten. The claim is given up even when nobody awaits the result.
        """
        self._stopped = True
        self._unfollow()
        self._disarm()
        self._backlog.queued_bytes -= self._queued_bytes
        self._queued_bytes = 0
        released: asyncio.Future[None] = self._loop.create_future()
        # The write under way was submitted before and has its thread, so waiting for it in another cannot lock up.
        self._threads.submit(Job(self._alone(self._close), lambda _: _settle(released, None)))
        return released

    def _follow(self) -> Callable[[], None]:
        self._count(sum(event.size_bytes for event in self.session.events[self._durable_seq :]) - self._queued_bytes)
        if self.queued and self._timer is None and not self._writing:
            self._arm(self._window_s)
        unsubscribe = self.session.subscribe(self._appended)
        unguard = self.session.guard(self._admit) if self.live else None

        def unfollow() -> None:
            unsubscribe()
            if unguard is not None:
                unguard()

        return unfollow

    def _admit(self, size_bytes: int) -> None:
        backlog = self._backlog
        if backlog.refuses(size_bytes, self._queued_bytes):
            raise QueueFull(
                self.session.id,
                queued_bytes=backlog.queued_bytes,
                limit_bytes=backlog.limit_bytes,
                last_error=self._error,
            )

    def _appended(self, event: SessionEvent) -> None:
        self._count(event.size_bytes)
        # The event that finds everything idle opens the window; later ones neither extend it nor wait for a new one.
        if self._timer is None and not self._writing:
            self._arm(self._pause_s() if self._failures else self._window_s)

    def _count(self, more_bytes: int) -> None:
        if not self._stopped:
            self._queued_bytes += more_bytes
            self._backlog.queued_bytes += more_bytes

    def _arm(self, delay_s: float) -> None:
        if self._stopped:
            return
        # Even without a window the write begins with the next turn of the loop, so that events of one burst share it.
        self._timer = self._loop.call_later(delay_s, self._start) if delay_s else self._loop.call_soon(self._start)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _pause_s(self) -> float:
        return RETRY_DELAYS_S[min(self._failures, len(RETRY_DELAYS_S)) - 1]

    def _start(self) -> None:
        self._disarm()
        if self._writing or not self.queued:
            return
        for waiter in self._waiters:
            waiter.tried = True
        self._writing = True
        writer, batch = self._writer, self._batch or self._next_batch()
        self._batch = batch
        self._more_due = batch.next_seq < self.session.next_seq
        if self._outcome_unknown:
            self._threads.submit(Job(self._alone(lambda: writer.resend(batch)), self._written))
        else:
            work = self._alone(lambda: writer.append(batch))
            self._threads.submit(Job(work, self._written, append=(writer, batch)))

    def _next_batch(self) -> EncodedBatch:
        """Return what is written next."""
        begin, size = self._durable_seq, self._queued_bytes
        events = tuple(self.session.events[begin : begin + _BATCH_EVENTS])
        if size > BATCH_BYTES:
            size = 0
            for count, event in enumerate(events):
                if count and size + event.size_bytes > BATCH_BYTES:
                    events = events[:count]
                    break
                size += event.size_bytes
        self._batch_bytes = size
        return EncodedBatch(first_seq=begin, events=events)

    def _alone(self, work: Callable[[], object]) -> Callable[[], object]:
        """Return ``work`` as one that uses the writer by itself."""

        def guarded() -> object:
            with self._writer_lock:
                return work()

        return guarded

    def _close(self) -> None:
        """Close the writer, whichever it is by then. In a thread."""
        self._writer.close()

    def _written(self, error: BaseException | None) -> None:
        if error is None and self._batch is not None:
            self._advance(self._batch.next_seq, self._batch_bytes)
        elif isinstance(error, SessionAlreadyStored) and self.live and not self._stopped:
            # Part of the same attempt: the log may be the one that this session goes on from.
            events = tuple(self.session.events)
            self._threads.submit(Job(self._alone(lambda: self._adopt(events)), self._adopted))
            return
        self._ended(error)

    def _adopt(self, events: tuple[SessionEvent, ...]) -> None:
        """Exchange the writer for one of the stored log. In a thread."""
        opened = adopt(self._store, self.session.header, events)
        self._writer.close()
        self._writer = opened

    def _adopted(self, error: BaseException | None) -> None:
        if error is None:
            durable_seq = self._writer.next_seq
            events = self.session.events[self._durable_seq : durable_seq]
            self._advance(durable_seq, sum(event.size_bytes for event in events))
            self._more_due = True
        self._ended(error)

    def _advance(self, durable_seq: int, size_bytes: int) -> None:
        self._durable_seq = durable_seq
        self._outcome_unknown = False
        self._count(-size_bytes)

    def _ended(self, error: BaseException | None) -> None:
        self._writing = False
        self._outcome_unknown |= isinstance(error, OutcomeUnknown)
        if not self._outcome_unknown:
            self._batch = None
        if error is None:
            self._succeeded()
        else:
            self._failed(error)

    def _succeeded(self) -> None:
        recovered = self._error is not None
        self._error, self._failures = None, 0
        if recovered:
            self._report(self.health)
        if not self.queued:
            self._answer(None)
        elif self._stopped:
            self._answer_all(PersistenceClosed())
        elif self._waiters or self._more_due:
            self._start()
        else:
            self._arm(self._window_s)

    def _failed(self, error: BaseException) -> None:
        first = self._error is None
        self._error = error
        self._failures += 1
        if first:
            kept = "kept" if isinstance(error, _LASTING) else "kept and retried"
            logger.warning(
                "writing session %s failed, %d event(s) are %s: %s", self.session.id, self.queued, kept, error
            )
        self._report(self.health)
        self._answer(error)
        if self._stopped:
            self._answer_all(error)
        elif self._waiters:
            self._start()
        elif not isinstance(error, _LASTING):
            self._arm(self._pause_s())

    def _answer_all(self, error: BaseException) -> None:
        """Tell everybody that nothing will be tried again."""
        for waiter in self._waiters:
            waiter.tried = True
        self._answer(error)

    def _answer(self, error: BaseException | None) -> None:
        """Answer the waiters: all of them after success, those that had their attempt after a failure."""
        answered = [waiter for waiter in self._waiters if error is None or waiter.tried]
        self._waiters = [waiter for waiter in self._waiters if waiter not in answered]
        for waiter in answered:
            if error is None:
                _settle(waiter.future, None)
            else:
                failure = WriteFailed(self.session.id, queued=self.queued, reason=str(error))
                failure.__cause__ = error
                _settle(waiter.future, failure)


def _settle(future: asyncio.Future[None], error: BaseException | None) -> None:
    if future.done():  # whoever waited was cancelled
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
