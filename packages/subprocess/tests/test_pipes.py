"""Input written, and raw pipes (BEHAVIOUR §2.3)."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dsh_subprocess import (
    Collect,
    CollectedOutput,
    Ignore,
    Inherit,
    Pipe,
    ProcessHost,
    SpawnFailed,
    SpawnSpec,
    StdinData,
    StreamUnavailable,
)
from dsh_subprocess._pipes import CollectPump
from dsh_subprocess._spill import SpillFolder

Shell = Callable[..., SpawnSpec]


async def test_no_input_is_the_null_device(host: ProcessHost, shell: Shell) -> None:
    """A child that reads meets the end at once, whatever the harness's own input is (BEHAVIOUR §2.3)."""
    tree = host.spawn(shell("cat; readlink /proc/self/fd/0"))
    await tree.wait()
    assert "/dev/null\n" == tree.stdout.text()


async def test_input_is_written_whole_and_closed(host: ProcessHost, shell: Shell) -> None:
    """Far more than a pipe holds arrives, while the loop goes on (BEHAVIOUR §2.3)."""
    data = bytes(range(256)) * 20_000
    tree = host.spawn(shell("sleep 0.3; cat", stdin=StdinData(data=data), stdout=Pipe()))
    got = bytearray()
    while chunk := await tree.stdout_pipe.read():
        got += chunk
    assert data == got
    assert 0 == (await tree.wait()).exit_code


async def test_empty_input_is_an_end(host: ProcessHost, shell: Shell) -> None:
    """No bytes are written and the input is closed."""
    tree = host.spawn(shell("cat; echo end", stdin=StdinData(data=b"")))
    await tree.wait()
    assert "end\n" == tree.stdout.text()


@pytest.mark.parametrize("script", ["exit 3", "exec 0<&-; sleep 0.2; exit 3", "head -c 10 >/dev/null; exit 3"])
async def test_a_child_that_does_not_read_is_no_error(host: ProcessHost, shell: Shell, script: str) -> None:
    """A broken pipe is swallowed: the exit code alone speaks (BEHAVIOUR §2.3)."""
    tree = host.spawn(shell(script, stdin=StdinData(data=b"x" * 2_000_000)))
    assert 3 == (await tree.wait()).exit_code


async def test_an_input_held_by_a_descendant_does_not_delay(host: ProcessHost, shell: Shell) -> None:
    """Input that nobody takes is given up when the child has ended (BEHAVIOUR 2.26)."""
    script = "exec 3<&0; sleep 60 <&3 >/dev/null 2>&1 & exit 3"
    tree = host.spawn(shell(script, stdin=StdinData(data=b"x" * 2_000_000)))
    ended = await tree.wait()
    assert (3, False) == (ended.exit_code, ended.pipes_held)


def collected(tmp_path: Path) -> CollectedOutput:
    return CollectedOutput(Collect(max_bytes=100), "stdout", SpillFolder(str(tmp_path)))


@pytest.mark.parametrize("held", [True, False])
async def test_stopping_takes_what_lies_in_the_pipe(tmp_path: Path, held: bool) -> None:
    """What was written before reading stops is kept, and whether a writer is left is told (BEHAVIOUR 2.26)."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    output = collected(tmp_path)
    pump = CollectPump(asyncio.get_running_loop(), read, output, lambda: None)
    os.write(write, b"last words")
    if not held:
        os.close(write)
    assert held == pump.stop()
    assert "last words" == output.text()
    if held:
        os.close(write)


async def test_stopping_is_bounded(tmp_path: Path) -> None:
    """A writer as fast as the reader does not keep it from stopping (CHILDREN §3)."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    output = collected(tmp_path)
    pump = CollectPump(asyncio.get_running_loop(), read, output, lambda: None)
    writer = await asyncio.create_subprocess_exec("yes", stdout=write, stderr=asyncio.subprocess.DEVNULL)
    os.close(write)
    assert pump.stop()
    await writer.wait()
    assert output.total_bytes <= 2 << 20


async def test_raw_pipes_talk_both_ways(host: ProcessHost, shell: Shell) -> None:
    """A caller may hold a conversation (BEHAVIOUR §2.3, ``pipe``)."""
    tree = host.spawn(
        shell("while read x; do echo got:$x; done; echo bye >&2", stdin=Pipe(), stdout=Pipe(), stderr=Pipe())
    )
    for word in (b"one", b"two"):
        await tree.stdin_pipe.write(word + b"\n")
        assert b"got:" + word + b"\n" == await tree.stdout_pipe.read()
    tree.stdin_pipe.close()
    assert b"bye\n" == await tree.stderr_pipe.read()
    assert b"" == await tree.stderr_pipe.read()
    assert b"" == await tree.stdout_pipe.read()
    assert 0 == (await tree.wait()).exit_code


async def test_writing_waits_for_the_child(host: ProcessHost, shell: Shell) -> None:
    """A full pipe holds the writer back until the child reads."""
    tree = host.spawn(shell("read; cat | wc -c", stdin=Pipe()))
    await tree.stdin_pipe.write(b"\n")
    await tree.stdin_pipe.write(b"x" * 1_000_000)
    tree.stdin_pipe.close()
    await tree.wait()
    assert 1_000_000 == int(tree.stdout.text())


async def test_writing_to_a_child_that_is_gone_raises(host: ProcessHost, shell: Shell) -> None:
    """A raw writer is told what happened."""
    tree = host.spawn(shell("exit 0", stdin=Pipe()))
    await tree.wait()
    with pytest.raises(BrokenPipeError):
        await tree.stdin_pipe.write(b"x" * 1_000_000)


async def test_closing_wakes_the_reader(host: ProcessHost, shell: Shell) -> None:
    """A closed reader answers with the end, also to who waits already."""
    tree = host.spawn(shell("sleep 60", stdout=Pipe()))
    reading = asyncio.ensure_future(tree.stdout_pipe.read())
    await asyncio.sleep(0.05)
    with pytest.raises(RuntimeError, match="one task at a time"):
        await tree.stdout_pipe.read()
    tree.stdout_pipe.close()
    assert b"" == await reading


async def test_streams_not_chosen_are_told(host: ProcessHost, shell: Shell) -> None:
    """Asking for a form that the spec did not choose names the one to choose."""
    tree = host.spawn(shell("true", stdout=Ignore(), stderr=Pipe()))
    with pytest.raises(StreamUnavailable, match=r"stdout=Collect\(\.\.\.\)"):
        _ = tree.stdout
    with pytest.raises(StreamUnavailable, match=r"stdin=Pipe\(\)"):
        _ = tree.stdin_pipe
    with pytest.raises(StreamUnavailable, match=r"stdout=Pipe\(\)"):
        _ = tree.stdout_pipe


async def test_pipes_of_a_failed_start_tell_the_failure(host: ProcessHost, shell: Shell) -> None:
    """There is nobody to talk to, and why is said."""
    tree = host.spawn(shell("true", cwd="/nowhere", stdin=Pipe()))
    with pytest.raises(SpawnFailed, match="/nowhere"):
        await tree.started()
    with pytest.raises(SpawnFailed, match="/nowhere"):
        _ = tree.stdin_pipe


async def test_an_inherited_stream_is_the_harness_own(host: ProcessHost, shell: Shell) -> None:
    """``Inherit`` passes the harness's stream on (BEHAVIOUR §2.3)."""
    own = os.readlink("/proc/self/fd/2")  # noqa: PTH115  a path object would follow no better
    tree = host.spawn(shell("readlink /proc/$$/fd/2", stderr=Inherit()))
    await tree.wait()
    assert f"{own}\n" == tree.stdout.text()
