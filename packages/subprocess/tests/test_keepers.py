"""Whole trees: nothing leaves a keeper's sight, and nothing outlives its harness (CHILDREN §2)."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_subprocess import Ignore, Pipe, ProcessHost, ProcessTree, SpawnFailed, SpawnSpec, _keepers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="keepers need Linux")

Shell = Callable[..., SpawnSpec]
Living = Callable[[str], list[int]]

BOMB = 200
ESCAPES = {
    "a background child": "sleep {0} & sleep 600",
    "a session of its own": "setsid sleep {0} & sleep 600",
    "a double fork": "(setsid sh -c 'sleep {0} & exit 0' &) ; sleep 600",
    "an empty environment": "env -i /usr/bin/env setsid sleep {0} & sleep 600",
    "deaf": "trap '' TERM; setsid sh -c \"trap '' TERM; sleep {0}; sleep 600\" & sleep 600; sleep 600",
    "stopped": "setsid sh -c 'kill -STOP $$; sleep 600' {0} & sleep 600",
    "a nest of sessions": "setsid sh -c 'setsid sh -c \"setsid sleep {0} & sleep 600\" & sleep 600' & sleep 600",
    "its parent is gone": "(setsid sleep {0} >/dev/null 2>&1 &) ; exit 0",
}
HARNESS = """
import asyncio, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)  # whoever runs the tests may ignore some, as a shell does for its background
from dsh_subprocess import PARITY, Ignore, Inherit, ProcessHost, SpawnSpec

async def main():
    async with ProcessHost() as host:
        tree = host.spawn(SpawnSpec(
            argv=["bash", "-c", sys.argv[1]], cwd="/", policy=PARITY, env={}, grace_ms=300,
            stdin=Ignore(), stdout=Ignore(), stderr=Ignore(),
        ))
        await tree.started()
        if sys.argv[2] == "fork":
            import os, time
            child = os.fork()
            if not child:
                time.sleep(30)  # a child that knows nothing of keepers must not hide the end of the harness
                os._exit(0)
            print(child, flush=True)
        print("ready", flush=True)
        if sys.argv[2] == "exception":
            await asyncio.sleep(0.3)
            raise RuntimeError("the harness fails")
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[ProcessHost]:
    """A host with keepers."""
    async with ProcessHost(spill_parent=str(tmp_path)) as opened:
        assert "keeper" == opened.containment
        yield opened


@pytest.mark.parametrize("escape", ESCAPES)
async def test_nothing_escapes_a_terminate(
    *, host: ProcessHost, shell: Shell, living: Living, marker: str, until: Any, escape: str
) -> None:
    """G21: once the tree is gone nothing of it is left, however its processes went out of the group's sight."""
    tree = host.spawn(shell(ESCAPES[escape].format(marker)))
    await until(lambda: living(marker))
    tree.terminate()
    assert await tree.wait_ended()
    assert [] == living(marker)


@pytest.mark.parametrize("escape", ["a session of its own", "a double fork"])
async def test_an_escaped_process_may_tidy_up(
    host: ProcessHost, shell: Shell, until: Any, tmp_path: Path, escape: str
) -> None:
    """SIGTERM reaches the whole tree before SIGKILL does, also beyond the group (CHILDREN §2)."""
    said, ready = tmp_path / "said", tmp_path / "ready"
    deep = f"trap 'echo tidy >{said}; exit 0' TERM; touch {ready}; while :; do sleep 0.05; done"
    how = {"a session of its own": 'setsid sh -c "$DEEP" &', "a double fork": '(setsid sh -c "$DEEP" &) ;'}[escape]
    tree = host.spawn(shell(f"{how} sleep 600", env={"DEEP": deep}, grace_ms=20_000))
    await until(ready.exists)
    tree.terminate()
    assert await tree.wait_ended()
    assert "tidy\n" == said.read_text()


async def test_a_tree_lives_as_long_as_its_last_process(
    host: ProcessHost, shell: Shell, living: Living, marker: str, until: Any
) -> None:
    """A daemon that a command left behind is still the host's, though nothing of its group is left."""
    tree = host.spawn(shell(f"(setsid sleep {marker} >/dev/null 2>&1 &) ; exit 3", grace_ms=20_000))
    assert 3 == (await tree.wait()).exit_code
    await until(lambda: living(marker))
    assert not await tree.wait_for_exit(0.1)
    (daemon,) = living(marker)
    os.kill(daemon, signal.SIGKILL)
    assert await tree.wait_for_exit(10)
    assert () == host.trees


