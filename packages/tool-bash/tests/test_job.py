from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from dsh_bash import BashDelta, BashStatus
from dsh_tool_bash._job import BashJob

if TYPE_CHECKING:
    from conftest import RecordedProcess


def delta(text: str, *, lossy: bool = False, out: str | None = None, err: str | None = None) -> BashDelta:
    return BashDelta(text=text, lossy=lossy, stdout_spill_path=out, stderr_spill_path=err)


@pytest.mark.parametrize(
    ("status", "exit_code", "signal", "detail"),
    [
        ("running", None, None, ""),
        ("completed", 0, None, "exit code: 0"),
        ("completed", 3, None, "exit code: 3"),
        ("killed", None, "SIGTERM", "signal: SIGTERM"),
        ("killed", None, None, "killed before exit"),
    ],
)
def test_detail(
    process: RecordedProcess, status: BashStatus, exit_code: int | None, signal: str | None, detail: str
) -> None:
    """§5.3: the terminal detail."""
    process.status, process.exit_code, process.signal = status, exit_code, signal
    job = BashJob(process)
    assert (job.status, job.detail) == (status, detail)


def test_output(process: RecordedProcess) -> None:
    """§5.3: output comes as it is, after a notice where some of it is lost."""
    process.deltas = [
        delta("a\n", out="/s/o"),
        delta("b", lossy=True, out="/s/o"),
        delta("c", lossy=True, out="/s/o", err="/s/e"),
        delta("d", lossy=True),
    ]
    job = BashJob(process)
    assert [job.read_output() for _ in range(4)] == [
        "a\n",
        "[output truncated; full output: /s/o]\nb",
        "[output truncated; full output: /s/o, /s/e]\nc",
        "[output truncated; full output: (unavailable)]\nd",
    ]


async def test_kill_and_wait(process: RecordedProcess) -> None:
    """§5.3: killing and waiting reach the process."""
    job = BashJob(process)
    assert (job.kill(), job.kill()) == (True, False)
    waiting = asyncio.create_task(job.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    process.ended.set()
    await waiting
