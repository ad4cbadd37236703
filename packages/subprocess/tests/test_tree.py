"""One tree: its end, its ladder, its liveness (BEHAVIOUR §2.4)."""

import asyncio
import gc
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from dsh_subprocess import Collect, Pipe, ProcessHost, SpawnFailed, SpawnSpec, StdinData

Shell = Callable[..., SpawnSpec]
Living = Callable[[str], list[int]]


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  a path object a descriptor would say no more


@pytest.mark.parametrize(
    ("script", "exit_code", "name"),
    [
        ("exit 0", 0, None),
        ("exit 7", 7, None),
        ("exit 255", 255, None),
        ("kill -KILL $$", None, "SIGKILL"),
        ("kill -TERM $$", None, "SIGTERM"),
        ("kill -36 $$", None, "SIG36"),
    ],
)
async def test_the_end_is_an_exit_code_or_a_signal(
    host: ProcessHost, shell: Shell, script: str, exit_code: int | None, name: str | None
) -> None:
    """Exactly one of the two is set (BEHAVIOUR 2.26)."""
    ended = await host.spawn(shell(script)).wait()
    assert (exit_code, name, False) == (ended.exit_code, ended.signal, ended.pipes_held)


async def test_terminate_is_term_for_the_whole_group(
    host: ProcessHost, shell: Shell, living: Living, marker: str, until: Any
) -> None:
    """Children and grandchildren get SIGTERM with the first process (BEHAVIOUR 2.20, 2.22)."""
    tree = host.spawn(shell(f"(sleep {marker} & sleep {marker}) & sleep {marker} | cat", grace_ms=30_000))
    await until(lambda: len(living(marker)) == 3)
    tree.terminate()
    assert "SIGTERM" == (await tree.wait()).signal
    assert await tree.wait_for_exit(10)
    assert [] == living(marker)
    assert tree.terminated


async def test_term_ignored_means_kill_after_the_grace(host: ProcessHost, shell: Shell, until: Any) -> None:
    """SIGKILL comes after the grace (BEHAVIOUR 2.22)."""
    tree = host.spawn(shell("trap '' TERM INT HUP; echo ready; while :; do sleep 0.05; done"))
    await until(lambda: tree.stdout.total_bytes)
    tree.terminate()
    assert "SIGKILL" == (await tree.wait()).signal
    assert await tree.wait_for_exit(10)


async def test_terminating_twice_is_terminating_once(host: ProcessHost, shell: Shell, until: Any) -> None:
    """While the ladder runs a second call does nothing (BEHAVIOUR 2.22)."""
    tree = host.spawn(shell("trap 'echo term' TERM; echo ready; while :; do sleep 0.02; done", grace_ms=700))
    await until(lambda: tree.stdout.total_bytes)
    for _ in range(3):
        tree.terminate()
        await asyncio.sleep(0.1)
    assert "SIGKILL" == (await tree.wait()).signal
    assert "ready\nterm\n" == tree.stdout.text()
    tree.terminate()
    tree.kill_now()


async def test_the_kill_comes_also_after_the_first_process_ended(
    host: ProcessHost, shell: Shell, living: Living, marker: str, until: Any
) -> None:
    """A grandchild that ignores SIGTERM is killed although the first process has settled (BEHAVIOUR 2.23)."""
    deaf = f"(trap '' TERM; exec sleep {marker}) >/dev/null 2>&1 &"
    tree = host.spawn(shell(f"{deaf} sleep 600", grace_ms=2_000))
    await until(lambda: living(marker))
    tree.terminate()
    ended = await tree.wait()
    assert ("SIGTERM", False) == (ended.signal, ended.pipes_held)
    assert not tree.gone
    assert [tree] == list(host.trees)
    assert await tree.wait_ended()
    assert [] == living(marker)


async def test_a_stopped_tree_is_ended(host: ProcessHost, shell: Shell, until: Any) -> None:
    """A tree that stopped itself is woken to see the first step of the ladder (BEHAVIOUR 2.22)."""
    tree = host.spawn(shell("echo ready; kill -STOP 0; sleep 60"))
    await until(lambda: tree.stdout.total_bytes)
    tree.terminate()
    assert "SIGTERM" == (await tree.wait()).signal