@pytest.mark.parametrize("how", ["KILL", "TERM", "HUP", "INT", "exception", "fork"])
def test_nothing_outlives_the_harness(living: Living, marker: str, how: str) -> None:
    """However the harness ends, its trees end with it, without any handler of signals (CHILDREN §2)."""
    script = f"trap '' TERM HUP INT; setsid sleep {marker} & (setsid sleep {marker} &) ; sleep {marker}; sleep 600"
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS, script, how],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"]},
    )
    with harness:
        assert harness.stdout is not None
        forked = int(harness.stdout.readline()) if how == "fork" else None
        assert b"ready\n" == harness.stdout.readline()
        _until(lambda: len(living(marker)) == 3)
        if how != "exception":
            harness.send_signal(signal.SIGKILL if how == "fork" else signal.Signals[f"SIG{how}"])
        _until(lambda: not living(marker))
        if forked is not None:
            os.kill(forked, signal.SIGKILL)


async def test_a_bomb_is_ended(host: ProcessHost, shell: Shell, living: Living, marker: str, until: Any) -> None:
    """Two hundred processes in sessions of their own are gone after a terminate."""
    tree = host.spawn(shell(f"for n in $(seq {BOMB}); do setsid sleep {marker} & done; wait"))
    await until(lambda: len(living(marker)) == BOMB)
    tree.terminate()
    assert await tree.wait_ended()
    assert [] == living(marker)


