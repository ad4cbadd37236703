"""A workspace on the disk, something outside it that nobody may reach, and the tools of an agent that works there."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dsh_agent import AGENTS, MODEL, SESSIONS, TOOLS, Agent, AgentsConfig, ScriptedModel, ToolExecution, Tools, agents
from dsh_context import App
from dsh_session import SessionMeta, Sessions
from dsh_tool_files import FilesError, FileTool, ToolFilesConfig, file_tools

if sys.platform == "win32":
    collect_ignore_glob = ["test_*.py"]  # a directory cannot be held open there

SECRET = "the secret"
Run = Callable[..., Awaitable[str]]
Refusal = Callable[..., Awaitable[FilesError]]
MakeAgent = Callable[[str | None], Awaitable[Agent]]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "ws"
    path.mkdir()
    return path


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory beside the workspace with ``secret`` and ``d/f`` in it."""
    path = tmp_path / "outside"
    (path / "d").mkdir(parents=True)
    (path / "secret").write_text(SECRET)
    (path / "d" / "f").write_text(SECRET)
    return path


@pytest.fixture
async def make_agent() -> AsyncIterator[MakeAgent]:
    """Make an agent whose session has that directory."""
    model = ScriptedModel.from_replies([])
    async with App() as app:
        await app.provide(SESSIONS, Sessions())
        await app.provide(TOOLS, Tools())
        await app.provide(MODEL, model)
        await app.plugin(agents, AgentsConfig(route=model.route))

        async def make(cwd: str | None) -> Agent:
            return await app.require(AGENTS).create(meta=SessionMeta(cwd=cwd))

        yield make


@pytest.fixture
def tools() -> dict[str, FileTool]:
    return {tool.name: tool for tool in file_tools(ToolFilesConfig(grep_limit_s=30))}


@pytest.fixture
async def run(make_agent: MakeAgent, workspace: Path, tools: dict[str, FileTool]) -> Run:
    """Have a tool called in the workspace, by its name and arguments."""
    agent = await make_agent(str(workspace))

    async def call(name: str, **arguments: Any) -> str:
        execution = ToolExecution(call_id="c1", name=name, arguments=arguments, agent=agent)
        return (await tools[name].execute(execution)).text

    return call


@pytest.fixture
def refusal(run: Run) -> Refusal:
    """Call a tool that is expected to refuse; return why."""

    async def call(name: str, **arguments: Any) -> FilesError:
        with pytest.raises(FilesError) as caught:
            await run(name, **arguments)
        return caught.value

    return call


@pytest.fixture
def ordinary_user() -> Iterator[Path]:
    """Be somebody whom permissions concern; return a workspace of theirs."""
    path = Path(tempfile.mkdtemp())  # pytest's own directory is closed to others
    if is_root := os.geteuid() == 0:
        os.chown(path, 65534, 65534)
        os.setegid(65534)
        os.seteuid(65534)
    try:
        yield path
    finally:
        if is_root:
            os.seteuid(0)
            os.setegid(0)
        shutil.rmtree(path)


class Swap:
    """Runs something right before the system is asked to open, rename or make a certain name.

    Python tells its auditors of such a call before it makes it, which is exactly the moment between a check and a use.
    """

    def __init__(self) -> None:
        self._event: str | None = None

    def before(self, event: str, name: str, action: Callable[[], object]) -> None:
        """Run ``action`` once, before ``event`` of a name that begins with ``name``."""
        self._event, self._name, self._action = event, name, action

    @property
    def was_made(self) -> bool:
        return self._event is None

    def hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == self._event and str(arguments[0]).startswith(self._name):
            self._event = None
            self._action()


_SWAPS: list[Swap] = []


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    for swap in _SWAPS:
        swap.hear(event, arguments)


sys.addaudithook(_audit)  # for good: Python cannot take one away


@pytest.fixture
def swap() -> Iterator[Swap]:
    swap = Swap()
    _SWAPS.append(swap)
    yield swap
    _SWAPS.remove(swap)
