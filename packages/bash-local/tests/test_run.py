"""Foreground commands (BEHAVIOUR §3.3)."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_bash import (
    BashError,
    BashExecRequest,
    BashMissing,
    BashRunResult,
    BashStartCancelled,
    BashStartFailed,
    InvalidBashRequest,
    WorkdirMissing,
)
from dsh_bash_local import LocalBash, LocalBashConfig

Living = Callable[[str], list[int]]


async def run(bash: LocalBash, command: str, **fields: Any) -> BashRunResult:
    return await bash.run(bash.resolve(BashExecRequest(command=command, **fields)))


def outcome(result: BashRunResult) -> tuple[int | None, str | None, bool, bool]:
    return result.exit_code, result.signal, result.timed_out, result.aborted


def taken(path: str | None) -> str:
    """Read a spill file and delete it: it would outlive the test."""
    assert path is not None
    text = Path(path).read_text()
    Path(path).unlink()
    return text


@pytest.mark.parametrize("code", [0, 1, 7, 255])
async def test_a_normal_exit(bash: LocalBash, code: int) -> None:
    """The exit code, and nothing else (BEHAVIOUR 3.10)."""
    result = await run(bash, f"echo out; echo err >&2; exit {code}")
    assert (code, None, False, False) == outcome(result)
    assert ("out\n", "err\n", False) == (result.stdout.text, result.stderr.text, result.pipes_held)


async def test_the_deadline_ends_it(bash: LocalBash) -> None:
    """SIGTERM, and the result says why (BEHAVIOUR 3.11)."""
    result = await run(bash, "echo before; sleep 600", timeout_ms=300)
    assert (None, "SIGTERM", True, False) == outcome(result)
    assert ("before\n", 300) == (result.stdout.text, result.timeout_ms)


async def test_the_deadline_with_term_trapped(bash: LocalBash) -> None:
    """A command may exit 0 after its deadline; it timed out all the same (BEHAVIOUR 3.12)."""
    result = await run(bash, "trap 'echo bye; exit 0' TERM; while :; do sleep 0.02; done", timeout_ms=500)
    assert (0, None, True, False) == outcome(result)
    assert "bye\n" == result.stdout.text


async def test_the_deadline_with_term_ignored(bash: LocalBash) -> None:
    """SIGKILL after the grace (BEHAVIOUR 3.13)."""
    result = await run(bash, "trap '' TERM INT HUP; while :; do sleep 0.05; done", timeout_ms=500)
    assert (None, "SIGKILL", True, False) == outcome(result)


async def test_the_callers_event_ends_it(bash: LocalBash) -> None:
    """A set event aborts (BEHAVIOUR 3.14)."""
    cancel = asyncio.Event()
    asyncio.get_running_loop().call_later(0.2, cancel.set)
    result = await run(bash, "echo before; sleep 600", cancel=cancel)
    assert (None, "SIGTERM", False, True) == outcome(result)
    assert "before\n" == result.stdout.text


async def test_a_command_that_kills_itself(bash: LocalBash) -> None:
    """Its own signal, and nobody's fault (BEHAVIOUR 3.15)."""
    assert (None, "SIGUSR1", False, False) == outcome(await run(bash, "kill -USR1 $$"))


async def test_a_missing_directory_raises_and_is_named(bash: LocalBash, tmp_path: Path) -> None:
    """Only infrastructure raises; the directory is told from the shell (BEHAVIOUR 3.16, §11.5 9)."""
    absent = str(tmp_path / "absent")
    with pytest.raises(WorkdirMissing) as caught:
        await run(bash, "true", workdir=absent)
    assert absent == caught.value.workdir
    assert absent in str(caught.value)


async def test_a_missing_bash_raises_and_says_where_it_looked(bash: LocalBash) -> None:
    """The child's PATH decides, and is shown (BEHAVIOUR 3.16)."""
    with pytest.raises(BashMissing) as caught:
        await run(bash, "true", env={"PATH": "/absent"})
    assert "/absent" == caught.value.path


async def test_an_event_set_before_the_start_raises(bash: LocalBash) -> None:
    """Nothing is started (BEHAVIOUR 3.16)."""
    cancel = asyncio.Event()
    cancel.set()
    with pytest.raises(BashStartCancelled):
        await run(bash, "touch started", cancel=cancel)
    assert "absent\n" == (await run(bash, "[ -e started ] || echo absent")).stdout.text