@pytest.mark.skipif(os.geteuid() == 0, reason="no limit of processes holds for the superuser")
async def test_a_bomb_that_replicates_is_ended(host: ProcessHost, shell: Shell, until: Any, tmp_path: Path) -> None:
    """Under a limit of processes, one that starts two more of itself for ever is gone after a terminate."""
    bomb, limit = tmp_path / "bomb", _tasks_of_this_user() + BOMB
    bomb.write_text('while :; do sh "$0" & setsid sh "$0" & done 2>/dev/null\n')
    tree = host.spawn(shell(f"ulimit -u {limit}; sh {bomb}", stdout=Ignore(), stderr=Ignore()))
    await until(lambda: len(_running(str(bomb))) > BOMB // 2)
    tree.terminate()
    assert await tree.wait_ended()
    assert [] == _running(str(bomb))


async def test_a_lost_keeper_is_survived(
    host: ProcessHost, shell: Shell, living: Living, marker: str, until: Any
) -> None:
    """Who kills a keeper takes the exit code and the whole of the tree with it, and nothing else (CHILDREN §2)."""
    tree = host.spawn(shell(f"sleep {marker}"))
    await tree.started()
    await until(lambda: living(marker))
    os.kill(_parent_of(tree), signal.SIGKILL)
    ended = await asyncio.wait_for(tree.wait(), 20)
    assert (None, None) == (ended.exit_code, ended.signal)
    await until(lambda: not living(marker))
    assert 0 == (await host.spawn(shell("true")).wait()).exit_code


async def test_a_keeper_is_used_again(host: ProcessHost, shell: Shell) -> None:
    """One tree after another is minded by the same process."""
    keepers = set()
    for _ in range(5):
        tree = host.spawn(shell("read", stdin=Pipe()))
        await tree.started()
        keepers.add(_parent_of(tree))
        tree.stdin_pipe.close()
        await tree.wait_ended()
    assert 1 == len(keepers)


async def test_idle_keepers_are_few(host: ProcessHost, shell: Shell, until: Any) -> None:
    """A burst of trees leaves no more than a handful of keepers behind."""
    trees = [host.spawn(shell("true")) for _ in range(3 * _keepers.MAX_IDLE)]
    for tree in trees:
        await tree.wait_ended()
    await until(lambda: len(_keepers_of_this_process()) == _keepers.MAX_IDLE)


async def test_closing_ends_the_keepers(shell: Shell) -> None:
    """No process and no descriptor of the pool outlives the host."""
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  a path object a descriptor would say no more
    async with ProcessHost() as host:
        await asyncio.gather(*(host.spawn(shell("true")).wait() for _ in range(4)))
        assert _keepers_of_this_process()
    assert [] == _keepers_of_this_process()
    assert before == len(os.listdir("/proc/self/fd"))  # noqa: PTH208


async def test_a_child_has_nothing_of_its_keeper(host: ProcessHost, shell: Shell) -> None:
    """Default signals, an empty mask, its own session, and exactly the environment that was given."""
    script = "grep -E '^Sig(Ign|Blk)' /proc/self/status; ps -o sid= -p $$ | tr -d ' '; echo $$; env -0 | tr '\\0' '\\n'"
    tree = host.spawn(shell(script, env={"ONLY": "this", "PATH": os.environ["PATH"]}))
    await tree.wait()
    blocked, ignored, session, own = tree.stdout.text().splitlines()[:4]
    assert {"SigBlk": 0, "SigIgn": 0} == dict([_mask(blocked), _mask(ignored)])
    assert own == session == str(tree.pid)
    assert "ONLY=this" in tree.stdout.text()


async def test_ignored_signals_of_the_harness_stay_there(host: ProcessHost, shell: Shell) -> None:
    """What a harness ignores does not make its children deaf, as it would through an exec (CHILDREN §3)."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGUSR1, signal.SIGHUP)}
    try:
        tree = host.spawn(shell("grep SigIgn /proc/self/status"))
        await tree.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert ("SigIgn", 0) == _mask(tree.stdout.text())


async def test_arguments_and_values_of_any_size_arrive(host: ProcessHost, shell: Shell) -> None:
    """A megabyte of environment and arguments, and bytes that are no UTF-8, reach the child as they are."""
    big, odd = "x" * 120_000, os.fsdecode(b"\xff\xfe")
    tree = host.spawn(
        shell(
            "",
            argv=("bash", "-c", 'echo ${#1} ${#BIG}; printf %s "$2$ODD" | od -An -tx1', "sh", big, odd),
            env={"BIG": big, "ODD": odd, **{f"MORE{number}": big for number in range(6)}},
        )
    )
    await tree.wait()
    assert "120000 120000\n ff fe ff fe\n" == tree.stdout.text()


async def test_no_keeper_fails_the_start(
    host: ProcessHost, shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A keeper that cannot be had is a failed start with its reason, not a hang."""
    monkeypatch.setattr(_keepers, "PROGRAM", str(tmp_path / "absent"))
    with pytest.raises(SpawnFailed, match="no keeper"):
        await asyncio.wait_for(host.spawn(shell("true")).wait(), 20)


async def test_where_the_kernel_forbids_adopting(
    *, host: ProcessHost, shell: Shell, living: Living, marker: str, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keeper that may adopt nobody says so, and holds the group as before."""
    strace = _strace()
    inject = [strace, "-f", "-qq", "-o", "/dev/null", "-e", "trace=prctl", "-e", "inject=prctl:error=EPERM"]
    monkeypatch.setattr(_keepers, "COMMAND", (*inject, *_keepers.COMMAND))
    tree = host.spawn(shell(f"sleep {marker} & sleep {marker}"))
    await until(lambda: len(living(marker)) == 2)
    assert "process-group" == host.containment
    tree.terminate()
    assert await tree.wait_ended()
    assert [] == living(marker)
    assert "SIGTERM" == (await tree.wait()).signal


def _mask(line: str) -> tuple[str, int]:
    """Read a line of /proc/PID/status, without the signals that a C library keeps for itself."""
    name, digits = line.split(":")
    return name, int(digits, 16) & sum(1 << (number - 1) for number in signal.valid_signals())


def _strace() -> str:
    strace = shutil.which("strace")
    if strace is None or subprocess.run([strace, "-qq", "true"], check=False, capture_output=True).returncode:
        pytest.skip("strace, which makes a call fail, is not here or may not trace")
    return strace


def _until(condition: Callable[[], object]) -> None:
    async def wait() -> None:
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.01)

    asyncio.run(wait())


def _parent_of(tree: ProcessTree) -> int:
    return int(Path(f"/proc/{tree.pid}/stat").read_text().rpartition(")")[2].split()[1])


def _tasks_of_this_user() -> int:
    found = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except OSError:
            continue
        if int(fields["Uid"].split()[0]) == os.getuid():
            found += int(fields["Threads"])
    return found


def _running(word: str) -> list[int]:
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                if word.encode() in Path(entry.path, "cmdline").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def _keepers_of_this_process() -> list[int]:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [pid for pid in map(int, children) if pid in _running(_keepers.PROGRAM)]
