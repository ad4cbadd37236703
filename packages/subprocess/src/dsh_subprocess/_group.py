"""A process group as one thing: signal it, and say whether anything of it still lives."""

from __future__ import annotations

import contextlib
import os
import signal


class ProcessGroup:
    """The group led by one child of ours.

    Its number stays taken while any process of the group exists, so signalling is safe as long as the group was seen
    alive a moment ago; after ``alive`` has said False once, nothing is sent any more.
    """

    def __init__(self, pgid: int) -> None:
        self.pgid = pgid
        self._gone = False
        self._leader_ended = False
        self._witness = -1

    def leader_ended(self) -> None:
        """Note that the first process has been reaped: its number alone no longer names it."""
        self._leader_ended = True

    def send(self, number: signal.Signals) -> None:
        """Send ``number`` to the whole group, or to the first process where the group cannot be signalled."""
        if self._gone:
            return
        try:
            os.killpg(self.pgid, number)
        except (ProcessLookupError, PermissionError):
            if not self._leader_ended:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(self.pgid, number)

    def alive(self) -> bool:
        """Return whether the group has a process that can still run (BEHAVIOUR 2.24).

        A group of nothing but zombies is gone: who reaps them, and when, is not ours to wait for. A group that may
        not be signalled lives.
        """
        if self._gone:
            return False
        if not self._leader_ended:
            return True
        try:
            os.killpg(self.pgid, 0)
        except ProcessLookupError:
            self._gone = True
        except PermissionError:
            return True
        else:
            self._gone = self._only_zombies()
        return not self._gone

    def _only_zombies(self) -> bool:
        """Return whether every member is a zombie, as far as /proc shows; no member in sight proves nothing.

        The process found alive last time is asked first: while it lives, one small read answers.
        """
        if self._witness >= 0 and _membership(self._witness, self.pgid) == "live":
            return False
        zombies = False
        for pid in _processes():
            match _membership(pid, self.pgid):
                case "live":
                    self._witness = pid
                    return False
                case "zombie":
                    zombies = True
                case _:
                    pass
        return zombies


def _processes() -> list[int]:
    try:
        with os.scandir("/proc") as entries:
            return [int(entry.name) for entry in entries if entry.name.isdigit()]
    except OSError:
        return []  # no /proc on this system; the answer of kill stands


def _membership(pid: int, pgid: int) -> str:
    """Return ``live``, ``zombie`` or ``other``; a zombie first thread whose process runs on is ``live``."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            # The name, in parentheses, may hold anything; what follows the last one is numbers: state, ppid, pgrp.
            fields = stat.read().rpartition(b")")[2].split()
    except OSError:
        return "other"
    if int(fields[2]) != pgid:
        return "other"
    threads = int(fields[17])
    return "zombie" if fields[0] in (b"Z", b"X", b"x") and threads <= 1 else "live"