async def test_another_refusal_raises(bash: LocalBash) -> None:
    """What the system will not take is told in its words (BEHAVIOUR 3.16)."""
    with pytest.raises(BashStartFailed, match="Argument list too long"):
        await run(bash, "#" * 3_000_000)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"command": "a\0b"}, "command"),
        ({"command": "\ud800"}, "command"),
        ({"command": "true", "workdir": ""}, "workdir"),
        ({"command": "true", "env": {"A=B": "c"}}, "env"),
        ({"command": "true", "dsh_env": {"DSH_A": 3}}, "env"),
    ],
)
async def test_a_request_that_can_never_run_raises(bash: LocalBash, fields: dict[str, Any], field: str) -> None:
    """The field at fault is named (BEHAVIOUR 3.16)."""
    with pytest.raises(InvalidBashRequest) as caught:
        await bash.run(bash.resolve(BashExecRequest(**fields)))
    assert field == caught.value.field
    assert field in str(caught.value)


async def test_the_deadline_before_the_event(parent_env: dict[str, str]) -> None:
    """The first cause wins: an event during the grace changes nothing (BEHAVIOUR §3.3)."""
    cancel = asyncio.Event()
    asyncio.get_running_loop().call_later(2.2, cancel.set)
    async with LocalBash(LocalBashConfig(grace_ms=2_000), parent_env=parent_env) as bash:
        result = await run(bash, "trap '' TERM; while :; do sleep 0.05; done", timeout_ms=1_200, cancel=cancel)
    assert (None, "SIGKILL", True, False) == outcome(result)


async def test_the_event_before_the_deadline(parent_env: dict[str, str], tmp_path: Path, until: Any) -> None:
    """The first cause wins: a deadline during the grace changes nothing (BEHAVIOUR §3.3)."""
    cancel, deaf = asyncio.Event(), tmp_path / "deaf"
    async with LocalBash(LocalBashConfig(grace_ms=2_500), parent_env=parent_env) as bash:
        script = f"trap '' TERM; touch {deaf}; while :; do sleep 0.05; done"
        running = asyncio.create_task(run(bash, script, timeout_ms=3_000, cancel=cancel))
        await until(deaf.exists)
        cancel.set()
        result = await running
    assert (None, "SIGKILL", False, True) == outcome(result)


async def test_an_event_after_the_end_changes_nothing(bash: LocalBash) -> None:
    """A result is made once (BEHAVIOUR §3.3)."""
    cancel = asyncio.Event()
    result = await run(bash, "true", cancel=cancel)
    cancel.set()
    await asyncio.sleep(0.05)
    assert (0, None, False, False) == outcome(result)


async def test_after_a_deadline_the_tree_is_gone(bash: LocalBash, living: Living, marker: str) -> None:
    """Not only the shell: nothing of it lives when the result comes (BEHAVIOUR §3.3, CHILDREN §3)."""
    script = f"(trap '' TERM; exec sleep {marker}) >/dev/null 2>&1 & sleep {marker} | sleep {marker}"
    result = await run(bash, script, timeout_ms=500)
    assert result.timed_out
    assert [] == living(marker)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process that makes its own session escapes")
async def test_after_a_deadline_nothing_is_left_to_hold_a_pipe(
    parent_env: dict[str, str], living: Living, marker: str
) -> None:
    """A descendant in a session of its own ends with the rest, and with it the reading of its pipe (CHILDREN §2)."""
    async with LocalBash(LocalBashConfig(grace_ms=60_000), parent_env=parent_env) as bash:
        command = run(bash, f"setsid sleep {marker} & echo hi; sleep 600", timeout_ms=500)
        result = await asyncio.wait_for(command, 20)
    assert (None, "SIGTERM", True, False) == outcome(result)
    assert ("hi\n", False) == (result.stdout.text, result.pipes_held)
    assert [] == living(marker)


async def test_a_leftover_that_holds_a_pipe_delays_by_the_grace(bash: LocalBash) -> None:
    """A command that left something behind still ends, and says so (BEHAVIOUR 2.26)."""
    result = await asyncio.wait_for(run(bash, "sleep 600 & echo hi"), 20)
    assert (0, None, False, False) == outcome(result)
    assert ("hi\n", True) == (result.stdout.text, result.pipes_held)


