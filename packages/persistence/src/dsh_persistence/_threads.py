"""The threads in which logs are written; a write that has ended wakes the event loop once."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

from dsh_session import EncodedBatch

from ._seam import GroupCommit, LogWriter

SYNC_THREADS = 4
"""Syncs of several sessions overlap in this many threads; one session's never do."""


class Job:
    """Work for a thread, and whom to tell on the loop: ``done`` gets the error, None after success."""

    __slots__ = ("append", "done", "error", "work")

    def __init__(
        self,
        work: Callable[[], object],
        done: Callable[[BaseException | None], None],
        *,
        append: tuple[LogWriter, EncodedBatch] | None = None,
    ) -> None:
        """``append`` says that ``work`` is this append, which may then be made together with others."""
        self.work = work
        self.done = done
        self.append = append
        self.error: BaseException | None = None

    def run(self) -> None:
        """Do the work. In a thread."""
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001  # handed to the one whom it concerns
            self.error = error


class WriterThreads:
    """A few threads that take jobs in the order they were submitted. Used on one event loop.

    An executor's futures and callbacks would cost about as much as the hop between the threads itself.
    """

    def __init__(self, count: int = SYNC_THREADS) -> None:
        self._count = count
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._under_way = 0
        self._ended: deque[Job] = deque()
        self._woken = False
        """Whether the loop has been told that there are ended jobs, and has not come to it yet."""
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, job: Job) -> None:
        """Hand a job over; it is done even when the loop ends before it.

        Where the machine gives no thread at all it is done here and now: events that wait for one might never be
        written.
        """
        self.expect()
        self.take(job)

    def expect(self) -> None:
        """Make ready for one more job, which ``take`` gets."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._under_way += 1
        if len(self._threads) < min(self._under_way, self._count):
            self._start_thread()

    def take(self, job: Job) -> None:
        """Do a job that was expected. In any thread."""
        if self._threads:
            self._jobs.put(job)
        else:
            job.run()
            self._tell((job,))

    def stop(self) -> None:
        """End the threads once everything submitted is done, and wait for that. Blocks."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _start_thread(self) -> None:
        # A daemon, so that a process whose service was never closed can end; what that cuts was not acknowledged.
        name = f"dsh-persistence-write-{len(self._threads)}"
        thread = threading.Thread(target=self._serve, args=(self._jobs,), name=name, daemon=True)
        with contextlib.suppress(RuntimeError):  # the limit of threads is reached; those there are have to do
            thread.start()
            self._threads.append(thread)

    def _serve(self, jobs: SimpleQueue[Job | None]) -> None:
        while (job := jobs.get()) is not None:
            job.run()
            self._tell((job,))
            del job  # a thread that waits for the next one keeps nothing of a session alive

    def _tell(self, jobs: Sequence[Job]) -> None:
        self._ended.extend(jobs)
        # A wake-up that is due takes these along: each costs the loop more than what it has to do for a write.
        if not self._woken and self._loop is not None:
            self._woken = True
            with contextlib.suppress(RuntimeError):  # a loop that has ended has nobody who waits
                self._loop.call_soon_threadsafe(self._tell_all)

    def _tell_all(self) -> None:
        self._woken = False  # before they are taken: who ends from now on wakes the loop again
        while self._ended:
            job = self._ended.popleft()
            self._under_way -= 1
            job.done(job.error)


class GroupCommitThread(WriterThreads):
    """One thread that makes all appends which wait for it in one call of the store; those that arrive meanwhile follow.

    Whatever else was submitted is done by other threads, so that opening a long log holds no append up, but only after
    the appends submitted before it, so that a writer is never closed before its append.
    """

    def __init__(self, store: GroupCommit) -> None:
        super().__init__(count=1)
        self._store = store
        self._others = WriterThreads()

    def submit(self, job: Job) -> None:
        """Hand a job over."""
        if job.append is not None:
            super().submit(job)
        elif self._threads:
            self._others.expect()
            self._jobs.put(job)
        else:
            self._others.submit(job)

    def stop(self) -> None:
        """End all threads."""
        super().stop()
        self._others.stop()

    def _serve(self, jobs: SimpleQueue[Job | None]) -> None:
        while self._do_what_waits(jobs):  # a call of its own: while it waits, nothing of a session is kept alive here
            pass

    def _do_what_waits(self, jobs: SimpleQueue[Job | None]) -> bool:
        """Wait for a job, do it with all that have come by then, and tell whether more may come."""
        waiting = [jobs.get()]
        with contextlib.suppress(Empty):
            while True:
                waiting.append(jobs.get_nowait())
        submitted = [job for job in waiting if job is not None]
        if group := [job for job in submitted if job.append is not None]:
            self._append(group)
            self._tell(group)
        for job in submitted:
            if job.append is None:
                self._others.take(job)
        return None not in waiting

    def _append(self, group: Sequence[Job]) -> None:
        if len(group) == 1:
            group[0].run()
            return
        try:
            answers = self._store.append_group([job.append for job in group if job.append is not None])
        except Exception as error:  # noqa: BLE001  # handed to everybody in the group
            answers = [error] * len(group)
        for job, answer in zip(group, answers, strict=True):
            job.error = answer if isinstance(answer, Exception) else None
