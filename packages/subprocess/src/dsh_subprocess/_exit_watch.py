"""Learn of one child's end without a signal handler and without waiting for any other child."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable

OnExit = Callable[[int | None], None]
"""Gets the wait status, or None when another part of the program took it."""


def watch_exit(loop: asyncio.AbstractEventLoop, pid: int, on_exit: OnExit) -> None:
    """Call ``on_exit`` once on ``loop`` when the child ``pid`` has ended, and reap it.

    A process descriptor wakes the loop where the system has them and one is to be had; else a thread waits.
    """
    try:
        pidfd = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1
    except OSError:
        pidfd = -1
    if pidfd >= 0:
        _watch_pidfd(loop, pid, pidfd, on_exit)
    else:
        watch_exit_in_thread(loop, pid, on_exit)


def watch_exit_in_thread(loop: asyncio.AbstractEventLoop, pid: int, on_exit: OnExit) -> None:
    """The same with a thread; a daemon, because a child may outlive the interest in it."""

    def wait() -> None:
        status = _reap(pid)
        with contextlib.suppress(RuntimeError):  # the loop has closed meanwhile: nobody is left to tell
            loop.call_soon_threadsafe(on_exit, status)

    threading.Thread(target=wait, name=f"dsh-wait-{pid}", daemon=True).start()


def _watch_pidfd(loop: asyncio.AbstractEventLoop, pid: int, pidfd: int, on_exit: OnExit) -> None:
    def ready() -> None:
        loop.remove_reader(pidfd)
        os.close(pidfd)
        on_exit(_reap(pid))  # returns at once: the descriptor says that the child has ended

    loop.add_reader(pidfd, ready)


def _reap(pid: int) -> int | None:
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return None
