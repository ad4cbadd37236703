"""A tree as a process group: what systems without keepers have. A process that makes its own session escapes it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping

from ._exit_watch import watch_exit
from ._group import ProcessGroup
from ._minder import Watched
from ._spec import SpawnSpec
from ._start_failure import start_failure
from ._stdio import Stdio

POLL_S = 0.015
_IDLE_POLL_S = 0.5


class GroupMinder:
    """Starts the first process here, as the leader of its session, and asks the system whether its group lives."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tree: Watched | None = None
        self._group = ProcessGroup(-1)
        self._exited = self._gone = False
        self._poll_s = POLL_S
        self._timer: asyncio.TimerHandle | None = None

    def start(self, spec: SpawnSpec, env: Mapping[str, str], stdio: Stdio, tree: Watched) -> None:
        """Start the first process, and wait until the system has done so or refused it."""
        stdin, stdout, stderr = stdio.child
        try:
            process = subprocess.Popen(
                list(spec.argv),
                cwd=spec.cwd,
                env=env,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                close_fds=True,
            )
        except OSError as error:
            tree.failed(start_failure(spec, error))
            return
        finally:
            stdio.close_child()
        # Reaping is ours from here on: with a return code set, the object neither waits nor warns.
        process.returncode = 0
        self._tree = tree
        self._group = ProcessGroup(process.pid)
        watch_exit(self._loop, process.pid, self._child_ended)
        tree.started_as(process.pid)

    def terminate(self) -> None:
        """Send SIGTERM to the group, and wake what is stopped, which would not see it."""
        self._group.send(signal.SIGTERM)
        self._group.send(signal.SIGCONT)
        self.hurry()

    def kill(self) -> None:
        """Send SIGKILL to the group."""
        self._group.send(signal.SIGKILL)
        self.hurry()

    def hurry(self) -> None:
        """Look now, and often from now on."""
        self._poll_s = POLL_S
        self._look()

    def _child_ended(self, status: int | None) -> None:
        self._exited = True
        self._group.leader_ended()
        if self._tree is not None:
            self._tree.exited(None if status is None else os.waitstatus_to_exitcode(status))
        self.hurry()

    def _look(self) -> None:
        """See whether the group is gone, and look again later if not.

        While nobody waits for the end the looks become rare: a server left behind by a command may live for hours.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._tree is None or self._gone or not self._exited:
            return
        if not self._group.alive():
            self._gone = True
            self._tree.vanished()
            return
        self._timer = self._loop.call_later(self._poll_s, self._look)
        self._poll_s = POLL_S if self._tree.is_awaited else min(self._poll_s * 1.5, _IDLE_POLL_S)
