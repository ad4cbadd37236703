"""`python -m crash.contest ROOT PROCESSES SEED`: many writers of one session, most of them killed (G13).

Eight processes at a time each try to open the session, append to it while they hold it, and are killed at a random
moment. They are forked from this one, which has imported everything, and it reaps them itself. It prints a JSON
object: what was acknowledged, by whom, how often somebody was refused, and what went wrong for who was not.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from dsh_persistence import PersistenceError, SessionBusy
from dsh_session import EncodedBatch, SessionEvent, SessionHeader

from . import broken
from .stores import JOURNALS, open_store

AT_A_TIME = 8
HEADER = SessionHeader(id="contended", created_at=0, cwd="/work")
LONGEST_S, LONGEST_DATABASE_S = 0.25, 0.5
"""How long a writer lives at most; a database takes longer to open."""


def event(seq: int, pid: int) -> SessionEvent:
    """Return what a process writes at a seq; it names the process."""
    return SessionEvent(type="plugin:crash/turn", seq=seq, time=0, encoded=b'{"by":%d}' % pid, ignorable=True)


def contend(kind: str, root: Path, said: int) -> None:
    """Be one of the writers until killed; each acknowledgement, and each refusal, is one line."""
    store, pid, parent = open_store(kind, root), os.getpid(), os.getppid()
    while os.getppid() == parent:
        try:
            with store.open(HEADER.id) as writer:
                for _ in range(random.randrange(1, 6)):
                    due = writer.next_seq
                    writer.append(EncodedBatch(first_seq=due, events=(event(due, pid),)))
                    os.write(said, f"wrote {pid} {due}\n".encode())
        except SessionBusy as busy:
            os.write(said, f"busy {pid} {busy.holder}\n".encode())
            time.sleep(0.001)
        except PersistenceError as error:
            os.write(said, f"fault {pid} {error}\n".encode())


def hold(kind: str, root: Path, processes: int, seed: int, said: int) -> Counter[str]:
    """Start so many processes, eight at a time, kill each after a random while; return how they ended."""
    draw, longest = random.Random(seed), LONGEST_DATABASE_S if kind in JOURNALS else LONGEST_S
    living: dict[int, float] = {}
    ends: Counter[str] = Counter()
    started = 0
    while living or started < processes:
        while len(living) < AT_A_TIME and started < processes:
            started += 1
            pid = os.fork()
            if not pid:
                random.seed(started)
                contend(kind, root, said)
                os._exit(1)  # whoever should have killed it is gone
            living[pid] = time.monotonic() + draw.uniform(0, longest)
        for pid in [pid for pid, until in living.items() if until < time.monotonic()]:
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            ends[str(os.waitstatus_to_exitcode(status))] += 1
            del living[pid]
        time.sleep(0.001)
    return ends


def main() -> None:
    """Hold the contest; with a fifth argument, a protection is taken away."""
    kind, root, processes, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    if sys.argv[5:]:
        broken.WAYS[sys.argv[5]]()
    store = open_store(kind, root)
    with store.create(HEADER) as writer:
        writer.append(EncodedBatch(first_seq=0, events=(event(0, os.getpid()),)))
    log = root / "said"
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    ends = hold(kind, root, processes, seed, said)
    lines = [line.split(maxsplit=2) for line in log.read_text().splitlines()]
    wrote = [(int(pid), int(seq)) for word, pid, seq in lines if word == "wrote"]
    holders = Counter(holder for word, _, holder in lines if word == "busy")
    faults = [text for word, _, text in lines if word == "fault"]
    counts = {"busy": holders.total(), "holders": list(holders), "ends": ends}
    print(json.dumps({"wrote": wrote, "faults": faults, **counts}))


if __name__ == "__main__":
    main()