async def test_kill_now_leaves_no_grace(host: ProcessHost, shell: Shell, until: Any) -> None:
    """The whole group gets SIGKILL on the spot."""
    tree = host.spawn(shell("trap '' TERM; echo ready; sleep 600 & sleep 600", grace_ms=60_000))
    await until(lambda: tree.stdout.total_bytes)
    tree.kill_now()
    assert "SIGKILL" == (await tree.wait()).signal
    assert await tree.wait_for_exit(10)


@pytest.mark.parametrize("script", ["sleep {} & echo hi", "sleep {} >/dev/null & echo hi"])
async def test_a_descendant_holding_a_pipe_delays_by_the_grace(
    host: ProcessHost, shell: Shell, living: Living, marker: str, script: str
) -> None:
    """The result comes after the grace, says that a pipe was held, and the tree stays owned (BEHAVIOUR 2.26, 2.61)."""
    began = time.monotonic()
    tree = host.spawn(shell(script.format(marker)))
    ended = await tree.wait()
    assert 0.3 < time.monotonic() - began < 20
    assert (0, True, "hi\n") == (ended.exit_code, ended.pipes_held, tree.stdout.text())
    assert 1 == len(living(marker))
    assert [tree] == list(host.trees)
    assert not tree.terminated


async def test_a_descendant_without_our_pipes_delays_nothing(
    host: ProcessHost, shell: Shell, living: Living, marker: str
) -> None:
    """The first process's end settles the tree at once; its liveness is another matter (BEHAVIOUR 2.26, 2.61)."""
    tree = host.spawn(shell(f"sleep {marker} >/dev/null 2>&1 & echo hi", grace_ms=60_000))
    ended = await asyncio.wait_for(tree.wait(), 20)
    assert (0, False, "hi\n") == (ended.exit_code, ended.pipes_held, tree.stdout.text())
    assert [tree] == list(host.trees)
    assert not await tree.wait_for_exit(0.05)
    tree.terminate()
    assert await tree.wait_for_exit(10)
    assert [] == living(marker)
    assert not tree.terminated, "it had settled before"


async def test_an_escaped_pipe_holder_is_not_waited_for_after_terminate(
    *, containment: str, host: ProcessHost, shell: Shell, until: Any, living: Living, marker: str
) -> None:
    """Once a terminated tree is gone, its pipes are read no longer (CHILDREN §3); a keeper lets nobody escape."""
    tree = host.spawn(shell(f"setsid sleep {marker} & echo hi; sleep 600", grace_ms=60_000))
    await until(lambda: tree.stdout.total_bytes and living(marker))
    tree.terminate()
    ended = await asyncio.wait_for(tree.wait(), 20)
    has_escaped = containment == "process-group"
    assert ("SIGTERM", has_escaped, "hi\n") == (ended.signal, ended.pipes_held, tree.stdout.text())
    assert has_escaped == bool(living(marker))
    for pid in living(marker):
        os.kill(pid, signal.SIGKILL)


async def test_terminating_ends_the_wait_for_an_escaped_pipe_holder(
    *, containment: str, host: ProcessHost, shell: Shell, until: Any, living: Living, marker: str
) -> None:
    """A tree that is gone but still read ends with the terminate (BEHAVIOUR 2.22, 2.26); a keeper ends its holder."""
    has_escaped = containment == "process-group"
    tree = host.spawn(shell(f"setsid sleep {marker} & sleep 0.2; echo hi", grace_ms=60_000))
    await until(lambda: tree.gone if has_escaped else tree.stdout.total_bytes)
    assert not tree.settled
    tree.terminate()
    ended = await asyncio.wait_for(tree.wait(), 20)
    assert (0, has_escaped, "hi\n") == (ended.exit_code, ended.pipes_held, tree.stdout.text())
    for pid in living(marker):
        os.kill(pid, signal.SIGKILL)


async def test_what_a_dying_tree_printed_is_kept(host: ProcessHost, shell: Shell, until: Any) -> None:
    """Output up to the end is complete, also after a terminate (BEHAVIOUR 2.26)."""
    tree = host.spawn(shell("trap 'seq 5000; exit 0' TERM; echo ready; while :; do sleep 0.02; done", grace_ms=30_000))
    await until(lambda: tree.stdout.total_bytes)
    tree.terminate()
    ended = await tree.wait()
    assert (0, None) == (ended.exit_code, ended.signal)
    assert tree.stdout.text().endswith("\n4999\n5000\n")


