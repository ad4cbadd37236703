"""SIGKILL at random moments, and a power cut of a real file system."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from .figures import Recorder
from .scale import SCALE
from .simulate import CrashSim, Summary
from .stores import JOURNALS

SKIPPED_START = "--skip=0.08"
"""A start takes most of a run; a kill before the first write proves nothing."""
MOST_ATTACKS = 5
FILE_SYSTEMS = [("ext4", ""), ("ext4", "data=writeback"), ("xfs", "")]


@pytest.mark.parametrize(
    "store", ["zstd", *(pytest.param(kind, marks=pytest.mark.full) for kind in ("raw", "sqlite", "sqlite-delete"))]
)
def test_kill(crashsim: CrashSim, figure: Recorder, store: str) -> None:
    """G1, G2: one folder outlives writer after writer, each killed at a random moment, and only ever grows."""
    command = crashsim.workload("write", f"--store={store}", "--batches=3")

    rounds = SCALE.kills // (SCALE.database_share if store in JOURNALS else 1)
    options = ["-n", str(rounds), "--cumulative", SKIPPED_START]
    _strike(lambda: crashsim.kill(command, *options), rounds, partial(figure, "kill -9, one folder", store))


@pytest.mark.full
@pytest.mark.parametrize("store", ["zstd", "raw", "sqlite"])
@pytest.mark.parametrize("disk", FILE_SYSTEMS, ids=" ".join)
def test_power_cut(crashsim: CrashSim, figure: Recorder, disk: tuple[str, str], store: str, tmp_path: Path) -> None:
    """G1 to G4 where nothing is modelled: what the kernel had made durable is what there is."""
    file_system, mounted = disk
    rounds = SCALE.power_cuts // (2 if store in JOURNALS else 1)
    _require_loop_devices(tmp_path, file_system)
    command = crashsim.workload("write", f"--store={store}", "--batches=60")  # so long that most cuts hit it
    more = [f"--mount-options={mounted}"] if mounted else []
    options = [f"--fs={file_system}", "-n", str(rounds), SKIPPED_START, *more]
    take_down = partial(figure, f"power cut, {file_system} {mounted}".rstrip(), store)
    _strike(lambda: crashsim.power_cut(command, *options), rounds, take_down)


def _strike(attack: Callable[[], Summary], rounds: int, take_down: Callable[..., None]) -> None:
    """Attack until enough rounds have hit a running writer: their moments are drawn from the time a first run took.

    A machine that is busier during that run than later makes them come late.
    """
    tried = failures = hits = 0
    for _ in range(MOST_ATTACKS):
        summary = attack()
        found = re.search(r"(\d+) of \d+ rounds were (?:killed|cut) while", summary.said)
        assert found, summary.said
        tried, failures, hits = tried + summary.states, failures + summary.failures, hits + int(found[1])
        if failures or hits > rounds // 8:
            break
    take_down(tried=tried, unit="rounds", bad=failures, note=f"{hits} hit a running writer")
    assert failures == 0, summary.said
    assert hits > rounds // 8


def _require_loop_devices(folder: Path, file_system: str) -> None:
    """Skip where no image can be made and mounted."""
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        pytest.skip("a power cut needs root and loop devices")
    package = {"ext4": "e2fsprogs", "xfs": "xfsprogs"}[file_system]
    if shutil.which(f"mkfs.{file_system}") is None:
        pytest.skip(f"no mkfs.{file_system}: apt-get install {package}")
    image, mount = folder / "image", folder / "mount"
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(320 << 20)
    _run(f"mkfs.{file_system}", "-q", str(image))
    mounted = subprocess.run(["mount", "-o", "loop", str(image), str(mount)], check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip(f"this kernel mounts no {file_system} image")
    _run("umount", str(mount))
    image.unlink()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
