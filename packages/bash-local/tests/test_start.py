"""Background commands (BEHAVIOUR §3.4)."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_bash import BashDelta, BashExecRequest, BashProcess, BashStartCancelled, InvalidBashRequest
from dsh_bash_local import LocalBash, LocalBashConfig
from dsh_subprocess import ProcessHost

Living = Callable[[str], list[int]]


def start(bash: LocalBash, command: str, **fields: Any) -> BashProcess:
    return bash.start(bash.resolve(BashExecRequest(command=command, **fields)))


def state(process: BashProcess) -> tuple[str, int | None, str | None]:
    return process.status, process.exit_code, process.signal


def taken(path: str | None) -> str:
    """Read a spill file and delete it: it would outlive the test."""
    assert path is not None
    text = Path(path).read_text()
    Path(path).unlink()
    return text


async def test_it_runs_and_completes(bash: LocalBash, tmp_path: Path) -> None:
    """Starting returns at once; any exit code is a completion (BEHAVIOUR §3.4)."""
    process = start(bash, "while [ ! -e go ]; do sleep 0.02; done; exit 3")
    assert ("running", None, None) == state(process)
    (tmp_path / "go").touch()
    await process.wait()
    assert ("completed", 3, None) == state(process)
    assert not process.kill()


async def test_the_deadline_does_not_apply(bash: LocalBash) -> None:
    """A background command outlives ``timeout_ms`` (BEHAVIOUR §3.4)."""
    process = start(bash, "sleep 0.3; echo done", timeout_ms=1)
    await process.wait()
    assert ("completed", 0, None) == state(process)


async def test_a_signal_of_its_own_is_killed_too(bash: LocalBash) -> None:
    """Any death by signal is ``killed`` (BEHAVIOUR §3.4)."""
    process = start(bash, "kill -USR1 $$")
    await process.wait()
    assert ("killed", None, "SIGUSR1") == state(process)


async def test_kill_ends_the_tree_and_answers_once(bash: LocalBash, living: Living, marker: str, until: Any) -> None:
    """True once while running, and ``killed`` from then on (BEHAVIOUR §3.4)."""
    process = start(bash, f"sleep {marker} & sleep {marker}")
    await until(lambda: len(living(marker)) == 2)
    assert [True, False] == [process.kill(), process.kill()]
    assert ("killed", None, None) == state(process)
    await process.wait()
    assert ("killed", None, "SIGTERM") == state(process)
    await until(lambda: not living(marker))
    assert not process.kill()


async def test_a_killed_command_that_exits_stays_killed(bash: LocalBash, until: Any) -> None:
    """Its exit code is told beside it (BEHAVIOUR §3.4)."""
    process = start(bash, "trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done")
    await until(lambda: "ready" in process.read_output().text)
    process.kill()
    await process.wait()
    assert ("killed", 0, None) == state(process)


async def test_the_callers_event_kills(bash: LocalBash) -> None:
    """A set event ends it, as ``killed`` (BEHAVIOUR §3.4)."""
    cancel = asyncio.Event()
    process = start(bash, "sleep 600", cancel=cancel)
    await asyncio.sleep(0.1)
    assert "running" == process.status
    cancel.set()
    await process.wait()
    assert ("killed", None, "SIGTERM") == state(process)


async def test_an_event_after_the_end_changes_nothing(bash: LocalBash) -> None:
    """A completed command stays completed (BEHAVIOUR §3.4)."""
    cancel = asyncio.Event()
    process = start(bash, "true", cancel=cancel)
    await process.wait()
    cancel.set()
    await asyncio.sleep(0.05)
    assert ("completed", 0, None) == state(process)


async def test_a_failed_start_is_told_once(bash: LocalBash) -> None:
    """``killed``, and one note in the stderr section of one read; waiting does not raise (BEHAVIOUR §3.4)."""
    process = start(bash, "true", workdir="/absent")
    await process.wait()
    assert ("killed", None, None) == state(process)
    note = process.read_output().text
    assert note.startswith("[stderr]\nspawn failed: ")
    assert "/absent" in note
    assert "" == process.read_output().text
    assert not process.kill()


async def test_what_can_never_run_raises(bash: LocalBash) -> None:
    """A bad request or a cancel before the start is the caller's to know at once (BEHAVIOUR 3.16)."""
    cancel = asyncio.Event()
    cancel.set()
    with pytest.raises(BashStartCancelled):
        start(bash, "true", cancel=cancel)
    with pytest.raises(InvalidBashRequest):
        start(bash, "a\0b")


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo out; echo err >&2", "out\n[stderr]\nerr\n"),
        ("printf out; printf err >&2", "out\n[stderr]\nerr"),
        ("printf err >&2", "[stderr]\nerr"),
        ("printf out", "out"),
        ("true", ""),
    ],
)
async def test_how_a_read_looks(bash: LocalBash, command: str, text: str) -> None:
    """Standard output, a line break if it lacks one, ``[stderr]``, standard error (BEHAVIOUR §3.4)."""
    process = start(bash, command)
    await process.wait()
    assert BashDelta(text=text, lossy=False, stdout_spill_path=None, stderr_spill_path=None) == process.read_output()


