"""The proofs can fail: each protection that is taken away is missed by the proof that is about it."""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

import pytest

from dsh_persistence import PersistenceError, SessionCorrupt
from dsh_persistence_jsonl import Encoding

from .figures import Recorder
from .simulate import CrashSim
from .test_exclusion import hold, troubles
from .test_flips import Patient, flip_all

SMALL = ("--sessions=1", "--batches=2")


def caught(figure: Recorder, what: str, tried: int, unit: str, found: int, *, store: str = "zstd") -> None:
    """Take down a control: here what is found is what should be."""
    note = f"found in {found:,}"
    figure(f"control: {what}", store, tried=tried, unit=unit, bad=0 if found else 1, note=note)
    assert found


@pytest.mark.parametrize(("way", "models"), [("no-sync", ["ext4", "strict"]), ("no-folder-sync", ["strict"])])
def test_without_syncs(crashsim: CrashSim, figure: Recorder, way: str, models: list[str]) -> None:
    """Files or names that are never synced survive a kill and no power cut."""
    recording = crashsim.record(crashsim.workload("write", *SMALL, f"--broken={way}"))

    (summary,) = crashsim.replay(recording, "--exhaustive=3", "--randoms=4", "--tears=3")

    caught(figure, way, summary.states, "states", summary.failures)
    assert all(summary.bad_in(model) for model in models), summary.said
    assert not summary.bad_in("kill"), summary.said
    assert "G1" in summary.said


@pytest.mark.full
@pytest.mark.parametrize("store", ["sqlite", "sqlite-delete"])
def test_a_database_that_waits_for_less(crashsim: CrashSim, figure: Recorder, store: str) -> None:
    """A write-ahead log without a sync a commit, and a journal whose removal is not synced, lose commits (G1)."""
    command = crashsim.workload("write", *SMALL, f"--store={store}", "--broken=loose-database")

    few = ["--model=ext4,strict", "--exhaustive=3", "--randoms=4", "--tears=3"]
    (summary,) = crashsim.replay(crashsim.record(command), *few)

    caught(figure, "commits that wait for less", summary.states, "states", summary.failures, store=store)
    assert "G1" in summary.said


def test_a_failed_sync_called_again(crashsim: CrashSim, figure: Recorder) -> None:
    """A sync that succeeds after one that failed, on the same descriptor, has made nothing durable (G11)."""
    states = failures = 0
    for nth in itertools.count(1):
        workload = crashsim.workload("write", *SMALL, "--broken=sync-again")
        recording = crashsim.record(workload, inject=[f"fdatasync:error=EIO:when={nth}"])
        if not recording.failed_syncs:
            break
        (summary,) = crashsim.replay(recording, "--model=ext4,strict")
        states, failures = states + summary.states, failures + summary.failures
        if failures:
            break
    caught(figure, "a failed sync called again", states, "states", failures)


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_without_the_lock(scratch: Path, figure: Recorder) -> None:
    """Writers without a lock get in each other's way, though none overwrites another unnoticed (G13)."""
    found = hold(scratch, "no-lock", processes=16)
    wrong = troubles(scratch, found)
    caught(figure, "no lock", 16, "processes", len(wrong))


def test_without_the_mark(scratch: Path, figure: Recorder) -> None:
    """Without the mark a flip in the last frame cannot be told from a torn write (G5)."""
    patient = Patient(scratch, "zstd", marked=False)
    tried = flip_all(patient, step=3)
    last = [at for at in patient.silent_at if at >= patient.ends[-2]]
    caught(figure, "no mark", tried, "flips", len(last))


class Cutter(Patient):
    """Its reader takes every fault for a torn tail, and cuts it off."""

    def _outcome(self) -> str:
        try:
            self.store.read("one-a")
        except SessionCorrupt as damage:
            os.truncate(self.log, damage.offset or 0)
            self.mark.unlink(missing_ok=True)
        except PersistenceError:
            pass
        outcome = super()._outcome()
        self.log.write_bytes(self.content)
        return outcome


def test_a_reader_that_cuts_at_a_checksum_error(scratch: Path, figure: Recorder) -> None:
    """What repairs rot by cutting loses acknowledged events, and the proof says so (G5)."""
    patient = Cutter(scratch, "zstd")
    tried = flip_all(patient, step=11)
    caught(figure, "cut at a checksum error", tried, "flips", patient.silent)
    assert patient.outcomes["fewer events"] > tried // 2


def test_without_checksums(scratch: Path, figure: Recorder) -> None:
    """A raw log without its mark has nothing that would show an altered event (G5)."""
    encoding: Encoding = "raw"
    patient = Patient(scratch, encoding, marked=False)
    tried = flip_all(patient, step=11)
    altered = patient.outcomes["altered events"]
    caught(figure, "neither checksum nor mark", tried, "flips", altered)
