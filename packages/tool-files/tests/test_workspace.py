from __future__ import annotations

import ctypes
import os
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsh_agent import ToolExecution
from dsh_tool_files import (
    FileChanged,
    FilesError,
    FileTool,
    NotThere,
    NoWorkspace,
    PathRefused,
    SystemRefused,
    WrongKind,
)

if TYPE_CHECKING:
    from conftest import MakeAgent, Refusal, Run, Swap

SECRET = "the secret"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calling:
    """How a tool is told a path, and what else it needs."""

    tool: str
    argument: str = "file_path"
    rest: Mapping[str, Any]

    def at(self, path: str) -> dict[str, Any]:
        return {"name": self.tool, self.argument: path, **self.rest}


ON_FILES = [
    Calling(tool="read", rest={}),
    Calling(tool="write", rest={"content": "x"}),
    Calling(tool="edit", rest={"old_string": "the", "new_string": "x"}),
]
CALLINGS = [
    *ON_FILES,
    Calling(tool="glob", argument="path", rest={"pattern": "**"}),
    Calling(tool="grep", argument="path", rest={"pattern": "secret"}),
]
each_tool = pytest.mark.parametrize("calling", CALLINGS, ids=lambda calling: calling.tool)


def contents(directory: Path) -> dict[str, str]:
    """Everything below a directory."""
    files = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    return {str(path.relative_to(directory)): path.read_text() for path in files}


class TestPaths:
    @each_tool
    @pytest.mark.parametrize(
        ("path", "words"),
        [
            ("", "give one"),
            ("..", "'..'"),
            ("../outside/secret", "'..'"),
            ("a/../../outside/secret", "'..'"),
            ("/etc/passwd", "outside the workspace"),
            ("/", "outside the workspace"),
            ("a\0b", "NUL"),
            ("\ud800", "surrogate"),
            ("n" * 256, "255 bytes"),
            ("é" * 128, "255 bytes"),
            ("d/" * 2048 + "f", "4096 bytes"),
        ],
    )
    async def test_refused(self, refusal: Refusal, outside: Path, calling: Calling, path: str, words: str) -> None:
        """A path that leads out, or that no file can have, is refused by every tool, which says what to do."""
        before = contents(outside)
        error = await refusal(**calling.at(path))
        assert isinstance(error, PathRefused)
        assert (words in str(error), "; " in str(error)) == (True, True)
        assert (error.name, error.code) == ("PathRefused", "PATH_REFUSED")
        str(error).encode()
        assert contents(outside) == before

    async def test_absolute_inside(self, run: Run, workspace: Path) -> None:
        """An absolute path in the workspace is one from the workspace down."""
        await run("write", file_path=f"{workspace}//d/./f/", content="x\n")
        assert await run("read", file_path=str(workspace / "d" / "f")) == "     1\tx\n"

    async def test_sibling_with_the_same_beginning(self, refusal: Refusal, workspace: Path) -> None:
        """A directory whose name begins like the workspace's is outside."""
        sibling = workspace.with_name("ws2")
        sibling.mkdir()
        (sibling / "f").write_text(SECRET)
        assert isinstance(await refusal("read", file_path=str(sibling / "f")), PathRefused)

    async def test_workspace_by_a_link(
        self, make_agent: MakeAgent, tools: dict[str, FileTool], workspace: Path
    ) -> None:
        """A session opened through a link works, and both spellings of its directory are inside."""
        link = workspace.with_name("link")
        link.symlink_to(workspace)
        (workspace / "f").write_text("x\n")
        agent = await make_agent(str(link))
        for path in ("f", str(link / "f"), str(workspace / "f")):
            call = ToolExecution(call_id="c", name="read", arguments={"file_path": path}, agent=agent)
            assert (await tools["read"].execute(call)).text == "     1\tx\n"

    async def test_names_of_the_user(self, run: Run) -> None:
        """Spaces, hidden names, other scripts and names that only begin with dots are ordinary."""
        for name in (" a b", ".hidden", "文件", "..x", "~", "-n", "a*b"):
            await run("write", file_path=name, content=name)
            assert await run("read", file_path=name) == f"     1\t{name}\n[no line break at the end of the file]"


