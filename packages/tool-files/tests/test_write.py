from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsh_tool_files import ArgumentRefused, FileChanged, SystemRefused

if TYPE_CHECKING:
    from conftest import Refusal, Run, Swap


@pytest.fixture
def umask() -> Iterator[int]:
    before = os.umask(0o027)
    yield 0o027
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_new_file(run: Run, workspace: Path) -> None:
    """A new file, and the directories it needs, are made; nothing else is left."""
    assert await run("write", file_path="a/b/f", content="é\r\nx") == "created a/b/f (5 bytes)"
    assert (workspace / "a" / "b" / "f").read_bytes() == b"\xc3\xa9\r\nx"
    assert sorted(path.name for path in workspace.rglob("*")) == ["a", "b", "f"]


async def test_existing_file(run: Run, workspace: Path) -> None:
    """An existing file gets all of the new content; its other names keep the old one."""
    (workspace / "f").write_text("a long text")
    (workspace / "g").hardlink_to(workspace / "f")
    assert await run("write", file_path="f", content="") == "replaced f (0 bytes)"
    assert ((workspace / "f").read_text(), (workspace / "g").read_text()) == ("", "a long text")


async def test_permissions_of_a_new_file(run: Run, workspace: Path, umask: int) -> None:
    """A new file gets what the user's umask leaves, as from every other program."""
    await run("write", file_path="d/f", content="x")
    assert (mode(workspace / "d"), mode(workspace / "d" / "f")) == (0o750, 0o640)


@pytest.mark.parametrize(("before", "after"), [(0o600, 0o600), (0o755, 0o755), (0o4777, 0o777), (0o666, 0o666)])
async def test_permissions_stay(run: Run, workspace: Path, umask: int, before: int, after: int) -> None:
    """An existing file keeps its permissions whatever the umask is; new content has no privileges."""
    (workspace / "f").touch()
    (workspace / "f").chmod(before)
    await run("write", file_path="f", content="x")
    assert mode(workspace / "f") == after


async def test_never_readable_by_others(run: Run, workspace: Path, swap: Swap) -> None:
    """While a private file is replaced, its new content is private too."""
    (workspace / "f").touch(mode=0o600)
    modes: list[int] = []
    swap.before("os.chmod", "", lambda: modes.extend(mode(path) for path in workspace.glob(".dsh-*")))
    await run("write", file_path="f", content="x")
    assert modes == [0o600]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
async def test_owner_stays(run: Run, workspace: Path) -> None:
    """A file of somebody else stays theirs."""
    (workspace / "f").touch()
    os.chown(workspace / "f", 65534, 65534)
    await run("write", file_path="f", content="x")
    status = (workspace / "f").stat()
    assert (status.st_uid, status.st_gid) == (65534, 65534)


async def test_half_a_character(refusal: Refusal, workspace: Path) -> None:
    """Text that cannot be written is refused before anything is made."""
    error = await refusal("write", file_path="d/f", content="ab\ud800")
    assert isinstance(error, ArgumentRefused)
    assert "character 2" in str(error)
    assert list(workspace.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
async def test_disk_fails(refusal: Refusal, workspace: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """When the disk fails in the middle, the old file stays whole, nothing is left over, and the reason is told."""
    (workspace / "f").write_text("old")
    real_write = os.write

    def write(fd: int, data: bytes) -> int:
        """Take a little, then fail; only of our files, for asyncio writes as well."""
        if not any(os.path.samestat(os.fstat(fd), path.stat()) for path in workspace.iterdir()):
            return real_write(fd, data)
        if len(data) < 100_000:
            raise OSError(number, os.strerror(number))
        return real_write(fd, data[:50_000])

    monkeypatch.setattr(os, "write", write)
    for path in ("f", "new"):
        error = await refusal("write", file_path=path, content="x" * 200_000)
        assert isinstance(error, SystemRefused)
        assert error.errno == number
    monkeypatch.undo()
    assert {path.name: path.read_text() for path in workspace.iterdir()} == {"f": "old"}


@pytest.mark.parametrize("tool", ["write", "edit"])
@pytest.mark.parametrize("change", ["content", "other file", "gone", "directory"])
async def test_changed_meanwhile(run: Run, workspace: Path, swap: Swap, tool: str, change: str) -> None:
    """What somebody else did to the file since it was looked at is not overwritten, and nothing is left over."""
    file = workspace / "f"
    file.write_text("old")

    def interfere() -> None:
        if change == "content":
            file.write_text("theirs")
            return
        file.unlink()
        if change == "other file":
            file.write_text("old")
        elif change == "directory":
            file.mkdir()

    swap.before("open", ".dsh-", interfere)
    rest = {"content": "x"} if tool == "write" else {"old_string": "old", "new_string": "x"}
    with pytest.raises(FileChanged, match="nothing was written; read it again"):
        await run(tool, file_path="f", **rest)
    assert swap.was_made
    expected = {"content": ["theirs"], "other file": ["old"], "gone": [], "directory": [None]}[change]
    assert [path.read_text() if path.is_file() else None for path in workspace.iterdir()] == expected


async def test_made_meanwhile(run: Run, workspace: Path, swap: Swap) -> None:
    """A file that somebody else makes first is theirs."""
    swap.before("open", ".dsh-", lambda: (workspace / "f").write_text("theirs"))
    with pytest.raises(FileChanged):
        await run("write", file_path="f", content="ours")
    assert {path.name: path.read_text() for path in workspace.iterdir()} == {"f": "theirs"}


async def test_readers_see_one_or_the_other(run: Run, workspace: Path) -> None:
    """Whoever has the old file open reads on in it; nobody ever sees a part."""
    (workspace / "f").write_text("old" * 1000)
    with (workspace / "f").open() as reader:
        assert reader.read(3) == "old"
        await run("write", file_path="f", content="new")
        assert reader.read() == "old" * 999
