"""SIGKILL of the whole loop, at random events of conversations of thirty turns with commands, files and jobs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .figures import Recorder
from .scale import FULL

KILLS = 200 if FULL else 16
TIMEOUT_S = 900
SEED = 7

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and orphans fall to the test")


@pytest.mark.parametrize("store", ["zstd", "raw", "sqlite"])
def test_a_conversation_outlives_kills(scratch: Path, figure: Recorder, store: str) -> None:
    """Each resume goes on with everything that was acknowledged, and nothing that anybody said goes unheard.

    The log loads and breaks no rule. No model sees a call without its result, no tool has run that the log does not
    know of. What waited waits, turns, steps and calls are balanced in the end, and nothing of a killed harness runs on.
    """
    found = attack(store, scratch)

    figure(
        "kill -9 of the loop, resumed",
        store,
        tried=found["kills"],
        unit="kills",
        bad=len(found["wrong"]),
        note=f"{found['in_turns']} hit a turn, {found['waiting']} left prompts waiting; {found['events']:,} events",
    )
    assert [] == found["wrong"]
    assert KILLS == found["kills"]
    assert found["in_turns"] > KILLS // 2, "hardly any kill hit a turn: they prove nothing"
    assert found["waiting"] > KILLS // 8, "hardly any kill found anything waiting"
    assert found["endings"].keys() == {"completed", "interrupted"}


def attack(store: str, folder: Path) -> dict[str, Any]:
    """Kill conversations in a process of their own, and return what came of it."""
    command = [sys.executable, "-m", "crash.interrupt", store, str(folder), str(KILLS), str(SEED)]
    search = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": search}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, env=env)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