class TestWorkspace:
    @each_tool
    async def test_none(self, tools: dict[str, FileTool], calling: Calling) -> None:
        """A call outside any agent has no workspace."""
        execution = ToolExecution(call_id="c", name=calling.tool, arguments=calling.at("f"))
        with pytest.raises(NoWorkspace, match="no workspace; start one with a directory"):
            await tools[calling.tool].execute(execution)

    @pytest.mark.parametrize(
        ("cwd", "words"),
        [(None, "has no workspace"), ("C:\\work", "of another system"), ("/nowhere/at/all", "No such file"),
         ("/dev/null", "Not a directory"), ("/a\0b", "null")],
    )  # fmt: skip
    async def test_unusable(
        self, make_agent: MakeAgent, tools: dict[str, FileTool], cwd: str | None, words: str
    ) -> None:
        """A session without a directory, or with one that is none here, is told so."""
        execution = ToolExecution(call_id="c", name="glob", arguments={"pattern": "*"}, agent=await make_agent(cwd))
        with pytest.raises(NoWorkspace, match=words):
            await tools["glob"].execute(execution)


class TestLinks:
    @pytest.mark.parametrize("target", ["real/f", "./real/../real/f", "{ws}/real/f", "chain", "loop/real/f"])
    async def test_inside(self, run: Run, workspace: Path, target: str) -> None:
        """A link to something inside is followed, relative, absolute, through others and through directories."""
        (workspace / "real").mkdir()
        (workspace / "real" / "f").write_text("x\n")
        (workspace / "chain").symlink_to("real/f")
        (workspace / "loop").symlink_to(".")
        (workspace / "link").symlink_to(target.format(ws=workspace))
        assert await run("read", file_path="link") == "     1\tx\n"
        await run("write", file_path="link", content="y\n")
        await run("edit", file_path="link", old_string="y", new_string="z")
        assert (workspace / "link").is_symlink()
        assert (workspace / "real" / "f").read_text() == "z\n"
        assert await run("grep", pattern="z", path="link") == "link\n1:z\n"

    async def test_directory_inside(self, run: Run, workspace: Path) -> None:
        """A link to a directory inside serves as a path, and files can be made through it."""
        (workspace / "real").mkdir()
        (workspace / "link").symlink_to("real")
        await run("write", file_path="link/new/f", content="x")
        assert (workspace / "real" / "new" / "f").read_text() == "x"
        assert await run("glob", pattern="**", path="link") == "link/new/f"

    async def test_dangling_inside(self, run: Run, refusal: Refusal, workspace: Path) -> None:
        """What a link inside leads to can be made."""
        (workspace / "link").symlink_to("later/f")
        assert isinstance(await refusal("read", file_path="link"), NotThere)
        await run("write", file_path="link", content="x")
        assert (workspace / "later" / "f").read_text() == "x"

    @each_tool
    @pytest.mark.parametrize(
        "target",
        ["{out}", "../outside", "d/../../outside", "{ws}/../outside", "/", "{out}/../ws/../outside", "up/outside"],
    )
    async def test_out(self, refusal: Refusal, workspace: Path, outside: Path, calling: Calling, target: str) -> None:
        """A link that leads out is not followed, wherever in the path it stands."""
        before = contents(outside)
        (workspace / "d").mkdir()
        (workspace / "up").symlink_to("..")
        (workspace / "link").symlink_to(target.format(out=outside, ws=workspace))
        for path in ("link/secret", "link/new", "link/d", "link"):
            error = await refusal(**calling.at(path))
            assert isinstance(error, PathRefused)
            assert "out of the workspace" in str(error)
        assert contents(outside) == before

    @each_tool
    async def test_last_name_out(self, refusal: Refusal, workspace: Path, outside: Path, calling: Calling) -> None:
        """A link to a file outside is neither read nor written through, nor replaced."""
        before = contents(outside)
        (workspace / "link").symlink_to(outside / "secret")
        (workspace / "new").symlink_to(outside / "new")
        for path in ("link", "new"):
            assert isinstance(await refusal(**calling.at(path)), PathRefused)
        assert (contents(outside), (workspace / "link").is_symlink()) == (before, True)

    @each_tool
    async def test_circle(self, refusal: Refusal, workspace: Path, calling: Calling) -> None:
        """Links in a circle are given up."""
        (workspace / "a").symlink_to("b")
        (workspace / "b").symlink_to("a")
        error = await refusal(**calling.at("a"))
        assert isinstance(error, PathRefused)
        assert "40 links" in str(error)


