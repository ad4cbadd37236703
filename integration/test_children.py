"""Commands by the thousand and by the gigabyte: nothing leaks, nothing grows, nothing is late (spec CHILDREN, G22)."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from dsh_bash import BashExecRequest, BashRunResult
from dsh_bash_local import LocalBash, LocalBashConfig

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

SPAWNS = 10_000
AT_ONCE = 16
SETTLED_S = 3
"""By then what a burst had more of keepers than are kept has ended."""
FLOOD_BYTES = 1_000_000_000
TAIL_BYTES = 65_536
GROWTH_BYTES = 16 << 20


async def _run(bash: LocalBash, command: str, **fields: float) -> BashRunResult:
    return await bash.run(bash.resolve(BashExecRequest(command=command, workdir="/", **fields)))  # type: ignore[arg-type]  # the fields are its own


def _held() -> tuple[int, int, int]:
    """Return how many descriptors, threads and children this process has."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count(), len(children)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_ten_thousand_commands_leak_nothing() -> None:
    """No descriptor, no thread and no process is left of them, nor memory by the command."""
    before = _held()
    async with LocalBash() as bash:

        async def some(count: int) -> None:
            for _ in range(count):
                assert (await _run(bash, "exit 7")).exit_code == 7

        await asyncio.gather(*(some(10) for _ in range(AT_ONCE)))
        await asyncio.sleep(SETTLED_S)
        warm, memory = _held(), _resident_bytes()
        await asyncio.gather(*(some(SPAWNS // AT_ONCE) for _ in range(AT_ONCE)))
        await asyncio.sleep(SETTLED_S)
        assert warm == _held()
        assert _resident_bytes() - memory < GROWTH_BYTES
    assert before == _held()


async def test_a_flood_fits_into_its_tail() -> None:
    """A gigabyte of output costs the tail that is kept, whole files are bounded, and the loop goes on meanwhile."""
    lags: list[float] = []

    async def tick() -> None:
        while True:
            begun = time.monotonic()
            await asyncio.sleep(0.01)
            lags.append(time.monotonic() - begun - 0.01)

    async with LocalBash(LocalBashConfig(max_output_bytes=TAIL_BYTES, max_spill_bytes=1 << 20)) as bash:
        await _run(bash, "true")
        memory = _resident_bytes()
        ticking = asyncio.create_task(tick())
        result = await _run(bash, f"head -c {FLOOD_BYTES} /dev/zero | tr '\\0' 'x'; echo; echo end")
        ticking.cancel()
    assert result.exit_code == 0
    assert FLOOD_BYTES + 5 == result.stdout.total_bytes
    assert result.stdout.truncated
    assert result.stdout.text.endswith("x\nend\n")
    assert len(result.stdout.text) == TAIL_BYTES
    assert result.stdout.spill_path is None, "the file would be longer than it may be"
    assert _resident_bytes() - memory < GROWTH_BYTES
    assert max(lags) < 5, "the loop was kept from everything else"


async def test_a_flood_ends_at_its_deadline() -> None:
    """Two endless floods end when their time is up, with everything that made them."""
    async with LocalBash(LocalBashConfig(max_output_bytes=TAIL_BYTES, grace_ms=500)) as bash:
        memory, begun = _resident_bytes(), time.monotonic()
        result = await _run(bash, "trap '' TERM; yes & yes >&2 & wait; yes", timeout_ms=500)
        took = time.monotonic() - begun
        assert result.timed_out
        assert (TAIL_BYTES, TAIL_BYTES) == (len(result.stdout.text), len(result.stderr.text))
        assert _resident_bytes() - memory < GROWTH_BYTES
        assert took < 20, "it was waited for long after its deadline and its grace"
