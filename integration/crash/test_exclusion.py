"""One writer at a time, over all processes, however they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dsh_persistence import PersistenceError

from . import contest
from .figures import Recorder
from .scale import SCALE
from .stores import open_store

TIMEOUT_S = 300


def hold(root: Path, *broken: str, store: str = "zstd", processes: int = SCALE.contenders) -> dict[str, Any]:
    """Hold a contest and return what came of it."""
    command = [sys.executable, "-m", "crash.contest", store, str(root), str(processes), "7", *broken]
    search = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": search}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, env=env)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def troubles(root: Path, contest_found: dict[str, Any], *, store: str = "zstd") -> list[str]:
    """Compare what was acknowledged with the log: each event once, and by who says so; and nobody was disturbed."""
    wrote: list[tuple[int, int]] = contest_found["wrote"]
    times = Counter(seq for _, seq in wrote)
    twice = [f"event {seq} was acknowledged {count} times" for seq, count in times.items() if count > 1]
    found = [*contest_found["faults"], *twice]
    try:
        events = open_store(store, root).read(contest.HEADER.id).events
    except PersistenceError as error:
        return [*found, str(error)]
    stored = {event.seq: event.data["by"] for event in events}
    return [*found, *(f"event {seq} of process {pid} is lost" for pid, seq in wrote if stored.get(seq) != pid)]


@pytest.mark.skipif(sys.platform != "linux", reason="forks, and reads /proc/locks")
@pytest.mark.parametrize("store", ["zstd", "sqlite"])
def test_eight_writers_at_a_time(scratch: Path, figure: Recorder, store: str) -> None:
    """G13: of all who open a session one has it, the others are told so; a killed one's claim is gone with it."""
    found = hold(scratch, store=store)

    wrong = troubles(scratch, found, store=store)
    figure(
        "processes contending for a session",
        store,
        tried=SCALE.contenders,
        unit="processes",
        bad=len(wrong),
        note=f"{len(found['wrote']):,} appends acknowledged, {found['busy']:,} refusals",
    )
    assert wrong == []
    assert found["ends"] == {"-9": SCALE.contenders}
    assert len(found["wrote"]) > SCALE.contenders // 4, "hardly anybody got to write: the contest says nothing"
    assert found["busy"] > 0
    assert any("process" in holder for holder in found["holders"])
    open_store(store, scratch).open(contest.HEADER.id).close()
