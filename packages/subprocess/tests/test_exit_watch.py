"""Learning of one child's end (CHILDREN §3)."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable

import pytest

from dsh_subprocess._exit_watch import watch_exit, watch_exit_in_thread

Watch = Callable[[asyncio.AbstractEventLoop, int, Callable[[int | None], None]], None]
WAYS = pytest.mark.parametrize("watch", [watch_exit, watch_exit_in_thread])


def child(*argv: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(argv, stdin=subprocess.PIPE)


async def ended(watch: Watch, *argv: str) -> int | None:
    process = child(*argv)
    loop = asyncio.get_running_loop()
    status: asyncio.Future[int | None] = loop.create_future()
    watch(loop, process.pid, status.set_result)
    process.returncode = 0  # the watch reaps, this object does not
    assert process.stdin is not None
    process.stdin.close()
    return await status


@WAYS
async def test_the_status_is_told(watch: Watch) -> None:
    """Both ways tell the exit code and reap."""
    status = await ended(watch, "bash", "-c", "exit 7")
    assert status is not None
    assert 7 == os.waitstatus_to_exitcode(status)


@WAYS
async def test_the_signal_is_told(watch: Watch) -> None:
    """Both ways tell a death by signal."""
    status = await ended(watch, "bash", "-c", "kill -USR1 $$")
    assert status is not None
    assert -signal.SIGUSR1 == os.waitstatus_to_exitcode(status)


@WAYS
async def test_a_stolen_status_is_none(watch: Watch) -> None:
    """Another part of the program may have reaped the child: the end is told, the status is not invented."""
    process = child("cat")
    loop = asyncio.get_running_loop()
    status: asyncio.Future[int | None] = loop.create_future()
    previous = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system then keeps no status for anyone
    try:
        watch(loop, process.pid, status.set_result)
        process.returncode = 0
        assert process.stdin is not None
        process.stdin.close()
        assert await status is None
    finally:
        signal.signal(signal.SIGCHLD, previous)


async def test_other_children_are_left_alone() -> None:
    """Nothing waits for a child that is not ours: its status stays for its owner."""
    other = child("bash", "-c", "exit 5")
    await ended(watch_exit, "true")
    assert other.stdin is not None
    other.stdin.close()
    assert 5 == await asyncio.to_thread(other.wait)
