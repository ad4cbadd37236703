"""What tests of running commands wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what is about to hold; the bound only prevents a hang."""
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    """A zombie is dead: what nobody reaps here is reaped by whoever inherited it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
