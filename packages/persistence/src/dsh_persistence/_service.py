"""The coordinator: one asynchronous face over any store, and one write-behind queue per session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar, cast

from dsh_session import Guard, Session, SessionEvent, SessionHeader, repair_closers

from ._backlog import Backlog
from ._continuation import continuation
from ._opening import find_difference, open_session, recover
from ._seam import GroupCommit, ListedSession, LogStore, LogWriter, SessionLocation, StoredPrefix
from ._threads import GroupCommitThread, WriterThreads
from ._turns import Turns
from ._write_behind import Health, WriteBehind
from .errors import LiveTurnOpen, PersistenceClosed, SessionAlreadyStored, SessionBusy, SessionNotFound, WriteFailed

logger = logging.getLogger(__name__)

T = TypeVar("T")

QUEUE_BYTES = 64 << 20
"""How much may wait to be written unless the service is made with another limit."""

_LOAD, _RESUME, _CREATE, _APPEND = "a load", "a resume", "a create", "an append"
_DETACH, _RELEASE = "a detach", "a release"


class SessionPersistence:
    """Keeps live sessions durable and reads stored ones.

    Made and used on one event loop. ``async with`` closes it. Cancelling an await stops waiting; it never cancels a
    write.
    """

    def __init__(self, store: LogStore, *, window_ms: float = 0, queue_bytes: int = QUEUE_BYTES) -> None:
        """``window_ms`` is how long the first event of a batch waits for company; 0 writes at once.

        ``queue_bytes`` is how much may wait to be written, over all sessions; what is appended beyond it is refused
        with ``QueueFull``.
        """
        if not 0 <= window_ms <= 2**31 - 1:
            msg = f"window_ms is {window_ms}; it is a number of milliseconds from 0 to 2147483647"
            raise ValueError(msg)
        if queue_bytes < 1:
            msg = f"queue_bytes is {queue_bytes}; it is a number of bytes from 1"
            raise ValueError(msg)
        self.store = store
        self._window_ms = window_ms
        group = cast("GroupCommit", store) if store.capabilities.group_commit else None
        self._writers = WriterThreads() if group is None else GroupCommitThread(group)
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="dsh-persistence-read")
        self._backlog = Backlog(queue_bytes)
        self._followed: dict[str, WriteBehind] = {}
        self._turns = Turns()
        self._listeners: list[Callable[[Health], None]] = []
        self._closed = False

    def locate(self, header: SessionHeader) -> SessionLocation | None:
        """Return where the session's own artifact is or will be; touches nothing."""
        return self.store.locate(header)

    def attach(self, session: Session) -> None:
        """Follow a live session: its events, also those it has already, become durable from now on.

        Writes nothing before the first event. A session that goes on from what ``create`` and ``append`` have been
        given takes it over, and one that goes on from a stored log adopts it, whose header stays; its open turn is left
        open. That a stored log is another one shows at the first write, in ``flush`` and ``health``.

        Raises ``SessionBusy`` while the id is being opened or let go of, or another live session has it, unless that
        one was never used, and ``SessionAlreadyStored`` when ``create`` and ``append`` were given something else.
        """
        self._require_open()
        if holder := self._turns.holder(session.id):
            raise SessionBusy(session.id, f"{holder} under way")
        follower = self._followed.get(session.id)
        if follower is not None and follower.session is session:
            return
        if follower is not None and not follower.live:
            mine = follower.session
            if difference := find_difference(mine.header, mine.events, session.header, session.events):
                raise SessionAlreadyStored(session.id, self.store.name, difference=difference)
            follower.hand_over(session)
            return
        if follower is not None:
            if follower.session.next_seq:
                raise SessionBusy(session.id, "another live session")
            _ = follower.release()  # it has claimed nothing, so there is nothing to wait for
            follower.session.guard(_superseded(session.id))
        self._follow(session, self.store.create(session.header))

    async def resume(self, session_id: str) -> Session:
        """Open a stored session for writing and follow it; the claim is kept until ``detach``.

        Commits crash repair: a torn tail is cut, an interrupted turn closed. Raises as ``LogStore.open``.
        """
        async with self._turns.take(session_id, _RESUME, wait_for=()):
            self._require_open()
            self._require_free(session_id)
            session, follower = await self._open(session_id, live=True)
            try:
                await follower.flush()
                self._require_open()
            except BaseException:
                await self._drop(follower)
                raise
        session.mark_resumed()
        return session

    async def create(self, header: SessionHeader) -> None:
        """Make room for a session in which nobody lives; ``append`` fills it, and nothing is stored before.

        Raises ``SessionAlreadyStored`` when the store has the id, and ``SessionBusy`` when this service has it.
        """
        async with self._turns.take(header.id, _CREATE, wait_for=()):
            self._require_open()
            self._require_free(header.id)
            try:
                stored = await self._run(self.store.read, header.id)
            except SessionNotFound:
                self._require_open()
                self._follow(Session(header), self.store.create(header), live=False)
            else:
                raise SessionAlreadyStored(header.id, stored.source)

    def append(self, session_id: str, events: Sequence[SessionEvent]) -> Coroutine[object, object, None]:
        """Append events to a session in which nobody lives; they are durable when it returns, all of them.

        The events are copied at the call. A session that ``create`` has not made is opened as ``load`` does; the claim
        is kept until ``release``. No events are nothing to do. When more waits than the queue takes, this waits.

        Raises ``SeqConflict`` for events that do not continue the log, ``EventRefused`` for one that breaks its rules,
        and ``SessionBusy`` for a live session, or one that is being opened; then nothing has changed. Raises
        ``WriteFailed`` when they are not durable yet: they are kept, and ``flush``, or appending them again, waits for
        them.
        """
        return self._append(session_id, tuple(events))

    async def room(self, session_id: str) -> None:
        """Return when at least half of the queue is free, or nothing of this session waits.

        For producers that would rather wait than be refused with ``QueueFull``. Raises ``WriteFailed``.
        """
        follower = self._followed.get(session_id)
        if follower is not None and follower.crowded:
            await follower.flush()

    async def flush(self, session_id: str | None = None) -> None:
        """Return when all events of the session, or of every session, are durable.

        A session nobody follows has nothing to flush. Raises ``WriteFailed``, for several sessions in an
        ``ExceptionGroup``.
        """
        if session_id is not None:
            follower = self._followed.get(session_id)
            if follower is not None:
                await follower.flush()
            return
        await self._all(follower.flush() for follower in list(self._followed.values()))

    async def load(self, session_id: str) -> StoredPrefix:
        """Return a stored log with its crash repair committed.

        A live session is flushed and read as it is; inside a turn it raises ``LiveTurnOpen``. A cold load reserves the
        id until it has finished, and waits while another operation does.
        """
        while follower := self._followed.get(session_id):
            stored = await self._load_followed(follower)
            if stored is not None:
                return stored
        async with self._turns.take(session_id, _LOAD):
            self._require_open()
            if session_id not in self._followed:
                return await self._run(recover, self.store, session_id)
        return await self.load(session_id)  # it has begun to live meanwhile

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
        """Return every stored session with header and revision, damaged ones included; one without events is none."""
        self._require_open()
        return await self._run(lambda: list(self.store.list()))

    async def detach(self, session: Session) -> None:
        """Write what is queued and release the claim. Raises ``WriteFailed``, and then goes on following."""
        async with self._turns.take(session.id, _DETACH):
            follower = self._followed.get(session.id)
            if follower is not None and follower.session is session:
                await self._drain_and_drop(follower)

    async def release(self, session_id: str) -> None:
        """Give up the claim that ``create`` or ``append`` keeps. Raises ``WriteFailed``, and then keeps it.

        Raises ``SessionBusy`` for a live session, which ``detach`` lets go of.
        """
        async with self._turns.take(session_id, _RELEASE):
            follower = self._followed.get(session_id)
            if follower is None:
                return
            if follower.live:
                raise SessionBusy(session_id, "a live session, which detach lets go of")
            await self._drain_and_drop(follower)

    def health(self, session_id: str) -> Health:
        """Return how far a session's durability has come. Raises ``SessionNotFound`` when it is not followed."""
        if session_id not in self._followed:
            raise SessionNotFound(session_id, "the followed sessions")
        return self._followed[session_id].health

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
            while queued := [follower for follower in self._followed.values() if follower.queued]:
                await self._all(follower.flush() for follower in queued)
        finally:
            await asyncio.shield(self._release_all())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _append(self, session_id: str, events: tuple[SessionEvent, ...]) -> None:
        self._require_open()
        if not events:
            return
        async with self._turns.take(session_id, _APPEND, wait_for=(_APPEND,)):
            self._require_open()
            follower = self._followed.get(session_id)
            if follower is None:
                _, follower = await self._open(session_id, live=False)
            if follower.live:
                raise SessionBusy(session_id, "a live session; append to that")
            await self.room(session_id)
            follower.session.extend(continuation(follower.session, events, again=follower.handed_over_in_vain))
        try:
            await follower.flush()
        except WriteFailed:
            failed = follower.handed_over_in_vain or range(events[0].seq, events[0].seq)
            first, last = min(failed.start, events[0].seq), max(failed.stop, events[-1].seq + 1)
            follower.handed_over_in_vain = range(first, last)
            raise

    def _follow(self, session: Session, writer: LogWriter, *, durable_seq: int = 0, live: bool = True) -> WriteBehind:
        follower = self._followed[session.id] = WriteBehind(
            session,
            writer,
            durable_seq=durable_seq,
            live=live,
            store=self.store,
            window_ms=self._window_ms,
            threads=self._writers,
            backlog=self._backlog,
            report=self._report,
        )
        return follower

    async def _open(self, session_id: str, *, live: bool) -> tuple[Session, WriteBehind]:
        """Claim a stored log, follow it, and close what its writer left open. The caller holds the turn."""
        opening = self._readers.submit(open_session, self.store, session_id)
        try:
            session, writer = await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            # Nobody takes the writer any more; its claim must not outlive the one who asked.
            opening.add_done_callback(_release)
            raise
        if self._closed:
            writer.close()
            raise PersistenceClosed
        follower = self._follow(session, writer, durable_seq=session.next_seq, live=live)
        session.extend(repair_closers(session.state))
        return session, follower

    async def _load_followed(self, follower: WriteBehind) -> StoredPrefix | None:
        """Return the log of a session that this service follows; None when it has changed meanwhile."""
        session, length = follower.session, follower.session.next_seq
        if not length:
            raise SessionNotFound(session.id, self.store.name)
        if session.state.turn is not None:
            if follower.live:
                raise LiveTurnOpen(session.id)
            session.extend(repair_closers(session.state))
            length = session.next_seq
        await follower.flush()
        stored = await self.inspect(session.id)
        # A longer log may end in a turn that is still open.
        return stored if stored.next_seq == length else None

    async def _drain_and_drop(self, follower: WriteBehind) -> None:
        while follower.queued:  # an event may arrive between the end of a flush and the return to here
            await follower.flush()
        await self._drop(follower)

    async def _drop(self, follower: WriteBehind) -> None:
        if self._followed.get(follower.session.id) is follower:
            del self._followed[follower.session.id]
            await asyncio.shield(follower.release())

    async def _release_all(self) -> None:
        released = [follower.release() for follower in self._followed.values()]
        self._followed.clear()
        await asyncio.gather(*released)
        try:
            await asyncio.to_thread(self._stop)  # it waits for reads under way, and better not on the loop
        except RuntimeError:  # no thread can be started
            self._stop()

    def _stop(self) -> None:
        self._readers.shutdown()
        self._writers.stop()
        self.store.close()

    def _report(self, health: Health) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(health)
            except Exception:
                logger.exception("a health listener failed for session %s", health.session_id)

    async def _run(self, work: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, work, *args)

    @staticmethod
    async def _all(flushes: Iterable[Coroutine[object, object, None]]) -> None:
        results = await asyncio.gather(*flushes, return_exceptions=True)
        errors = [result for result in results if isinstance(result, Exception)]
        if errors:
            raise ExceptionGroup("some sessions have unwritten events", errors)

    def _require_free(self, session_id: str) -> None:
        follower = self._followed.get(session_id)
        if follower is not None:
            holder = "a live session" if follower.live else "create or append of this service; release it first"
            raise SessionBusy(session_id, holder)

    def _require_open(self) -> None:
        if self._closed:
            raise PersistenceClosed


def _superseded(session_id: str) -> Guard:
    def refuse(size_bytes: int) -> None:  # noqa: ARG001  # a session's guard
        raise SessionBusy(session_id, "another live session, which took over the unused id")

    return refuse


def _release(opening: Future[tuple[Session, LogWriter]]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        _, writer = opening.result()
        writer.close()
