"""Batches of several logs made durable together: all of them are written, then synced side by side.

What a log's own sync waits for is mostly the file system's journal, and one commit of it serves all who wait.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TypeAlias

from dsh_persistence import Receipt
from dsh_persistence.files import sync_content
from dsh_session import EncodedBatch

from ._writer import JsonlLogWriter

HELPERS = 3
"""More threads shorten the syncs a little and cost more than that in switching between them."""


Tasks: TypeAlias = deque[Callable[[], None]]
Calls: TypeAlias = SimpleQueue[tuple[Tasks, SimpleQueue[None]] | None]
"""Tasks to help with, and where to tell of each that has ended; None ends a thread."""


class Crew:
    """A few threads that share out tasks with the one who has them.

    They start with the first tasks, and end with ``close`` or with this object. Where the machine gives no thread the
    caller does all of it. Any thread may call ``run``.
    """

    def __init__(self) -> None:
        self._calls: Calls = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        weakref.finalize(self, _dismiss, self._calls, self._threads).atexit = False

    def run(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Do all tasks, none of which may raise, in any order, and return when they are done."""
        waiting, ended = deque(tasks), SimpleQueue[None]()
        for _ in range(min(self._helpers(), len(tasks) - 1)):
            self._calls.put((waiting, ended))
        for _ in range(len(tasks) - _work(waiting, None)):
            ended.get()

    def close(self) -> None:
        """End the threads and wait for that. Idempotent."""
        with self._lock:
            threads = self._threads.copy()
            _dismiss(self._calls, self._threads)
        for thread in threads:
            thread.join()

    def _helpers(self) -> int:
        with self._lock:
            while len(self._threads) < HELPERS:
                # A daemon, so that a process whose store was never closed can end; what that cuts was not acknowledged.
                thread = threading.Thread(target=_help, args=(self._calls,), name="dsh-persistence-sync", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the limit of threads is reached
                    break
                self._threads.append(thread)
            return len(self._threads)


def _help(calls: Calls) -> None:
    """Be one of the threads, which must not keep the crew alive."""
    while (call := calls.get()) is not None:
        _work(*call)


def _dismiss(calls: Calls, threads: list[threading.Thread]) -> None:
    for _ in threads:
        calls.put(None)
    threads.clear()


def _work(waiting: Tasks, ended: SimpleQueue[None] | None) -> int:
    """Take tasks until none waits; return how many that were."""
    done = 0
    with contextlib.suppress(IndexError):  # of a task that somebody else was faster to take
        while True:
            task = waiting.popleft()
            task()
            done += 1
            if ended is not None:
                ended.put(None)
    return done


class _Append:
    """One append of a group, and how far it is."""

    __slots__ = ("_batch", "_error", "_steps", "_writer", "answer", "fd", "is_ordinary")

    def __init__(self, writer: JsonlLogWriter, batch: EncodedBatch) -> None:
        self._writer = writer
        self._batch = batch
        self._steps = writer.appending(batch)
        self._error: OSError | None = None
        self.is_ordinary = writer.is_ready
        self.fd: int | None = None
        """What has to be synced before it goes on."""
        self.answer: Receipt | Exception = RuntimeError("the append has not ended")

    def go_on(self) -> None:
        """Do what comes before the next sync, which is the rest when there is none."""
        fd, error = None, self._error
        try:
            fd = next(self._steps) if error is None else self._steps.throw(error)
        except StopIteration as done:
            self.answer = done.value
        except Exception as failure:  # noqa: BLE001  # handed to the one whom it concerns
            self.answer = failure
        self.fd, self._error = fd, None

    def sync(self) -> None:
        """Make durable what ``go_on`` has written."""
        try:
            if self.fd is not None:
                sync_content(self.fd)
        except OSError as error:
            self._error = error

    def make_alone(self) -> None:
        """Do all of it here."""
        try:
            self.answer = self._writer.append(self._batch)
        except Exception as failure:  # noqa: BLE001  # handed to the one whom it concerns
            self.answer = failure


def append_group(crew: Crew, items: Sequence[tuple[JsonlLogWriter, EncodedBatch]]) -> list[Receipt | Exception]:
    """Append to several logs; return, in order, what each ``append`` would have returned or raised.

    A log that has to be published, mended or repaired first takes many steps, so it is made by one thread alone.
    """
    appends = [_Append(writer, batch) for writer, batch in items]
    tasks = [append.make_alone for append in appends if not append.is_ordinary]
    unsynced = [append for append in appends if append.is_ordinary]
    for append in unsynced:
        append.go_on()
    while tasks or unsynced:
        unsynced = [append for append in unsynced if append.fd is not None]
        crew.run([*tasks, *(append.sync for append in unsynced)])
        tasks = []
        for append in unsynced:
            append.go_on()
    return [append.answer for append in appends]
