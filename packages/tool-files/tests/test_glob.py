from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsh_tool_files import FilesError
from dsh_tool_files._pattern import GlobPattern
from dsh_tool_files._stop import Stop
from dsh_tool_files._walk import MAX_DEPTH, Walk

if TYPE_CHECKING:
    from conftest import Run


def descriptors() -> int:
    """How many this process has open."""
    return sum(1 for _ in Path("/dev/fd").iterdir())


def make(workspace: Path, *paths: str) -> None:
    for path in paths:
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text("x")


async def test_lists_files_in_order(run: Run, workspace: Path) -> None:
    """Files are listed by their paths from the workspace down, in order; directories are not."""
    make(workspace, "b.py", "a/c.py", "a/b/c.py", "a.py", "c.txt")
    assert await run("glob", pattern="*.py") == "a/b/c.py\na/c.py\na.py\nb.py"
    assert await run("glob", pattern="*.py", path="a") == "a/b/c.py\na/c.py"
    assert await run("glob", pattern="b/*", path=str(workspace / "a")) == "a/b/c.py"
    assert await run("glob", pattern="*.js", path="a") == "no file in a matches '*.js'"


async def test_hidden_and_passed_over(run: Run, workspace: Path) -> None:
    """Hidden files are files; directories of programs are entered only where somebody names them."""
    make(workspace, ".github/ci.yml", ".env", ".git/config", "d/node_modules/m/i.js", "d/.git", "src/__pycache__/a.pyc")
    assert await run("glob", pattern="**") == ".env\n.github/ci.yml\nd/.git"
    assert await run("glob", pattern=".git/*") == ".git/config"
    assert await run("glob", pattern="**/node_modules/**") == "d/node_modules/m/i.js"
    assert await run("glob", pattern="*", path="d/node_modules") == "d/node_modules/m/i.js"


async def test_links(run: Run, workspace: Path, outside: Path) -> None:
    """Links are listed and not followed, so circles end and nothing outside is shown."""
    make(workspace, "d/f")
    (workspace / "d" / "up").symlink_to("..")
    (workspace / "d" / "self").symlink_to("self")
    (workspace / "out").symlink_to(outside)
    assert await run("glob", pattern="**") == "d/f\nd/self\nd/up\nout"
    assert await run("glob", pattern="out/*") == "no file in . matches 'out/*'"


async def test_other_kinds(run: Run, workspace: Path) -> None:
    """Pipes are not listed, and not waited for."""
    make(workspace, "f")
    os.mkfifo(workspace / "pipe")
    assert await run("glob", pattern="*") == "f"


async def test_strange_names(run: Run, workspace: Path) -> None:
    """A name cannot pose as several, nor break the log."""
    (workspace / os.fsdecode(b"a\xff\nb")).touch()
    assert await run("glob", pattern="*") == "a\\xff\\nb"


async def test_many_files(run: Run, workspace: Path) -> None:
    """The first thousand files are listed, and that there are more is told."""
    for number in range(1001):
        (workspace / f"{number:04}").touch()
    lines = (await run("glob", pattern="*")).splitlines()
    assert (lines[0], lines[999], len(lines)) == ("0000", "0999", 1001)
    assert lines[1000].startswith("[the first 1000 files, there are more")
    (workspace / "0000").unlink()
    assert (await run("glob", pattern="*")).splitlines()[-1] == "1000"


async def test_deep(run: Run, workspace: Path) -> None:
    """A tree that is too deep is not followed to its end, and that is told."""
    make(workspace, "d/" * MAX_DEPTH + "f", "d/" * (MAX_DEPTH + 1) + "f")
    assert await run("glob", pattern="f") == (
        f"{'d/' * MAX_DEPTH}f\n[1 directories could not be read, such as {'d/' * MAX_DEPTH}d]"
    )


def test_too_many_names(workspace: Path) -> None:
    """A walk looks at so many names and no more, and tells so; its descriptors are closed."""
    for directory in "ab":
        (workspace / directory).mkdir()
        for number in range(10):
            (workspace / directory / str(number)).touch()
    walk = Walk(GlobPattern("**"), Stop(), max_entries=5)
    fd = os.open(workspace, os.O_RDONLY)
    open_before = descriptors()
    assert len(list(walk.files(fd, ""))) == 3
    assert "too many names" in walk.notices[0]
    walk.files(fd, "").close()
    assert descriptors() == open_before
    os.close(fd)


async def test_forbidden_directory(run: Run, workspace: Path, ordinary_user: Path) -> None:
    """A directory nobody may read is told of, and the rest is listed."""
    make(ordinary_user, "a/f", "b/f")
    (ordinary_user / "a").chmod(0)
    fd = os.open(ordinary_user, os.O_RDONLY)
    walk = Walk(GlobPattern("**"), Stop())
    assert [found.path for found in walk.files(fd, "")] == ["b/f"]
    assert walk.notices == ["1 directories could not be read, such as a"]
    os.close(fd)
    (ordinary_user / "a").chmod(0o700)


async def test_no_descriptor_is_left(run: Run, workspace: Path) -> None:
    """Whatever the calls come to, they leave nothing open."""
    make(workspace, "a/b/f", "g")
    (workspace / "link").symlink_to("a/b/f")
    calls = [
        ("glob", {"pattern": "**"}), ("glob", {"pattern": "*", "path": "g"}), ("grep", {"pattern": "x"}),
        ("grep", {"pattern": "("}), ("read", {"file_path": "link"}), ("read", {"file_path": "a/b"}),
        ("read", {"file_path": "a/z/f"}), ("write", {"file_path": "link", "content": "x"}),
        ("edit", {"file_path": "g", "old_string": "q", "new_string": ""}),
    ]  # fmt: skip

    async def call_all() -> None:
        for name, arguments in calls:
            try:
                await run(name, **arguments)
            except FilesError as error:
                told.append(str(error))

    told: list[str] = []
    await call_all()
    assert (len(told), [text for text in told if "; " not in text]) == (5, [])
    before = descriptors()
    await call_all()
    assert descriptors() == before


@pytest.mark.parametrize("pattern", ["", "/x", "a/../b"])
async def test_no_pattern(run: Run, pattern: str) -> None:
    """What is no pattern is an error, not an empty result."""
    with pytest.raises(Exception, match="invalid pattern"):
        await run("glob", pattern=pattern)
