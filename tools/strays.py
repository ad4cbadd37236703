"""Run a command and fail when it leaves a process behind: `python tools/strays.py COMMAND …`.

This process becomes the one that orphans fall to, so that a child which escaped its group or session is seen as well.
Linux only; elsewhere the command simply runs.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

PR_SET_CHILD_SUBREAPER = 36
GRACE_S = 1.0
"""What was told to end may still be ending when the command does."""


def _run(command: list[str]) -> int:
    """Run the command to its end, reaping orphans like an init; return its exit code."""
    child = subprocess.Popen(command)

    def forward(signum: int, _frame: FrameType | None) -> None:
        child.send_signal(signum)

    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the command as well
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            return abs(os.waitstatus_to_exitcode(status))


def _children() -> list[int]:
    """Return the living processes that fell to this one."""
    deadline = time.monotonic() + GRACE_S
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.02)
        return [int(pid) for pid in Path("/proc/thread-self/children").read_text().split()]
    return []


def _describe(pid: int) -> str:
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        environment = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
        test = "".join(entry for entry in environment if entry.startswith("PYTEST_CURRENT_TEST="))
        return f"{pid} {command.strip()} {test}".rstrip()
    return str(pid)


def main(command: list[str]) -> int:
    """Run the command; name and kill what is left of it."""
    if sys.platform != "linux":
        return subprocess.run(command, check=False).returncode
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    code = _run(command)
    left = 0
    while strays := _children():  # killing one hands its own children over
        for pid in strays:
            left += 1
            print(f"left behind: {_describe(pid)}", file=sys.stderr)
            os.kill(pid, signal.SIGKILL)
    return code or (1 if left else 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
