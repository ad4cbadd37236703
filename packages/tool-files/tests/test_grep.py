from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsh_agent import ToolExecution
from dsh_tool_files import ArgumentRefused, NotText, PatternInvalid, SearchStopped, ToolFilesConfig, file_tools

if TYPE_CHECKING:
    from conftest import MakeAgent, Refusal, Run

ENDLESS = "(x+x+)+y"
"""On a line of many x and no y it takes longer than anybody lives."""


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


OTHERS: set[int] = set()
"""What this process had started before the test, for tests of other packages perhaps."""


def all_children() -> list[int]:
    found: list[int] = []
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a thread of an earlier call ends meanwhile
            found += map(int, (thread / "children").read_text().split())
    return found


def children() -> list[int]:
    """The processes this test has started and that are not reaped."""
    return [pid for pid in all_children() if pid not in OTHERS]


@pytest.fixture(autouse=True)
def remember_others() -> None:
    OTHERS.clear()
    if sys.platform == "linux":
        OTHERS.update(all_children())


async def until_matching() -> None:
    """Wait until the search is far beyond its start: it has used ten times the processor time of that."""
    ticks = 0
    while ticks < 30:
        await asyncio.sleep(0.02)
        for pid in children():
            ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])


async def test_groups_by_file(run: Run, workspace: Path) -> None:
    """Matching lines come with their numbers, grouped by file, in the order of paths."""
    (workspace / "d").mkdir()
    (workspace / "d" / "a").write_text("one\ntwo\none and a half\n")
    (workspace / "b").write_bytes(b"zero\r\nONE one\r\n")
    assert await run("grep", pattern=r"\bone\b") == "b\n2:ONE one\n\nd/a\n1:one\n3:one and a half\n"
    assert await run("grep", pattern="^(?i:one)$", path="d") == "d/a\n1:one\n"
    assert await run("grep", pattern="one$", path="b") == "b\n2:ONE one\n"
    assert await run("grep", pattern="three", path="d") == "nothing in d matches 'three'"


async def test_context(run: Run, workspace: Path) -> None:
    """Lines around the matches are shown once each, with a mark where some are left out."""
    (workspace / "f").write_text("".join(f"{'x' if n in (3, 4, 9) else n}\n" for n in range(1, 12)))
    assert await run("grep", pattern="x", context=2) == "f\n1-1\n2-2\n3:x\n4:x\n5-5\n6-6\n7-7\n8-8\n9:x\n10-10\n11-11\n"
    assert await run("grep", pattern="x", context=1) == "f\n2-2\n3:x\n4:x\n5-5\n--\n8-8\n9:x\n10-10\n"


async def test_context_ends_with_its_file(run: Run, workspace: Path) -> None:
    """What stands around a match is of the same file, also when the next one matches at once."""
    (workspace / "a").write_text("1\n2\n")
    (workspace / "b").write_text("x\n")
    (workspace / "c").write_text("3")
    assert await run("grep", pattern="x", context=10) == "b\n1:x\n"


async def test_include(run: Run, workspace: Path) -> None:
    """Only files of the pattern are searched."""
    for name in ("a.py", "b.ts", "c.tsx"):
        (workspace / name).write_text("x")
    assert await run("grep", pattern="x", include="*.{ts,tsx}") == "b.ts\n1:x\n\nc.tsx\n1:x\n"


async def test_what_is_passed_over(run: Run, refusal: Refusal, workspace: Path, outside: Path) -> None:
    """Binary files, links, pipes and directories of programs are not searched; a binary file named is refused."""
    (workspace / "binary").write_bytes(b"secret\0")
    (workspace / "link").symlink_to(outside / "secret")
    (workspace / "out").symlink_to(outside)
    os.mkfifo(workspace / "pipe")
    (workspace / ".git").mkdir()
    (workspace / ".git" / "config").write_text("secret")
    assert await run("grep", pattern="secret") == "nothing in . matches 'secret'"
    assert await run("grep", pattern="secret", path=".git") == ".git/config\n1:secret\n"
    assert isinstance(await refusal("grep", pattern="secret", path="binary"), NotText)


async def test_other_encodings(run: Run, workspace: Path) -> None:
    """Text of another encoding is searched all the same."""
    (workspace / "f").write_bytes("größe x\n".encode("latin-1"))
    assert await run("grep", pattern="x") == "f\n1:gr\ufffd\ufffde x\n"


async def test_many_matches(run: Run, workspace: Path) -> None:
    """So many matches and no more are shown, and that is told."""
    (workspace / "a").write_text("x\n" * 200)
    (workspace / "b").write_text("x\n" * 200)
    answer = await run("grep", pattern="x")
    assert answer.count(":x") == 250
    assert answer.splitlines()[-2:] == [
        "50:x", "[this is enough for one result and there may be more; give a narrower pattern, path or include]"
    ]  # fmt: skip