async def test_waiting_for_the_tree_is_bounded(host: ProcessHost, shell: Shell) -> None:
    """False when time is up, True when the tree is gone, and no time is needed to ask (BEHAVIOUR 2.25)."""
    tree = host.spawn(shell("read", stdin=Pipe()))
    assert not await tree.wait_for_exit(0.05)
    assert not await tree.wait_for_exit(0)
    tree.stdin_pipe.close()
    assert await tree.wait_for_exit(10)
    assert await tree.wait_for_exit(0)


async def test_many_may_wait_and_cancelling_one_changes_nothing(host: ProcessHost, shell: Shell) -> None:
    """All waiters get the same answer; a cancelled one leaves the tree alone (BEHAVIOUR 2.26)."""
    tree = host.spawn(shell("read; exit 4", stdin=Pipe()))
    waiters = [asyncio.ensure_future(tree.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    waiters[0].cancel()
    await asyncio.sleep(0.05)
    assert not tree.settled
    tree.stdin_pipe.close()
    assert [4, 4] == [ended.exit_code for ended in await asyncio.gather(*waiters[1:])]
    assert waiters[0].cancelled()
    assert tree.result == await tree.wait()


async def test_a_set_event_terminates(host: ProcessHost, shell: Shell, until: Any) -> None:
    """The caller's event ends the tree (BEHAVIOUR §2.3, the cancel field)."""
    event = asyncio.Event()
    tree = host.spawn(shell("echo ready; sleep 600"))
    tree.terminate_when(event)
    await until(lambda: tree.stdout.total_bytes)
    assert not tree.terminated
    event.set()
    assert "SIGTERM" == (await tree.wait()).signal
    assert tree.terminated


async def test_an_event_after_the_end_changes_nothing(host: ProcessHost, shell: Shell) -> None:
    """A settled tree watches no event any more, and leaves no task behind."""
    event = asyncio.Event()
    tree = host.spawn(shell("exit 0"))
    tree.terminate_when(event)
    await tree.wait()
    await asyncio.sleep(0)
    assert {asyncio.current_task()} == asyncio.all_tasks()
    tree.terminate_when(event)
    event.set()
    await asyncio.sleep(0.05)
    assert not tree.terminated


async def test_a_leftover_that_ends_by_itself_is_noticed(host: ProcessHost, shell: Shell, until: Any) -> None:
    """A tree leaves the live set when its last process goes, with nobody waiting for it (BEHAVIOUR 2.24, 2.61)."""
    tree = host.spawn(shell("sleep 0.5 >/dev/null 2>&1 & exit 0"))
    await tree.wait()
    assert (tree,) == host.trees
    await until(lambda: not host.trees)
    assert tree.gone


async def test_hundreds_of_spawns_leak_no_descriptor(host: ProcessHost, shell: Shell, until: Any) -> None:
    """Every descriptor comes back, whatever way the tree went (CHILDREN §1)."""

    async def one(number: int) -> None:
        shapes: list[dict[str, Any]] = [
            {},
            {"stdin": StdinData(data=b"x" * 200_000)},
            {"cwd": "/nowhere"},
            {"argv": ("no-such-program",), "stdin": StdinData(data=b"x")},
            {"stdout": Collect(max_bytes=1, spill_max_bytes=1000)},
            {"stdin": Pipe(), "stdout": Pipe()},
        ]
        tree = host.spawn(shell("echo out; echo err >&2", **shapes[number % len(shapes)]))
        try:
            await tree.wait()
        except SpawnFailed:
            return
        if number % len(shapes) == 5:
            while await tree.stdout_pipe.read():
                pass

    async def some(first: int) -> None:
        await asyncio.gather(*(one(number) for number in range(first, first + 8)))

    await some(0)
    gc.collect()  # an earlier test may have left something to be closed
    before = open_descriptors()
    for first in range(0, 320, 8):
        await some(first)
    await until(lambda: not host.trees)
    assert before == open_descriptors()


async def test_no_signal_handler_is_installed(host: ProcessHost, shell: Shell) -> None:
    """The harness's own signal handling is left as it is (CHILDREN §2)."""
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    tree = host.spawn(shell("sleep 0.1"))
    assert before == {number: signal.getsignal(number) for number in signal.valid_signals()}
    await tree.wait()
