"""Runs that nothing waits for, until it has to."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class DetachedRuns:
    """Owns the tasks of hooks that run beside the loop, by session."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], str] = {}

    def start(self, session_id: str, run: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Let a run go on by itself; it tells what fails in it itself."""
        task = asyncio.get_running_loop().create_task(run)
        self._tasks[task] = session_id
        task.add_done_callback(self._tasks.pop)
        return task

    async def drain(self, timeout_s: float, session_id: str | None = None) -> int:
        """Wait for those of a session, or for all; end what takes longer, and return how many that were."""
        mine = [task for task, owner in self._tasks.items() if session_id in (None, owner)]
        if not mine:
            return 0
        _, pending = await asyncio.wait(mine, timeout=timeout_s)
        for task in pending:
            task.cancel()
        if pending:
            await asyncio.wait(pending)
        return len(pending)
