"""The coordinator: one asynchronous face over any store, and one write-behind queue per live session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TypeVar

from dsh_session import (
    EncodedBatch,
    EventRefused,
    Session,
    SessionEvent,
    SessionHeader,
    repair_closers,
)

from ._seam import ListedSession, LogStore, LogWriter, SessionLocation, StoredPrefix
from ._write_behind import Health, WriteBehind
from .errors import (
    LiveTurnOpen,
    PersistenceClosed,
    SessionBusy,
    SessionCorrupt,
    SessionNotFound,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

SYNC_THREADS = 4
"""Syncs of several sessions overlap in this many threads; one session's never do."""


class SessionPersistence:
    """Keeps live sessions durable and reads stored ones.

    Made and used on one event loop. ``async with`` closes it. Cancelling an await stops waiting; it never cancels a
    write.
    """

    def __init__(self, store: LogStore, *, window_ms: float = 0) -> None:
        """``window_ms`` is how long the first event of a batch waits for company; 0 writes at once."""
        if not 0 <= window_ms <= 2**31 - 1:
            msg = f"window_ms is {window_ms}; it is a number of milliseconds from 0 to 2147483647"
            raise ValueError(msg)
        self.store = store
        self._window_ms = window_ms
        self._executor = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="dsh-persistence")
        self._live: dict[str, WriteBehind] = {}
        self._reserved: set[str] = set()
        self._listeners: list[Callable[[Health], None]] = []
        self._closed = False

    def locate(self, header: SessionHeader) -> SessionLocation | None:
        """Return where the session's own artifact is or will be; touches nothing."""
        return self.store.locate(header)

    def attach(self, session: Session) -> None:
        """Follow a live session: its events, also those it has already, become durable from now on.

        Writes nothing before the first event. Raises ``SessionBusy`` while the id is loading or another live session
        has it. That a stored log has the id already shows at the first write.
        """
        self._require_open()
        follower = self._live.get(session.id)
        if follower is not None and follower.session is session:
            return
        if follower is not None or session.id in self._reserved:
            raise SessionBusy(session.id, "a load under way" if follower is None else "another live session")
        self._follow(session, self.store.create(session.header), durable_seq=0)

    async def resume(self, session_id: str) -> Session:
        """Open a stored session for writing and follow it; the claim is kept until ``detach``.

        Commits crash repair: a torn tail is cut, an interrupted turn closed. Raises as ``LogStore.open``.
        """
        with self._reserve(session_id):
            session, writer = await self._claim(session_id)
            if self._closed:
                writer.close()
                raise PersistenceClosed
            follower = self._follow(session, writer, durable_seq=session.next_seq)
        session.extend(repair_closers(session.state))
        try:
            await follower.flush()
            self._require_open()
        except BaseException:
            await self._drop(follower)
            raise
        session.mark_resumed()
        return session

    async def flush(self, session_id: str | None = None) -> None:
        """Return when all events of the session, or of every live session, are durable.

        A session nobody follows has nothing to flush. Raises ``WriteFailed``, for several sessions in an
        ``ExceptionGroup``.
        """
        if session_id is not None:
            follower = self._live.get(session_id)
            if follower is not None:
                await follower.flush()
            return
        await self._all(follower.flush() for follower in list(self._live.values()))

    async def load(self, session_id: str) -> StoredPrefix:
        """Return a stored log with its crash repair committed.

        A live session is flushed and read as it is; inside a turn it raises ``LiveTurnOpen``. A cold load reserves the
        id until it has finished.
        """
        follower = self._live.get(session_id)
        if follower is not None:
            if not follower.session.next_seq:
                raise SessionNotFound(session_id, self.store.name)
            if follower.session.state.turn is not None:
                raise LiveTurnOpen(session_id)
            await follower.flush()
            return await self.inspect(session_id)
        with self._reserve(session_id):
            return await self._run(self._recover, session_id)

    async def inspect(self, session_id: str) -> StoredPrefix:
        """Return a copy of the stored prefix as it is; changes nothing, ever, and works beside a live writer."""
        self._require_open()
        return await self._run(self.store.read, session_id)

    async def read_from(self, session_id: str, seq: int) -> Sequence[SessionEvent]:
        """Return the stored events from ``seq`` on; none past the end."""
        if seq < 0:
            msg = f"seq is {seq}; it is a whole number from 0"
            raise ValueError(msg)
        self._require_open()
        return (await self._run(lambda: self.store.read(session_id, from_seq=seq))).events

    async def list(self) -> list[ListedSession]:
        """Return every stored session, damaged ones included; a session without events is not stored."""
        self._require_open()
        return await self._run(lambda: list(self.store.list()))

    async def detach(self, session: Session) -> None:
        """Write what is queued and release the claim. Raises ``WriteFailed``, and then goes on following."""
        follower = self._live.get(session.id)
        if follower is None or follower.session is not session:
            return
        while follower.health.queued:  # an event may arrive between the end of a flush and the return to here
            await follower.flush()
        await self._drop(follower)

    def health(self, session_id: str) -> Health:
        """Return how far a live session's durability has come. Raises ``SessionNotFound`` when it is not followed."""
        if session_id not in self._live:
            raise SessionNotFound(session_id, "the live sessions")
        return self._live[session_id].health

    def subscribe(self, listener: Callable[[Health], None]) -> Callable[[], None]:
        """Call ``listener`` after each failed write and after the first success that follows, until disposed."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    async def close(self) -> None:
        """Write everything queued, release all claims and the store. Idempotent.

        Raises an ``ExceptionGroup`` of ``WriteFailed`` when anything stayed unwritten; everything is released all the
        same.
        """
        if self._closed:
            return
        self._closed = True
        try:
            while queued := [follower for follower in self._live.values() if follower.health.queued]:
                await self._all(follower.flush() for follower in queued)
        finally:
            await asyncio.shield(self._release_all())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _follow(self, session: Session, writer: LogWriter, *, durable_seq: int) -> WriteBehind:
        follower = self._live[session.id] = WriteBehind(
            session,
            writer,
            durable_seq=durable_seq,
            window_ms=self._window_ms,
            executor=self._executor,
            report=self._report,
        )
        return follower

    async def _drop(self, follower: WriteBehind) -> None:
        if self._live.get(follower.session.id) is follower:
            del self._live[follower.session.id]
            await asyncio.shield(asyncio.wrap_future(follower.release()))

    async def _release_all(self) -> None:
        released = [asyncio.wrap_future(follower.release()) for follower in self._live.values()]
        self._live.clear()
        await asyncio.gather(*released)
        await self._run(self.store.close)
        await asyncio.to_thread(self._executor.shutdown)  # waits for reads under way, but not on the loop

    def _report(self, health: Health) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(health)
            except Exception:
                logger.exception("a health listener failed for session %s", health.session_id)

    @contextmanager
    def _reserve(self, session_id: str) -> Generator[None]:
        self._require_open()
        if session_id in self._reserved or session_id in self._live:
            raise SessionBusy(session_id, "this process")
        self._reserved.add(session_id)
        try:
            yield
        finally:
            self._reserved.discard(session_id)

    async def _claim(self, session_id: str) -> tuple[Session, LogWriter]:
        opening = self._executor.submit(self._open_session, session_id)
        try:
            return await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            # Nobody takes the writer any more; its claim must not outlive the one who asked.
            opening.add_done_callback(_release)
            raise

    def _open_session(self, session_id: str) -> tuple[Session, LogWriter]:
        """Open, repair and fold a stored log; runs in a worker thread."""
        writer = self.store.open(session_id)
        try:
            stored = writer.stored
            if stored is None:
                raise SessionNotFound(session_id, self.store.name)
            writer.repair()
            return _fold(stored), writer
        except BaseException:
            writer.close()
            raise

    def _recover(self, session_id: str) -> StoredPrefix:
        session, writer = self._open_session(session_id)
        with writer:
            closers = repair_closers(session.state)
            if closers:
                writer.append(EncodedBatch(first_seq=session.next_seq, events=closers))
        return self.store.read(session_id)

    async def _run(self, work: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work, *args)

    @staticmethod
    async def _all(flushes: Iterable[Coroutine[object, object, None]]) -> None:
        results = await asyncio.gather(*flushes, return_exceptions=True)
        errors = [result for result in results if isinstance(result, Exception)]
        if errors:
            raise ExceptionGroup("some sessions have unwritten events", errors)

    def _require_open(self) -> None:
        if self._closed:
            raise PersistenceClosed


def _release(opening: Future[tuple[Session, LogWriter]]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        _, writer = opening.result()
        writer.close()


def _fold(stored: StoredPrefix) -> Session:
    try:
        return Session(stored.header, stored=stored.events)
    except EventRefused as error:
        raise SessionCorrupt(stored.source, f"the stored events break a rule of the format: {error}") from error