async def test_much_text(run: Run, workspace: Path) -> None:
    """A result is bounded whatever stands around its matches."""
    for number in range(100):
        (workspace / f"{number}").write_text(f"{'y' * 299}\n" * 10 + "x\n")
    answer = await run("grep", pattern="x", context=10)
    assert len(answer) < 60_000
    assert "this is enough for one result" in answer


async def test_long_lines(run: Run, workspace: Path) -> None:
    """Of a long line what is around the match is shown; of a very long one only the beginning is searched, as told."""
    (workspace / "f").write_text("a" * 1000 + "x" + "b" * 1000 + "\n")
    answer = await run("grep", pattern="x")
    assert answer == f"f\n1:…{'a' * 100}x{'b' * 199}…\n"
    (workspace / "f").write_text("x" + "a" * 100_000 + "y\n")
    assert (await run("grep", pattern="x")).endswith("[of very long lines only the beginning was searched]")
    assert (await run("grep", pattern="y")).startswith("nothing in . matches 'y'")


async def test_huge_file(run: Run, workspace: Path) -> None:
    """A huge file is searched piece by piece, and no further than enough is found."""
    with (workspace / "f").open("wb") as file:
        file.write(b"a\n" * 150_000 + b"x\n" + b"a\n" * 150_000 + b"x\n" * 250)
        file.truncate(1 << 40)
    answer = await run("grep", pattern="x")
    assert answer.startswith("f\n150001:x\n300002:x\n300003:x\n")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [("(", "unterminated"), ("(" * 5000 + ")" * 5000, "recursion"), ("a{99999999999}", "too large")],
)
async def test_no_expression(refusal: Refusal, pattern: str, words: str) -> None:
    """What is no expression, or none that can be compiled, is refused."""
    error = await refusal("grep", pattern=pattern)
    assert isinstance(error, PatternInvalid)
    assert words in str(error)


@pytest.mark.parametrize("context", [-1, 11])
async def test_context_out_of_bounds(refusal: Refusal, context: int) -> None:
    """The context has bounds."""
    assert isinstance(await refusal("grep", pattern="x", context=context), ArgumentRefused)


async def grep(agent: object, limit_s: float, **arguments: object) -> str:
    tool = file_tools(ToolFilesConfig(grep_limit_s=limit_s))[-1]
    return (await tool.execute(ToolExecution(call_id="c", name="grep", arguments=arguments, agent=agent))).text  # type: ignore[arg-type]


async def test_endless_pattern(make_agent: MakeAgent, workspace: Path) -> None:
    """A pattern that never ends is ended, the loop goes on meanwhile, and no process is left."""
    (workspace / "f").write_text("x" * 5000)
    agent = await make_agent(str(workspace))
    searching = asyncio.ensure_future(grep(agent, 1, pattern=ENDLESS))
    turns = 0
    while not searching.done():
        await asyncio.sleep(0.02)
        turns += 1
    with pytest.raises(SearchStopped, match="longer than 1 s; give a simpler pattern"):
        await searching
    assert turns > 5
    if sys.platform == "linux":
        assert children() == []


async def test_much_to_search(make_agent: MakeAgent, workspace: Path) -> None:
    """A search that is only long is ended as well."""
    with (workspace / "f").open("wb") as file:
        file.write(b"a\n" * 5000)
        file.truncate(1 << 40)
    with pytest.raises(SearchStopped, match=r"longer than 0\.5 s"):
        await grep(await make_agent(str(workspace)), 0.5, pattern="x")


async def test_what_was_found_before(make_agent: MakeAgent, workspace: Path) -> None:
    """What was found before a search was ended is shown, and that it is not all."""
    (workspace / "a").write_text("xxy\n")
    (workspace / "b").write_text("x" * 5000)
    agent = await make_agent(str(workspace))
    answer = await grep(agent, 1, pattern=ENDLESS)
    assert answer.startswith("a\n1:xxy\n[not everything was searched: the search took longer than 1 s")


@linux_only
async def test_cancelled(make_agent: MakeAgent, workspace: Path) -> None:
    """When a cancelled call has ended, so has its process, even in the middle of a match that never ends."""
    (workspace / "f").write_text("x" * 5000)
    searching = asyncio.ensure_future(grep(await make_agent(str(workspace)), 600, pattern=ENDLESS))
    async with asyncio.timeout(60):
        await until_matching()
        searching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await searching
    assert children() == []


@linux_only
async def test_process_that_dies(make_agent: MakeAgent, workspace: Path) -> None:
    """A search whose process dies under it says so."""
    (workspace / "f").write_text("x" * 5000)
    searching = asyncio.ensure_future(grep(await make_agent(str(workspace)), 600, pattern=ENDLESS))
    async with asyncio.timeout(60):
        await until_matching()
        for pid in children():
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(SearchStopped, match="the process of the search ended"):
            await searching


async def test_no_memory(refusal: Refusal, workspace: Path) -> None:
    """A pattern that would fill the memory is ended by the bound that its process has."""
    (workspace / "f").write_text("x" * 60_000)
    error = await refusal("grep", pattern=f"(?:{'()' * 3000}x)*z")
    assert isinstance(error, SearchStopped)
    assert "want of memory" in str(error)
