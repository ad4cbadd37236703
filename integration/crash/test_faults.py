"""Every call into the file system fails, once and several times in a row, and a writer is killed at each."""

from __future__ import annotations

import re

import pytest

from .figures import Recorder
from .scale import SCALE
from .simulate import CrashSim
from .stores import JOURNALS

FAULTS = {
    "once": "--modes=error,short",
    "twice": "--modes=error --count=2",
    "three times": "--modes=error --count=3",
    "killed there": "--modes=kill,killafter",
    "from then on": "--modes=sticky --errors=EIO",
}
"""What is asked of crashsim; each error is EIO, ENOSPC and EINTR where nothing else is said."""
EVERYTHING, ONE_ERROR = "", "--errors=EIO"
FAILED_AND_KILLED = ("once", "killed there")
WORKLOADS = {
    ("write", "zstd"): dict.fromkeys(FAULTS, EVERYTHING),
    ("write", "raw"): {"once": EVERYTHING, "twice": ONE_ERROR, "three times": ONE_ERROR, "killed there": EVERYTHING},
    ("together", "zstd"): {"once": EVERYTHING, "twice": ONE_ERROR, "killed there": EVERYTHING},
    ("live", "zstd"): {"once": EVERYTHING, "twice": ONE_ERROR, "three times": ONE_ERROR, "killed there": EVERYTHING},
    ("live", "raw"): dict.fromkeys(FAILED_AND_KILLED, ONE_ERROR),
    ("write", "sqlite"): {"once": ONE_ERROR, "twice": ONE_ERROR, "killed there": ONE_ERROR},
    ("together", "sqlite"): {"once": ONE_ERROR},
    ("write", "sqlite-delete"): dict.fromkeys(FAILED_AND_KILLED, ONE_ERROR),
}
"""Of the others so much as may behave differently there."""
DATABASE_FAULTS = 60
"""How many are drawn for a database, whose calls are SQLite's own and much alike."""
GAVE_UP, KILLED = "3", "-9"


def _cases() -> list[object]:
    return [
        pytest.param(
            *(workload, store, fault, f"{FAULTS[fault]} {more}".split()),
            id=f"{workload}-{store}-{fault.replace(' ', '-')}",
            marks=[pytest.mark.full] if (workload, store) != ("write", "zstd") or fault == "from then on" else [],
        )
        for (workload, store), faults in WORKLOADS.items()
        for fault, more in faults.items()
    ]


@pytest.mark.parametrize(("workload", "store", "fault", "options"), _cases())
def test_every_call_fails(  # noqa: PLR0917  # its parameters are a table
    crashsim: CrashSim, figure: Recorder, workload: str, store: str, fault: str, options: list[str]
) -> None:
    """G1, G2, G10, G12: what fails raises and is not there; what is tried again is there once; nothing gets stuck.

    The workload tries again, through the same writer and a new one in turn, and has to finish.
    """
    sizes = {"write": SCALE.small, "together": ("--sessions=2", "--batches=2"), "live": ()}[workload]
    command = crashsim.workload(workload, f"--store={store}", *sizes)
    most = SCALE.faults or (DATABASE_FAULTS if store in JOURNALS else None)
    drawn = [] if most is None else [f"--max={most}"]

    summary = crashsim.faults(command, *options, *drawn)

    calls = re.search(r"dry run exit 0: (\d+) calls", summary.said)
    assert calls, summary.said
    figure(
        f"failing calls, {workload}, {fault}",
        store,
        tried=summary.states,
        unit="faults",
        bad=summary.failures,
        note=f"{calls[1]} calls",
    )
    assert summary.failures == 0, summary.said
    ends = {"0", *([KILLED] if fault == "killed there" else []), *([GAVE_UP] if fault == "from then on" else [])}
    assert set(summary.exits) <= ends, summary.said
