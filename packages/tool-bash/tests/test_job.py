from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from dsh_agent import JobOutcome
from dsh_bash import BashDelta, BashStatus
from dsh_tool_bash._job import BashJob

if TYPE_CHECKING:
    from conftest import RecordedProcess


def delta(text: str, *, lossy: bool = False, out: str | None = None, err: str | None = None) -> BashDelta:
    return BashDelta(text=text, lossy=lossy, stdout_spill_path=out, stderr_spill_path=err)


@pytest.mark.parametrize(
    ("status", "exit_code", "signal", "outcome"),
    [
        ("completed", 0, None, ("completed", "exit code: 0")),
        ("completed", 3, None, ("completed", "exit code: 3")),
        ("killed", None, "SIGTERM", ("killed", "signal: SIGTERM")),
        ("killed", None, None, ("killed", "killed before exit")),
        ("killed", 0, None, ("killed", "killed before exit")),
    ],
)
async def test_outcome(
    process: RecordedProcess,
    status: BashStatus,
    exit_code: int | None,
    signal: str | None,
    outcome: tuple[str, str],
) -> None:
    """§5.3: how it ended."""
    process.status, process.exit_code, process.signal = status, exit_code, signal
    process.ended.set()
    process.gone.set()
    ended = await BashJob(process).wait()
    assert (ended.status, ended.detail) == outcome


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


async def test_cancel_and_wait(process: RecordedProcess) -> None:
    """§5.3: cancelling and waiting reach the process."""
    job = BashJob(process)
    waiting = asyncio.create_task(job.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    job.cancel("enough")
    assert await waiting == JobOutcome(status="killed", detail="killed before exit")


@pytest.mark.parametrize(
    ("exit_code", "signal", "how"),
    [(0, None, "with exit code 0"), (3, None, "with exit code 3"), (None, "SIGHUP", "by SIGHUP")],
)
async def test_has_not_ended_while_its_tree_lives(
    process: RecordedProcess, exit_code: int | None, signal: str | None, how: str
) -> None:
    """G10: a job whose shell has ended runs on with what the shell started, and says so."""
    job = BashJob(process)
    waiting = asyncio.create_task(job.wait())
    assert job.remark == ""
    process.status, process.exit_code, process.signal = "completed", exit_code, signal
    process.ended.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (waiting.done(), job.remark) == (False, f"its shell has ended {how}; processes it started still run")
    process.gone.set()
    assert (await waiting).status == "completed"


async def test_cancelled_when_only_its_tree_lives(process: RecordedProcess) -> None:
    """G10: what was ended on request is not called completed, and how the shell had ended is kept."""
    job = BashJob(process)
    waiting = asyncio.create_task(job.wait())
    process.status, process.exit_code = "completed", 0
    process.ended.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    job.cancel("enough")
    assert await waiting == JobOutcome(status="killed", detail="exit code: 0; what it left running was ended")
