"""What the tests of the kernel hold it up with, and watch it by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from dsh_context import Context, Plugin, ServiceKey


@dataclass
class Gate:
    """A place in a start or cleanup where the test holds it."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self) -> None:
        self.reached.set()
        async with asyncio.timeout(10):  # a test that fails before it opens the gate ends all the same
            await self.opened.wait()


class Kit:
    """Gates, plugins that write down what they do, and work beside the test."""

    gate = Gate

    @staticmethod
    async def turn_over() -> None:
        """Let everything run that can."""
        for _ in range(20):
            await asyncio.sleep(0)

    @staticmethod
    @asynccontextmanager
    async def beside(work: Awaitable[Any]) -> AsyncIterator[asyncio.Task[Any]]:
        """Run work beside the test; it must end within the block."""

        async def run() -> Any:
            return await work

        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            yield group.create_task(run())

    @staticmethod
    def logged(
        name: str,
        log: list[str],
        *needs: ServiceKey[Any],
        start: Callable[[], Awaitable[None]] | None = None,
        stop: Callable[[], Awaitable[None]] | None = None,
    ) -> Plugin[None]:
        """A plugin that writes +name and -name and may be held in its start or its cleanup."""

        async def run(ctx: Context, config: None) -> None:
            log.append(f"+{name}")

            async def undo() -> None:
                if stop is not None:
                    await stop()
                log.append(f"-{name}")

            ctx.effect(undo)
            if start is not None:
                await start()

        return Plugin(name=name, start=run, needs=needs)


@pytest.fixture
def kit() -> Kit:
    return Kit()


@pytest.fixture
async def reports() -> list[dict[str, Any]]:
    """What reached the loop's exception handler."""
    found: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: found.append(context))
    return found