@pytest.fixture
async def patient(parent_env: dict[str, str]) -> AsyncIterator[LocalBash]:
    """An executor whose own grace is longer than anybody here waits."""
    async with LocalBash(LocalBashConfig(grace_ms=60_000), parent_env=parent_env) as bash:
        yield bash


async def test_a_request_has_a_grace_for_pipes_of_its_own(patient: LocalBash, bash: LocalBash) -> None:
    """What was left behind delays the result by that one, be it shorter or longer than the executor's."""
    short = await asyncio.wait_for(run(patient, "sleep 600 & echo hi", grace_ms=200), 30)
    long = await run(bash, "(sleep 1; echo late) & echo hi", grace_ms=60_000)
    assert ("hi\n", True) == (short.stdout.text, short.pipes_held)
    assert ("hi\nlate\n", False) == (long.stdout.text, long.pipes_held)
    assert short.leftover is not None
    short.leftover.kill()
    await asyncio.wait_for(short.leftover.wait_gone(), 30)


async def test_a_request_has_a_grace_for_the_deaf_of_its_own(patient: LocalBash, tmp_path: Path, until: Any) -> None:
    """Whoever ends it: its caller's event, its waiter who goes, or a kill in the background."""
    deaf, cancel = tmp_path / "deaf", asyncio.Event()
    script = f"trap '' TERM; touch {deaf}; while :; do sleep 0.05; done"
    running = asyncio.create_task(run(patient, script, cancel=cancel, grace_ms=200))
    await until(deaf.exists)
    cancel.set()
    assert (None, "SIGKILL", False, True) == outcome(await asyncio.wait_for(running, 30))
    deaf.unlink()
    waiter = asyncio.create_task(run(patient, script, grace_ms=200))
    await until(deaf.exists)
    waiter.cancel()
    await asyncio.wait_for(asyncio.wait([waiter]), 30)
    assert waiter.cancelled()
    deaf.unlink()
    process = patient.start(patient.resolve(BashExecRequest(command=script, grace_ms=200)))
    await until(deaf.exists)
    process.kill()
    await asyncio.wait_for(process.wait(), 30)
    assert ("killed", "SIGKILL") == (process.status, process.signal)


async def test_what_a_command_left_running_can_be_ended(
    bash: LocalBash, living: Living, marker: str, until: Any
) -> None:
    """A command that put its work into the background says so, and what it left is a process like any other (G09)."""
    result = await run(bash, f"echo hi; sleep {marker} >/dev/null 2>&1 &")
    left = result.leftover
    assert left is not None
    assert ("hi\n", False, "completed", 0) == (result.stdout.text, result.pipes_held, left.status, left.exit_code)
    assert "" == left.read_output().text, "the result had it"
    await until(lambda: living(marker))
    assert not left.kill(), "the shell itself has ended long ago"
    await asyncio.wait_for(left.wait_gone(), 20)
    assert [] == living(marker)


async def test_nothing_is_left_of_a_command_that_waits(bash: LocalBash) -> None:
    """Whoever ends with the shell, or a moment after it, is no leftover."""
    for command in ("true", "sleep 0.01 &", "seq 10 | cat | cat", "(exit 3) & wait"):
        assert (await run(bash, command)).leftover is None


async def test_a_cancelled_task_ends_the_tree_first(bash: LocalBash, living: Living, marker: str, until: Any) -> None:
    """The cancellation goes on once nothing lives, also for a command that ignores SIGTERM (BEHAVIOUR §3.3)."""
    task = asyncio.ensure_future(run(bash, f"trap '' TERM; sleep {marker} & sleep {marker}"))
    await until(lambda: len(living(marker)) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [] == living(marker)


async def test_a_second_cancellation_kills_at_once(
    parent_env: dict[str, str], living: Living, marker: str, until: Any
) -> None:
    """Who will not wait for the grace still leaves nothing behind (BEHAVIOUR §3.3)."""
    async with LocalBash(LocalBashConfig(grace_ms=60_000), parent_env=parent_env) as bash:
        task = asyncio.ensure_future(run(bash, f"trap '' TERM; sleep {marker} & sleep {marker}"))
        await until(lambda: len(living(marker)) == 2)
        task.cancel()
        await asyncio.sleep(0.1)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not living(marker))


