"""`python -m crash.interrupt STORE FOLDER KILLS SEED`: kill -9 a harness in its conversation, again and again.

Each run is forked from this process, which has imported everything, and killed right behind an event that is drawn
by lot. What is stored is checked before the next run goes on with it. Orphans fall to this process, so that none is
missed. It prints a JSON object: how many kills there were, how many of them hit a turn, and what went wrong.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NoReturn

from .story import stop_the_clock
from .talk import Talk, converse
from .told import Told, check

PR_SET_CHILD_SUBREAPER = 36
LONGEST = 150
"""A run is killed within so many events; a whole conversation has some eight hundred."""
LAG_S = 0.003
"""How long a kill may lag behind its event: time for a write to get under way."""
WINDOWS_MS = (0, 600_000)
"""Either everything is on its way to the disk at once, or nothing but what a checkpoint sends there."""
END_S = 30
"""Within this everything that a killed harness had started has ended."""


@dataclass(slots=True, kw_only=True)
class Found:
    """What came of it."""

    kills: int = 0
    in_turns: int = 0
    """Kills that left a turn open in the log."""
    waiting: int = 0
    """Kills that left prompts waiting in it."""
    conversations: int = 0
    """All of them were gone through to their end."""
    events: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    """How turns ended."""
    wrong: list[str] = field(default_factory=list)


def attack(kind: str, folder: Path, kills: int, seed: int) -> Found:
    """Hold conversations until so many kills have been survived; the last one is gone through to its end."""
    draw, found = random.Random(seed), Found()
    (folder / "sessions").mkdir()
    while not found.wrong and found.kills < kills:
        found.conversations += 1
        talk = Talk(kind=kind, folder=folder, session_id=f"talk-{found.conversations}")
        talk.work.mkdir(parents=True)
        _hold(talk, kills, draw, found)
    return found


def _hold(talk: Talk, kills: int, draw: random.Random, found: Found) -> None:
    """Go through one conversation, in as many runs as that takes."""
    told = Told()
    while not told.is_done and not found.wrong:
        told.take(_run(talk, draw if found.kills < kills else None))
        left = _wait_for_orphans()
        checked = check(talk, told)
        found.kills += not told.is_done
        found.in_turns += checked.is_open
        found.waiting += checked.is_waiting
        found.wrong += [f"{talk.session_id}: {wrong}" for wrong in [*told.wrong, *left, *checked.wrong]]
    found.events += len(told.stored)
    found.endings.update(checked.endings)


def _run(talk: Talk, draw: random.Random | None) -> list[str]:
    """Return what one run says; with ``draw`` it is killed in the middle."""
    pid, saying = _start(talk, 0 if draw is None else draw.choice(WINDOWS_MS))
    with os.fdopen(saying) as said:
        lines: list[str] = []
        if draw is not None:
            lines += islice(said, draw.randrange(LONGEST))
            time.sleep(draw.uniform(0, LAG_S))
            os.kill(pid, signal.SIGKILL)
        lines += said
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code not in {0, -signal.SIGKILL}:
        lines.append(f"wrong end: exit code {code}\n")
    return lines


def _start(talk: Talk, window_ms: float) -> tuple[int, int]:
    """Fork a run; return its pid and where it can be heard."""
    hearing, saying = os.pipe()
    pid = os.fork()
    if not pid:
        _be_killed(talk, window_ms, saying)
    os.close(saying)
    return pid, hearing


def _be_killed(talk: Talk, window_ms: float, saying: int) -> NoReturn:
    code = 1
    try:
        asyncio.run(converse(talk, lambda line: os.write(saying, f"{line}\n".encode()), window_ms=window_ms))
        code = 0
    except Exception:  # noqa: BLE001  # the main of the forked process
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)  # whatever happens, this process is not a second one of its parent


def _wait_for_orphans() -> list[str]:
    """Wait until everything has ended that the last run had started; return what has not, and end it."""
    deadline = time.monotonic() + END_S
    try:
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.002)
    except ChildProcessError:
        return []
    left = [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode() for pid in left]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return [f"left behind: {command}" for command in commands]


def main() -> None:
    """Attack as the command line says."""
    kind, folder, kills, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    stop_the_clock()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    found = attack(kind, folder, kills, seed)
    print(json.dumps({name: getattr(found, name) for name in Found.__slots__}))


if __name__ == "__main__":
    main()
