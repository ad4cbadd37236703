"""The owner of every tree (BEHAVIOUR §2.6)."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_subprocess import HostClosed, Pipe, ProcessHost, SpawnSpec

Shell = Callable[..., SpawnSpec]
Living = Callable[[str], list[int]]


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  a path object a descriptor would say no more


async def test_containment_is_told(host: ProcessHost, containment: str, shell: Shell) -> None:
    """It is said what holds a tree together, before and after the first one."""
    assert containment == host.containment
    await host.spawn(shell("true")).wait()
    assert containment == host.containment


async def test_leaving_ends_everything(containment: str, shell: Shell, living: Living, marker: str, until: Any) -> None:
    """Running trees, deaf ones and leftovers are gone when the block is left (BEHAVIOUR 2.60)."""
    async with ProcessHost() as host:
        running = host.spawn(shell(f"sleep {marker}"))
        deaf = host.spawn(shell(f"trap '' TERM; sleep {marker} & sleep {marker}"))
        leftover = host.spawn(shell(f"sleep {marker} >/dev/null 2>&1 & exit 0"))
        await leftover.wait()
        await until(lambda: len(living(marker)) == 4)
        assert {running, deaf, leftover} == set(host.trees)
    assert [] == living(marker)
    assert () == host.trees
    assert ["SIGTERM", "SIGKILL", None] == [(await tree.wait()).signal for tree in (running, deaf, leftover)]


async def test_leaving_by_an_error_ends_everything(shell: Shell, living: Living, marker: str) -> None:
    """The error goes on once nothing lives (BEHAVIOUR 2.60)."""
    with pytest.raises(ZeroDivisionError):
        async with ProcessHost() as host:
            host.spawn(shell(f"sleep {marker}"))
            _ = 1 / 0
    assert [] == living(marker)


async def test_closing_does_not_wait_for_escaped_pipe_holders(
    containment: str, shell: Shell, living: Living, marker: str, until: Any
) -> None:
    """A long grace holds up neither the close of a tree that is gone nor that of one whose rest obeys (2.60)."""
    began = time.monotonic()
    async with ProcessHost() as host:
        tree = host.spawn(shell(f"setsid sleep {marker} & sleep 0.1; exit 0", grace_ms=60_000))
        await until(lambda: tree.gone if containment == "process-group" else len(living(marker)) == 1)
    assert time.monotonic() - began < 20
    assert tree.settled
    assert (containment == "process-group") == bool(living(marker))
    for pid in living(marker):
        os.kill(pid, 9)


async def test_a_cancelled_close_kills_at_once(
    containment: str, shell: Shell, living: Living, marker: str, until: Any
) -> None:
    """Who will not wait for the grace leaves no process either (BEHAVIOUR 2.60)."""
    host = ProcessHost()
    tree = host.spawn(shell(f"trap '' TERM; echo ready; sleep {marker}; sleep {marker}", grace_ms=60_000))
    await until(lambda: tree.stdout.total_bytes)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await host.close()
    assert "SIGKILL" == (await asyncio.wait_for(tree.wait(), 20)).signal
    await host.close()
    assert [] == living(marker)


async def test_closing_closes_raw_pipes_and_watches(shell: Shell) -> None:
    """No descriptor and no task of a tree outlives the host."""
    before = open_descriptors()
    async with ProcessHost() as host:
        never = asyncio.Event()
        for _ in range(5):
            tree = host.spawn(shell("sleep 600", stdin=Pipe(), stdout=Pipe()))
            tree.terminate_when(never)
        ended = host.spawn(shell("echo unread", stdout=Pipe()))
        await ended.wait()
    assert before == open_descriptors()
    assert {asyncio.current_task()} == asyncio.all_tasks()


async def test_a_closed_host_starts_nothing(shell: Shell) -> None:
    """After the close a spawn is an error, and closing again is none."""
    async with ProcessHost() as host:
        pass
    with pytest.raises(HostClosed):
        host.spawn(shell("true"))
    await host.close()


async def test_hosts_do_not_share_trees(shell: Shell) -> None:
    """Closing one host leaves another's trees alone."""
    async with ProcessHost() as outer:
        tree = outer.spawn(shell("read", stdin=Pipe()))
        async with ProcessHost() as inner:
            inner.spawn(shell("sleep 600"))
        assert (tree,) == outer.trees
        assert not tree.terminated


HARNESS = """
import asyncio, os, sys
from dsh_subprocess import *

try:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
except PermissionError:
    sys.exit("skip: this superuser may not become another user")

async def main():
    host = ProcessHost()
    tree = host.spawn(SpawnSpec(
        argv=[sys.argv[1], "--reuid=0", "--regid=0", "--clear-groups", "sh", "-c", "echo ready; exec sleep 8"],
        cwd="/", policy=PARITY, env={}, grace_ms=100,
        stdin=Ignore(), stdout=Collect(max_bytes=10), stderr=Collect(max_bytes=100),
    ))
    while not tree.stdout.total_bytes and not tree.settled:
        await asyncio.sleep(0.01)
    if tree.settled:
        sys.exit(f"skip: {tree.failure or tree.stderr.text()}")
    try:
        await host.close()
    except TreesSurvived as error:
        assert error.pids == (tree.pid,), error
    else:
        sys.exit("the close said nothing")
    ended = await tree.wait()
    assert (None, None) == (ended.exit_code, ended.signal), ended
    assert not tree.gone

asyncio.run(main())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can make a process that its caller may not signal")
def test_what_cannot_be_killed_is_told(tmp_path: Path) -> None:
    """A tree of another user is given up within bounds, and named (BEHAVIOUR 2.24, 2.60).

    The harness gives up its rights and starts a program that takes them back, so every signal is refused.
    """
    program = shutil.copy(shutil.which("setpriv") or pytest.skip("no setpriv here"), tmp_path)
    Path(program).chmod(0o4755)
    for folder in [tmp_path, *tmp_path.parents[:-2]]:
        folder.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", HARNESS, program],
        check=False,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"]},
    )
    if done.stderr.startswith("skip:"):
        pytest.skip(done.stderr)
    assert (0, "") == (done.returncode, done.stderr)
