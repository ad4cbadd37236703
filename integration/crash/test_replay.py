"""Every state that a crash can leave, between any two calls and inside one, in three models of what a disk keeps.

`kill` loses nothing that was issued, `ext4` what its journal may lose, `strict` all that POSIX does not promise.
"""

from __future__ import annotations

import itertools

import pytest

from .figures import Recorder
from .scale import SCALE
from .simulate import JUDGE, CrashSim, Summary, total
from .stores import JOURNALS

raw_in_full = pytest.param("raw", marks=pytest.mark.full)
MODELS = ("kill", "ext4", "strict")
TWO_SESSIONS = ("--sessions=2", "--batches=4")
TOGETHER_SYNCS, DATABASE_SYNCS = ("--sessions=2", "--batches=2"), ("--sessions=1", "--batches=2")
RECOVERIES = {"write": "write {state} --batches=1", "load": "load {state}"}
"""How a session is taken up again: by a writer that goes on, by a load that closes the turn."""


def arguments(workload: str, store: str, sizes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments of a workload; the one that plays a whole life has no sizes."""
    return (workload, f"--store={store}", *(sizes if workload != "live" else ()))


def require_none_bad(summary: Summary) -> None:
    """Every image has to be good, and there have to be some of each model."""
    assert summary.failures == 0, summary.said
    assert all(summary.by_model[model]["states"] for model in MODELS), summary.said


def note_of(summary: Summary) -> str:
    """Return what a figure has to add."""
    parts = [f"{model} {summary.by_model[model]['states']:,}" for model in MODELS if model in summary.by_model]
    return ", ".join([*parts, *([f"refused above the mark: {summary.refused}"] if summary.refused else [])])


@pytest.mark.parametrize(
    ("workload", "store"),
    [
        ("write", "zstd"),
        ("write", "raw"),
        ("together", "zstd"),
        pytest.param("together", "raw", marks=pytest.mark.full),
        ("live", "zstd"),
        pytest.param("live", "raw", marks=pytest.mark.full),
        ("together", "sqlite"),
        pytest.param("write", "sqlite", marks=pytest.mark.full),
        pytest.param("live", "sqlite", marks=pytest.mark.full),
        pytest.param("together", "sqlite-delete", marks=pytest.mark.full),
    ],
)
def test_every_state(crashsim: CrashSim, figure: Recorder, workload: str, store: str) -> None:
    """G1 to G4, G6 to G10: whatever the disk kept, what was acknowledged is there, and the session goes on."""
    is_database = store in JOURNALS
    sizes = SCALE.database if is_database else TWO_SESSIONS if workload == "together" else SCALE.states
    recording = crashsim.record(crashsim.workload(*arguments(workload, store, sizes)))
    assert recording.exit_code == 0

    # In one order the limit would leave out the states of the strictest model.
    shares = [[f"--model={model}", f"--limit={SCALE.database_limit}"] for model in MODELS] if is_database else [[]]
    summary = total([crashsim.replay(recording, *share)[0] for share in shares])

    figure(
        f"crash states, {workload}",
        store,
        tried=summary.states,
        unit="states",
        bad=summary.failures,
        note=note_of(summary),
    )
    require_none_bad(summary)
    assert not summary.refused or store == "raw"


@pytest.mark.parametrize("recovery", RECOVERIES)
@pytest.mark.parametrize("store", ["zstd", raw_in_full, pytest.param("sqlite", marks=pytest.mark.full)])
def test_a_crash_inside_recovery(crashsim: CrashSim, figure: Recorder, recovery: str, store: str) -> None:
    """G7: recovery may itself crash anywhere, and what comes after it finds all the same."""
    recording = crashsim.record(crashsim.workload(*arguments("write", store, SCALE.small)))
    recover = f"{JUDGE.replace('crash.check', 'crash.workload')} {RECOVERIES[recovery]} --store={store}"

    most = SCALE.nested_limit // (SCALE.database_share if store in JOURNALS else 1)
    options = ["--model=ext4,strict", "--limit=400", f"--nested={SCALE.nested}", f"--nested-limit={most}"]
    _, nested = crashsim.replay(recording, *options, "--recover", recover)

    figure(
        f"crash inside recovery, {recovery}",
        store,
        tried=nested.states,
        unit="states",
        bad=nested.failures,
        note=f"in {SCALE.nested} recoveries",
    )
    assert nested.states > SCALE.nested
    assert nested.failures == 0, nested.said


@pytest.mark.parametrize("in_a_row", [1, pytest.param(2, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    ("workload", "store"),
    [
        ("write", "zstd"),
        pytest.param("write", "raw", marks=pytest.mark.full),
        pytest.param("together", "zstd", marks=pytest.mark.full),
        pytest.param("together", "sqlite", marks=pytest.mark.full),
        pytest.param("write", "sqlite-delete", marks=pytest.mark.full),
    ],
)
def test_every_sync_fails(crashsim: CrashSim, figure: Recorder, workload: str, store: str, in_a_row: int) -> None:
    """G11: after a failed sync nothing is promised on the strength of a later one; the bytes are written again.

    In every state that follows, what was dirty at the failure is lost unless it was.
    """
    is_database = store in JOURNALS
    sizes = DATABASE_SYNCS if is_database else TOGETHER_SYNCS if workload == "together" else SCALE.small
    limit = [f"--limit={SCALE.database_limit // 10}"] if is_database else []
    command = crashsim.workload(*arguments(workload, store, sizes))
    states = failures = refused = failed = 0
    for call in ("fsync", "fdatasync"):
        for nth in itertools.count(1, SCALE.sync_step):
            when = f"{nth}..{nth + in_a_row - 1}"
            recording = crashsim.record(command, inject=[f"{call}:error=EIO:when={when}"])
            if not recording.failed_syncs:
                break
            assert recording.exit_code == 0
            (summary,) = crashsim.replay(recording, "--model=ext4,strict", *limit)
            assert summary.failures == 0, f"{call} {when}: {summary.said}"
            states, failures, failed = states + summary.states, failures + summary.failures, failed + 1
            refused += summary.refused
    what = "a failed sync, then a crash" if in_a_row == 1 else f"{in_a_row} failed syncs in a row, then a crash"
    note = f"{failed} syncs" + (f", refused above the mark: {refused}" if refused else "")
    figure(f"{what}, {workload}", store, tried=states, unit="states", bad=failures, note=note)
    assert failed >= 3
