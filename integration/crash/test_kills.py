"""SIGKILL at random moments, and a power cut of a real file system."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from .figures import Recorder
from .scale import SCALE
from .simulate import CrashSim
from .stores import JOURNALS

FILE_SYSTEMS = [("ext4", ""), ("ext4", "data=writeback"), ("xfs", "")]


@pytest.mark.parametrize(
    "store", ["zstd", *(pytest.param(kind, marks=pytest.mark.full) for kind in ("raw", "sqlite", "sqlite-delete"))]
)
def test_kill(crashsim: CrashSim, figure: Recorder, store: str) -> None:
    """G1, G2: one folder outlives writer after writer, each killed at a random moment, and only ever grows."""
    command = crashsim.workload("write", f"--store={store}", "--batches=3")

    rounds = SCALE.kills // (SCALE.database_share if store in JOURNALS else 1)
    # A start takes most of a run; a kill before the first write proves nothing.
    summary = crashsim.kill(command, "-n", str(rounds), "--cumulative", "--skip=0.08")

    hit = re.search(r"(\d+) of \d+ rounds were killed while running", summary.said)
    assert hit, summary.said
    figure(
        "kill -9, one folder",
        store,
        tried=summary.states,
        unit="rounds",
        bad=summary.failures,
        note=f"{hit[1]} hit a running writer",
    )
    assert summary.failures == 0, summary.said
    assert int(hit[1]) > rounds // 8


@pytest.mark.full
@pytest.mark.parametrize("store", ["zstd", "raw", "sqlite"])
@pytest.mark.parametrize("disk", FILE_SYSTEMS, ids=" ".join)
def test_power_cut(crashsim: CrashSim, figure: Recorder, disk: tuple[str, str], store: str, tmp_path: Path) -> None:
    """G1 to G4 where nothing is modelled: what the kernel had made durable is what there is."""
    file_system, options = disk
    rounds = SCALE.power_cuts // (2 if store in JOURNALS else 1)
    _require_loop_devices(tmp_path, file_system)
    command = crashsim.workload("write", f"--store={store}", "--batches=60")  # so long that most cuts hit it
    more = [f"--mount-options={options}"] if options else []

    summary = crashsim.power_cut(command, f"--fs={file_system}", "-n", str(rounds), "--skip=0.08", *more)

    cut = re.search(r"(\d+) of \d+ rounds were cut while", summary.said)
    assert cut, summary.said
    figure(
        f"power cut, {file_system} {options}".rstrip(),
        store,
        tried=summary.states,
        unit="rounds",
        bad=summary.failures,
        note=f"{cut[1]} hit a running writer",
    )
    assert summary.failures == 0, summary.said
    assert int(cut[1]) > rounds // 8


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
