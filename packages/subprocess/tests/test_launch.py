"""Starting, and failing to (BEHAVIOUR 2.28, CHILDREN §3)."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dsh_subprocess import (
    ExecutableMissing,
    ProcessHost,
    SpawnDenied,
    SpawnFailed,
    SpawnSpec,
    WorkingDirectoryMissing,
)

Shell = Callable[..., SpawnSpec]


async def test_no_shell_reads_the_arguments(host: ProcessHost, shell: Shell) -> None:
    """Arguments arrive as they are (BEHAVIOUR §2.3)."""
    tree = host.spawn(shell("", argv=("printf", "%s|", "$HOME", "a b", "*", "ü\udcff")))
    await tree.wait()
    assert b"$HOME|a b|*|\xc3\xbc\xff|" == tree.stdout.data()


async def test_the_child_leads_its_own_session_in_its_directory(
    host: ProcessHost, shell: Shell, tmp_path: Path
) -> None:
    """The first process leads a session and a group, in the directory asked for (BEHAVIOUR 2.20)."""
    tree = host.spawn(shell('pwd; read -r line < /proc/$$/stat; echo "${line##*)}"'))
    await tree.wait()
    directory, numbers = tree.stdout.text().splitlines()
    assert str(tmp_path) == directory
    _state, _parent, group, session = numbers.split()[:4]
    assert (str(tree.pid), str(tree.pid)) == (group, session)


async def test_no_other_descriptor_is_inherited(host: ProcessHost, shell: Shell) -> None:
    """A child has its three streams and nothing of the harness's, inheritable or not."""
    read, write = os.pipe()
    os.set_inheritable(write, True)
    tree = host.spawn(shell("for fd in /proc/$$/fd/*; do echo ${fd##*/}; done"))
    await tree.wait()
    os.close(read)
    os.close(write)
    # 255 is bash's own, and it may hold the folder it lists.
    assert set() == {int(fd) for fd in tree.stdout.text().split()} - {0, 1, 2, 3, 255}


async def failure(host: ProcessHost, spec: SpawnSpec) -> SpawnFailed:
    tree = host.spawn(spec)
    with pytest.raises(SpawnFailed) as caught:
        await tree.wait()
    assert caught.value is tree.failure
    return caught.value


async def test_a_missing_directory_and_a_missing_program_are_told_apart(
    host: ProcessHost, shell: Shell, tmp_path: Path
) -> None:
    """Both are ENOENT to the system; each is named here (CHILDREN §3, BEHAVIOUR §2.3)."""
    absent = str(tmp_path / "absent")
    directory = await failure(host, shell("true", cwd=absent))
    assert (WorkingDirectoryMissing, absent, errno.ENOENT) == (type(directory), directory.cwd, directory.errno)
    assert absent in str(directory)
    program = await failure(host, shell("", argv=("no-such-program",)))
    assert (ExecutableMissing, "no-such-program", errno.ENOENT) == (type(program), program.program, program.errno)
    assert "no-such-program" in str(program)


async def test_a_file_is_no_directory(host: ProcessHost, shell: Shell, tmp_path: Path) -> None:
    """A working directory that is a file counts as missing."""
    (tmp_path / "file").touch()
    assert isinstance(await failure(host, shell("true", cwd=str(tmp_path / "file"))), WorkingDirectoryMissing)


async def test_a_program_is_searched_on_the_childs_path(host: ProcessHost, shell: Shell, tmp_path: Path) -> None:
    """The PATH that counts is the one the child gets (BEHAVIOUR §2.3)."""
    assert isinstance(await failure(host, shell("true", env={"PATH": str(tmp_path)})), ExecutableMissing)
    echo = shutil.which("echo")
    assert echo is not None
    (tmp_path / "a-tool").symlink_to(echo)  # no copy: nothing may be executable where tests write
    tree = host.spawn(shell("", argv=("a-tool", "found"), env={"PATH": str(tmp_path)}))
    await tree.wait()
    assert "found\n" == tree.stdout.text()


async def test_a_file_that_may_not_run_is_denied(host: ProcessHost, shell: Shell, tmp_path: Path) -> None:
    """Missing permission is told as such."""
    (tmp_path / "plain").write_text("echo no\n")
    denied = await failure(host, shell("", argv=(str(tmp_path / "plain"),)))
    assert (SpawnDenied, errno.EACCES) == (type(denied), denied.errno)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may enter any directory")
async def test_a_directory_that_may_not_be_entered_is_denied(host: ProcessHost, shell: Shell, tmp_path: Path) -> None:
    """A closed directory is told apart from a missing one."""
    (tmp_path / "closed").mkdir(mode=0)
    denied = await failure(host, shell("true", cwd=str(tmp_path / "closed")))
    assert SpawnDenied is type(denied)
    assert "closed" in str(denied)


async def test_another_refusal_is_told_plainly(host: ProcessHost, shell: Shell) -> None:
    """Arguments beyond what the system takes fail the start with its own words."""
    refused = await failure(host, shell("x" * 3_000_000))
    assert (SpawnFailed, errno.E2BIG) == (type(refused), refused.errno)


async def test_a_failed_start_has_no_process(host: ProcessHost, shell: Shell) -> None:
    """No id, gone at once, and ending it does nothing (BEHAVIOUR 2.28)."""
    tree = host.spawn(shell("true", cwd="/nowhere"))
    with pytest.raises(WorkingDirectoryMissing):
        await tree.started()
    assert -1 == tree.pid
    tree.terminate()
    tree.kill_now()
    assert await tree.wait_for_exit(0)
    assert await tree.wait_ended()
    assert (0, "", None) == (tree.stdout.total_bytes, tree.stderr.text(), tree.result)
    assert not tree.terminated
    assert () == host.trees
