"""One live session's way to disk: what is appended is written behind the producer's back, in order, batch by batch.

The queue is the session's own log from ``durable_seq`` on; nothing is copied and a failed batch cannot get lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future

import msgspec

from dsh_session import EncodedBatch, Session, SessionEvent

from ._seam import LogWriter, Receipt
from .errors import (
    ForeignChange,
    PersistenceClosed,
    SeqConflict,
    SessionAlreadyStored,
    SessionIdCollision,
    SessionIdTooLong,
    WriteFailed,
)

logger = logging.getLogger(__name__)

RETRY_DELAYS_S = (0.2, 1.0, 5.0, 30.0)
"""Pauses after the first, second … failure in a row; the last one repeats."""
_LASTING = (ForeignChange, SeqConflict, SessionAlreadyStored, SessionIdCollision, SessionIdTooLong)
"""Failures that time does not cure: they are tried again when somebody appends or flushes, not by the clock."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How far one session's durability has come."""

    session_id: str
    last_durable_seq: int
    """The seq of the last event on disk, -1 when none is."""
    queued: int
    """How many events wait."""
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
        window_ms: float,
        executor: Executor,
        report: Callable[[Health], None],
    ) -> None:
        """``durable_seq`` is the first seq that is not on disk yet; ``window_ms`` how long the first event waits."""
        self.session = session
        self.writer = writer
        self._durable_seq = durable_seq
        self._window_s = window_ms / 1000
        self._executor = executor
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | None = None
        self._write: Future[Receipt] | None = None
        self._stopped = False
        self._error: BaseException | None = None
        self._failures = 0
        self._waiters: list[_Waiter] = []
        self._unsubscribe = session.subscribe(self._appended)
        if self._queued:
            self._arm(self._window_s)

    @property
    def health(self) -> Health:
        """Return the present state."""
        return Health(
            session_id=self.session.id,
            last_durable_seq=self._durable_seq - 1,
            queued=self._queued,
            last_error=self._error,
        )

    async def flush(self) -> None:
        """Return when every event of the session is durable, those included that arrive meanwhile.

        Raises ``WriteFailed`` when an attempt that began after the call fails; the events stay queued, and are retried
        unless only somebody's help can cure the failure.
        A failure of a write already under way does not count. Cancelling stops the waiting, never the write.
        """
        if not self._queued:
            return
        waiter = _Waiter(self._loop.create_future())
        self._waiters.append(waiter)
        if self._write is None:
            self._start()
        try:
            await waiter.future
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def release(self) -> Future[None]:
        """Follow the session no longer and close the writer, once a write under way has ended.

        What is queued stays unwritten.
        """
        self._stopped = True
        self._unsubscribe()
        self._disarm()
        # In a thread, so that the claim is given up even when nobody awaits the result. The write was submitted
        # before and needs no other thread, so waiting for it here cannot lock up.
        return self._executor.submit(_close_after, self._write, self.writer)

    @property
    def _queued(self) -> int:
        return self.session.next_seq - self._durable_seq

    def _appended(self, event: SessionEvent) -> None:  # noqa: ARG002  # a session listener
        # The event that finds everything idle opens the window; later ones neither extend it nor wait for a new one.
        if self._timer is None and self._write is None:
            self._arm(self._window_s)

    def _arm(self, delay_s: float) -> None:
        if self._stopped:
            return
        # Even without a window the write begins with the next turn of the loop, so that events of one burst share it.
        self._timer = self._loop.call_later(delay_s, self._start) if delay_s else self._loop.call_soon(self._start)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start(self) -> None:
        self._disarm()
        if self._write is not None or not self._queued:
            return
        for waiter in self._waiters:
            waiter.tried = True
        batch = self.session.batch(self._durable_seq)
        write = self._write = self._executor.submit(self.writer.append, batch)
        write.add_done_callback(lambda done: self._loop.call_soon_threadsafe(self._finished, batch, done))

    def _finished(self, batch: EncodedBatch, write: Future[Receipt]) -> None:
        self._write = None
        error = write.exception()
        if error is None:
            self._succeeded(batch)
        else:
            self._failed(error)

    def _succeeded(self, batch: EncodedBatch) -> None:
        self._durable_seq = batch.next_seq
        recovered = self._error is not None
        self._error, self._failures = None, 0
        if recovered:
            self._report(self.health)
        if not self._queued:
            self._settle(None)
        elif self._stopped:
            self._give_up(PersistenceClosed())
        elif self._waiters:
            self._start()
        else:
            self._arm(self._window_s)

    def _failed(self, error: BaseException) -> None:
        first = self._error is None
        self._error = error
        delay_s = RETRY_DELAYS_S[min(self._failures, len(RETRY_DELAYS_S) - 1)]
        self._failures += 1
        if first:
            kept = "kept" if isinstance(error, _LASTING) else "kept and retried"
            logger.warning(
                "writing session %s failed, %d event(s) are %s: %s", self.session.id, self._queued, kept, error
            )
        self._report(self.health)
        self._settle(error)
        if self._stopped:
            self._give_up(error)
        elif self._waiters:
            self._start()
        elif not isinstance(error, _LASTING):
            self._arm(delay_s)

    def _give_up(self, error: BaseException) -> None:
        """Answer everybody: nothing will be tried again."""
        for waiter in self._waiters:
            waiter.tried = True
        self._settle(error)

    def _settle(self, error: BaseException | None) -> None:
        """Answer the waiters: all of them after success, those that had their attempt after a failure."""
        answered = [waiter for waiter in self._waiters if error is None or waiter.tried]
        self._waiters = [waiter for waiter in self._waiters if waiter not in answered]
        for waiter in answered:
            if waiter.future.done():
                continue
            if error is None:
                waiter.future.set_result(None)
            else:
                failure = WriteFailed(self.session.id, queued=self._queued, reason=str(error))
                failure.__cause__ = error
                waiter.future.set_exception(failure)


def _close_after(write: Future[Receipt] | None, writer: LogWriter) -> None:
    if write is not None:
        write.exception()
    writer.close()