async def test_reading_consumes(bash: LocalBash, tmp_path: Path, until: Any) -> None:
    """Each byte is read once, while it runs and after (BEHAVIOUR §3.4)."""
    process = start(bash, "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two")
    first = ""

    def read() -> str:
        nonlocal first
        first += process.read_output().text
        return first

    await until(read)
    assert ("one\n", "") == (first, process.read_output().text)
    (tmp_path / "go").touch()
    await process.wait()
    assert ["two\n", ""] == [process.read_output().text, process.read_output().text]


async def test_a_cut_character_is_held_back(bash: LocalBash, tmp_path: Path, until: Any) -> None:
    """A read between the halves of a character loses nothing; a half at the end is a replacement (BEHAVIOUR §2.5)."""
    process = start(bash, r"printf 'a\xf0\x9f'; while [ ! -e go ]; do sleep 0.02; done; printf '\x98\x80b\xf0\x9f'")
    text = ""

    def read() -> bool:
        nonlocal text
        text += process.read_output().text
        return text != ""

    await until(read)
    await asyncio.sleep(0.05)
    read()
    assert "a" == text
    (tmp_path / "go").touch()
    await process.wait()
    assert "😀b\ufffd" == process.read_output().text


async def test_what_left_the_window_is_told(
    config: LocalBashConfig, parent_env: dict[str, str], tmp_path: Path
) -> None:
    """A late reader gets the tail, ``lossy``, and the path of the whole; each stream's limit is the configured one."""
    async with LocalBash(LocalBashConfig(cwd=config.cwd, max_output_bytes=10), parent_env=parent_env) as bash:
        process = start(bash, "seq 1000; echo few >&2", stdout_max_bytes=64_000)
        await process.wait()
        delta = process.read_output()
    assert ("\n999\n1000\n[stderr]\nfew\n", True) == (delta.text, delta.lossy)
    assert delta.stderr_spill_path is None
    assert "".join(f"{number}\n" for number in range(1, 1001)) == taken(delta.stdout_spill_path)


async def test_it_ends_with_its_executor(config: LocalBashConfig, parent_env: dict[str, str]) -> None:
    """An executor that owns its host leaves nothing running (BEHAVIOUR 2.60)."""
    async with LocalBash(config, parent_env=parent_env) as bash:
        process = start(bash, "sleep 600")
    assert ("killed", None, "SIGTERM") == state(process)


async def test_it_outlives_an_executor_that_borrowed_its_host(config: LocalBashConfig) -> None:
    """Background commands belong to the host, also their cancel event (BEHAVIOUR 2.64)."""
    cancel = asyncio.Event()
    async with ProcessHost() as host:
        async with LocalBash(config, host=host) as bash:
            process = start(bash, "sleep 600", cancel=cancel)
        await asyncio.sleep(0.05)
        assert "running" == process.status
        cancel.set()
        await process.wait()
        assert ("killed", None, "SIGTERM") == state(process)