class TestKinds:
    @each_tool
    async def test_special_files(self, refusal: Refusal, workspace: Path, calling: Calling) -> None:
        """Pipes, sockets and devices are refused at once, by what they are, as files and as directories."""
        os.mkfifo(workspace / "pipe")
        made = {"pipe": "pipe"}
        with socket.socket(socket.AF_UNIX) as listener, _inside(workspace):
            listener.bind("sock")
            made["sock"] = "socket"
            if os.geteuid() == 0:
                try:
                    os.mknod(workspace / "dev", 0o600 | 0o020000, os.makedev(1, 3))
                    made["dev"] = "device"
                except PermissionError:  # a container that makes none
                    pass
            for name, kind in made.items():
                error = await refusal(**calling.at(name))
                assert isinstance(error, WrongKind)
                assert error.kind == kind
                error = await refusal(**calling.at(f"{name}/f"))
                assert isinstance(error, WrongKind)

    async def test_directories_and_files(self, refusal: Refusal, workspace: Path) -> None:
        """A directory is no file, a file no directory, and nothing is made of either."""
        (workspace / "d").mkdir()
        (workspace / "f").write_text("x")
        for tool, rest in (("read", {}), ("write", {"content": "y"}), ("edit", {"old_string": "x", "new_string": "y"})):
            for path in ("d", "."):
                error = await refusal(tool, file_path=path, **rest)
                assert isinstance(error, WrongKind)
                assert error.kind == "directory"
            assert isinstance(await refusal(tool, file_path="f/g", **rest), WrongKind)
        assert isinstance(await refusal("glob", pattern="*", path="f"), WrongKind)
        assert contents(workspace) == {"f": "x"}

    @each_tool
    async def test_missing(self, refusal: Refusal, calling: Calling) -> None:
        """What is missing is named, down to the directory that is."""
        if calling.tool == "write":
            return
        error = await refusal(**calling.at("a/b"))
        assert isinstance(error, NotThere)
        assert str(error) == "a/b does not exist (there is no a); find out with glob what does"


class TestPermissions:
    async def test_system_says_no(self, ordinary_user: Path, make_agent: MakeAgent, tools: dict[str, FileTool]) -> None:
        """What the user may not do, the tools do not do, and they say so; a read-only file is not replaced."""
        (ordinary_user / "hidden").write_text("x")
        (ordinary_user / "hidden").chmod(0)
        (ordinary_user / "fixed").write_text("x")
        (ordinary_user / "fixed").chmod(0o444)
        (ordinary_user / "d").mkdir(mode=0o555)
        agent = await make_agent(str(ordinary_user))
        for tool, arguments in (
            ("read", {"file_path": "hidden"}),
            ("write", {"file_path": "fixed", "content": "y"}),
            ("edit", {"file_path": "fixed", "old_string": "x", "new_string": "y"}),
            ("write", {"file_path": "d/new", "content": "y"}),
            ("write", {"file_path": "d/e/new", "content": "y"}),
        ):
            execution = ToolExecution(call_id="c", name=tool, arguments=arguments, agent=agent)
            with pytest.raises(SystemRefused, match="Permission denied; ask the user"):
                await tools[tool].execute(execution)
        assert (ordinary_user / "fixed").read_text() == "x"
        assert list((ordinary_user / "d").iterdir()) == []


