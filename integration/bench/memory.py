"""The peak memory of a process that reads a log; started as a process of its own, it measures itself.

VmHWM and not `ru_maxrss`, which a child inherits from its parent. Pages of a mapped file count once they were touched.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from dsh_persistence_jsonl import JsonlLogStore

from .contest import Figure, require, say
from .logs import Logs

MIB = 1 << 20
ALLOWANCE_MIB = 32
RUNS = 3


def peak(logs: Logs) -> Iterable[Figure]:
    """Measure how much more a process takes that reads the biggest log than one that only imports the same."""
    log = logs.big
    if not Path("/proc/self/status").exists():
        return
    root = str(log.store.root)
    more: list[float] = []
    for run in range(RUNS):
        say(f"memory, run {run + 1} of {RUNS}")
        more.append((_child(root, log.id, str(log.events)) - _child(root)) / MIB)
    size_mib = log.path.stat().st_size / MIB
    against = f"an idle interpreter with the same imports; the log has {size_mib:.0f} MiB"
    yield Figure(what="memory of read()", value=max(more), unit="MiB", against=against, most=size_mib + ALLOWANCE_MIB)


def _child(*arguments: str) -> int:
    """Return the bytes a fresh interpreter took at most."""
    command = [sys.executable, "-m", "bench.memory", *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout)


def _main(root: str, session_id: str = "", events: str = "0") -> None:
    store = JsonlLogStore(root)
    if session_id:
        prefix = store.read(session_id)
        require(int(events), len(prefix.events), "events of read()")
        require(int(events) - 1, prefix.events[-1].seq, "the last seq")
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(int(status["VmHWM"].split()[0]) << 10)


if __name__ == "__main__":
    _main(*sys.argv[1:])
