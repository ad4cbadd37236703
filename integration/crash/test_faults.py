"""Every call into the file system fails, once and several times in a row, and a writer is killed at each."""

from __future__ import annotations

import re

import pytest

from .figures import Recorder
from .scale import SCALE
from .simulate import CrashSim

FAULTS = [
    pytest.param("error,short", 1, id="once"),
    pytest.param("error", 2, id="twice"),
    pytest.param("error", 3, id="three-times"),
    pytest.param("kill,killafter", 1, id="kill"),
    pytest.param("sticky", 1, id="for-good", marks=pytest.mark.full),
]
GAVE_UP, KILLED = "3", "-9"


@pytest.mark.parametrize(("modes", "in_a_row"), FAULTS)
@pytest.mark.parametrize("workload", ["write", pytest.param("live", marks=pytest.mark.full)])
@pytest.mark.parametrize("encoding", ["zstd", pytest.param("raw", marks=pytest.mark.full)])
def test_every_call_fails(  # noqa: PLR0917  # its parameters are a table
    crashsim: CrashSim, figure: Recorder, encoding: str, workload: str, modes: str, in_a_row: int
) -> None:
    """G1, G2, G10, G12: what fails raises and is not there; what is tried again is there once; nothing gets stuck.

    The workload tries again, through the same writer and a new one in turn, and has to finish.
    """
    sizes = SCALE.small if workload == "write" else ()
    command = crashsim.workload(workload, f"--encoding={encoding}", *sizes)
    drawn = [] if SCALE.faults is None else [f"--max={SCALE.faults}"]

    summary = crashsim.faults(command, f"--modes={modes}", f"--count={in_a_row}", *drawn)

    calls = re.search(r"dry run exit 0: (\d+) calls", summary.said)
    assert calls, summary.said
    figure(
        f"failing calls, {workload}, {modes}" + (f", {in_a_row} in a row" if in_a_row > 1 else ""),
        encoding,
        tried=summary.states,
        unit="faults",
        bad=summary.failures,
        note=f"{calls[1]} calls",
    )
    assert summary.failures == 0, summary.said
    ends = {"0"} | ({KILLED} if "kill" in modes else set()) | ({GAVE_UP} if modes == "sticky" else set())
    assert set(summary.exits) <= ends, summary.said