async def test_a_foreign_timeout_is_a_cancellation(bash: LocalBash, living: Living, marker: str) -> None:
    """Somebody else's deadline ends the command and is reported as his (BEHAVIOUR §3.3)."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await run(bash, f"sleep {marker}")
    assert [] == living(marker)


async def test_closing_aborts_what_runs(config: LocalBashConfig, parent_env: dict[str, str], until: Any) -> None:
    """An end from above the executor counts as aborted (BEHAVIOUR §3.3)."""
    async with LocalBash(config, parent_env=parent_env) as bash:
        task = asyncio.ensure_future(run(bash, "sleep 600"))
        await asyncio.sleep(0.1)
    assert (None, "SIGTERM", False, True) == outcome(await task)


async def test_each_command_is_a_fresh_shell(bash: LocalBash, tmp_path: Path) -> None:
    """No directory, variable or option survives, and no login or rc file is read (BEHAVIOUR §3.1)."""
    (tmp_path / "sub").mkdir()
    (tmp_path / ".bashrc").write_text("LEAKED=1\n")
    (tmp_path / ".profile").write_text("LEAKED=1\n")
    home: dict[str, str | None] = {"HOME": str(tmp_path)}
    await run(bash, "cd sub; X=1; set -e", env=home)
    result = await run(bash, "pwd; echo [$X] [$LEAKED] $-; shopt login_shell", env=home)
    assert f"{tmp_path}\n[] [] hBc\nlogin_shell    \toff\n" == result.stdout.text


async def test_input_is_text_or_nothing(bash: LocalBash) -> None:
    """Given input is written and closed; without any there is nothing to wait for (BEHAVIOUR §3.1)."""
    assert "zwölf\ufffd" == (await run(bash, "cat", stdin="zwölf\ud800")).stdout.text
    assert "[]\n" == (await run(bash, "read -r x; echo [$x]")).stdout.text


async def test_the_limits_of_each_stream(config: LocalBashConfig, parent_env: dict[str, str], tmp_path: Path) -> None:
    """The asked limit is for standard output alone; standard error has the configured one (BEHAVIOUR §3.1)."""
    config = LocalBashConfig(cwd=config.cwd, max_output_bytes=20)
    async with LocalBash(config, parent_env=parent_env) as bash:
        result = await run(bash, "seq 1000; seq 1000 >&2", stdout_max_bytes=10)
    whole = "".join(f"{number}\n" for number in range(1, 1001))
    for output, limit in ((result.stdout, 10), (result.stderr, 20)):
        assert (whole[-limit:], True, len(whole)) == (output.text, output.truncated, output.total_bytes)
        assert whole == taken(output.spill_path)


async def test_the_spill_limit_is_the_configured_one(parent_env: dict[str, str]) -> None:
    """A stream beyond the file's limit has no file (BEHAVIOUR §3.1)."""
    config = LocalBashConfig(max_output_bytes=10, max_spill_bytes=100)
    async with LocalBash(config, parent_env=parent_env) as bash:
        result = await run(bash, "seq 1000")
    assert (True, None) == (result.stdout.truncated, result.stdout.spill_path)


async def test_commands_run_side_by_side_with_their_own_facts(bash: LocalBash) -> None:
    """Overlapping commands never see each other's managed variables (BEHAVIOUR §3.2)."""
    before = dict(os.environ)

    async def one(name: str) -> str:
        result = await run(bash, "sleep 0.05; echo $DSH_SESSION_ID", dsh_env={"DSH_SESSION_ID": name})
        return result.stdout.text.strip()

    names = [f"session-{number % 2}" for number in range(20)]
    assert names == await asyncio.gather(*(one(name) for name in names))
    assert before == dict(os.environ)


async def test_a_flood_does_not_hold_up_the_deadline(bash: LocalBash) -> None:
    """An endless printer is drained and ends in time, with the tail kept (BEHAVIOUR §2.5, 3.11)."""
    began = time.monotonic()
    result = await run(bash, "yes", timeout_ms=500, stdout_max_bytes=1_000)
    assert (None, "SIGTERM", True, False) == outcome(result)
    assert "y\n" * 500 == result.stdout.text
    assert time.monotonic() - began < 20


async def test_every_failure_is_the_seams(bash: LocalBash) -> None:
    """A caller needs to know one family of errors."""
    for fields in ({"workdir": "/absent"}, {"env": {"PATH": "/absent"}}, {"env": {"": "x"}}):
        with pytest.raises(BashError):
            await run(bash, "true", **fields)
