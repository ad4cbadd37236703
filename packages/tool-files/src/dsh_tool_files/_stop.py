"""Blocking work in a thread, and how it learns that nobody waits for it any more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Abandoned(Exception):
    """The call was cancelled and its work ends here; nobody sees it."""


class Stop:
    """Asked by work between its steps, set by whoever cancels it."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """End the work at its next step."""
        self._event.set()

    def check(self) -> None:
        """Raise ``Abandoned`` when nobody waits any more."""
        if self._event.is_set():
            raise Abandoned


async def in_thread(work: Callable[[Stop], T]) -> T:
    """Run ``work`` in a thread; when cancelled, wait until it has come to its end.

    So nothing is written, and no process runs, after a cancelled call has ended.
    """
    stop = Stop()
    task = asyncio.ensure_future(asyncio.to_thread(work, stop))
    task.add_done_callback(_see)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([task])
        raise


def _see(task: asyncio.Future[T]) -> None:
    """Look at how it ended, for asyncio complains of failures that nobody looks at."""
    if not task.cancelled():
        task.exception()
