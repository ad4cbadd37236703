"""Runs that nothing waits for, until it has to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine
from typing import Any

logger = logging.getLogger(__name__)


class DetachedRuns:
    """Owns the tasks of hooks that run beside the loop, by session."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], str] = {}

    def start(self, session_id: str, run: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Let a run go on by itself; what it raises is logged, for nobody may ever await it."""
        task = asyncio.get_running_loop().create_task(run)
        self._tasks[task] = session_id
        task.add_done_callback(self._ended)
        return task

    async def drain(self, timeout_s: float, session_id: str | None = None) -> int:
        """Wait for those of a session, or for all; end what takes longer, and return how many that were.

        Who is cancelled while it waits ends all of them at once.
        """
        mine = [task for task, owner in self._tasks.items() if session_id in (None, owner)]
        if not mine:
            return 0
        try:
            _, pending = await asyncio.wait(mine, timeout=timeout_s)
        except asyncio.CancelledError:
            await _end(mine)
            raise
        await _end(pending)
        return len(pending)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled() and task.exception() is not None:
            logger.error("a hook beside the loop failed", exc_info=task.exception())


async def _end(tasks: Collection[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