class TestSwaps:
    """Names that become something else between the look at them and their use."""

    @each_tool
    async def test_directory(self, run: Run, workspace: Path, outside: Path, swap: Swap, calling: Calling) -> None:
        """A directory on the way that becomes a link out right before it is opened is not followed."""
        before = contents(outside)
        (workspace / "d" / "d").mkdir(parents=True)
        (workspace / "d" / "d" / "f").write_text("the file")
        swap.before("open", "d", lambda: _put_link(workspace / "d", outside))
        path = "d/d/f" if calling in ON_FILES else "d/d"
        with pytest.raises(FileChanged):
            await run(**calling.at(path))
        assert swap.was_made
        assert contents(outside) == before

    @pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
    async def test_file(self, run: Run, workspace: Path, outside: Path, swap: Swap, kind: str) -> None:
        """A file that becomes a link out, a pipe nobody writes to, or a directory, is neither followed nor awaited."""
        before = contents(outside)
        makers: dict[str, Callable[[Path], object]] = {
            "link": lambda file: file.symlink_to(outside / "secret"),
            "pipe": os.mkfifo,
            "directory": Path.mkdir,
        }
        for calling in ON_FILES:
            file = workspace / f"f-{calling.tool}"
            file.write_text("the file")

            def make(file: Path = file) -> None:
                file.unlink()
                makers[kind](file)

            swap.before("open", file.name, make)
            with pytest.raises((FileChanged, WrongKind)):
                await run(**calling.at(file.name))
            assert swap.was_made
        assert contents(outside) == before

    @pytest.mark.parametrize("tool", ["glob", "grep"])
    async def test_directory_of_a_walk(self, run: Run, workspace: Path, outside: Path, swap: Swap, tool: str) -> None:
        """A walk does not enter a directory that becomes a link out, and goes on."""
        (workspace / "d").mkdir()
        (workspace / "e").write_text("the file")
        swap.before("open", "d", lambda: _put_link(workspace / "d", outside))
        answer = await run(tool, pattern="**" if tool == "glob" else "the")
        assert swap.was_made
        assert ("e" in answer, SECRET in answer, "d/" in answer) == (True, False, False)

    async def test_file_of_a_walk(self, run: Run, workspace: Path, outside: Path, swap: Swap) -> None:
        """A search does not read a file that becomes a link out, and goes on."""
        (workspace / "a").write_text("the file")
        (workspace / "b").write_text("the other")
        swap.before("open", "a", lambda: _put_link(workspace / "a", outside / "secret"))
        answer = await run("grep", pattern="the")
        assert swap.was_made
        assert answer == "b\n1:the other\n[1 files could not be read, such as a]"

    async def test_new_directory(self, run: Run, workspace: Path, outside: Path, swap: Swap) -> None:
        """A directory about to be made that somebody else makes a link out of is not followed."""
        before = contents(outside)
        swap.before("os.mkdir", "d", lambda: (workspace / "d").symlink_to(outside / "d"))
        with pytest.raises(FileChanged):
            await run("write", file_path="d/f", content="x")
        assert swap.was_made
        assert contents(outside) == before

    async def test_new_directory_of_somebody_else(self, run: Run, workspace: Path, swap: Swap) -> None:
        """A directory that somebody else makes first serves as well."""
        swap.before("os.mkdir", "d", (workspace / "d").mkdir)
        await run("write", file_path="d/f", content="x")
        assert swap.was_made
        assert contents(workspace) == {"d/f": "x"}

    async def test_rename_onto_a_link(self, run: Run, workspace: Path, outside: Path, swap: Swap) -> None:
        """A link out put where the file is about to go is replaced itself; what it leads to stays."""
        before = contents(outside)
        swap.before("os.rename", ".dsh-", lambda: (workspace / "f").symlink_to(outside / "secret"))
        await run("write", file_path="f", content="x")
        assert swap.was_made
        assert (contents(outside), contents(workspace)) == (before, {"f": "x"})

    @pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges two names in one step")
    async def test_many_rounds(self, run: Run, workspace: Path, outside: Path) -> None:
        """While a thread keeps swapping a directory and a file for links out, no call of many ever gets out."""
        before = contents(outside)
        outcomes: set[str] = set()
        (workspace / "d").mkdir()
        (workspace / "d" / "f").write_text("the file")
        with _keep_swapping(workspace, outside):
            for turn in range(150):
                for calling in CALLINGS:
                    path = "d" if calling not in ON_FILES else "d/f" if turn % 2 else "d/g"
                    try:
                        answer = await run(**calling.at(path))
                    except FilesError as error:
                        outcomes.add(error.name)
                    else:
                        outcomes.add("done")
                        assert SECRET not in answer
        assert contents(outside) == before
        assert "done" in outcomes
        assert "PathRefused" in outcomes


def _put_link(path: Path, target: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    path.symlink_to(target)


@contextmanager
def _inside(directory: Path) -> Iterator[None]:
    """A socket's path is short, so it is bound from its directory."""
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _keep_swapping(workspace: Path, outside: Path) -> Iterator[None]:
    """Exchange ``d`` with a link to the outside, and ``d/g`` in it, as fast as it goes."""
    done = threading.Event()
    (workspace / "out").symlink_to(outside / "d")
    (workspace / "g").symlink_to(outside / "secret")
    (workspace / "d" / "g").write_text("the other")
    directory = os.open(workspace / "d", os.O_RDONLY)

    def swap() -> None:
        here = os.open(workspace, os.O_RDONLY)
        while not done.is_set():
            _exchange(here, b"d", here, b"out")
            _exchange(here, b"g", directory, b"g")
        os.close(here)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        os.close(directory)


def _exchange(one_fd: int, one: bytes, other_fd: int, other: bytes) -> None:
    """Let two names change places in one step, so that there is always something to find."""
    rename_exchange = 2
    if ctypes.CDLL(None, use_errno=True).renameat2(one_fd, one, other_fd, other, rename_exchange) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
