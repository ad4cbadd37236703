from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsh_agent import Tool, ToolError, ToolExecution
from dsh_tool_files import FilesError, FileTool
from dsh_tool_files._stop import Abandoned, Stop, in_thread

if TYPE_CHECKING:
    from conftest import MakeAgent, Refusal, Swap


def test_schemas(tools: dict[str, FileTool]) -> None:
    """The names and arguments are those that dsh has for its own tools, so that hooks and old sessions fit."""
    shapes = {
        name: (
            {key: schema["type"] for key, schema in tool.parameters["properties"].items()},
            tool.parameters["required"],
        )
        for name, tool in tools.items()
    }
    assert shapes == {
        "read": ({"file_path": "string", "offset": "integer", "limit": "integer"}, ["file_path"]),
        "write": ({"file_path": "string", "content": "string"}, ["file_path", "content"]),
        "edit": (
            {"file_path": "string", "old_string": "string", "new_string": "string", "replace_all": "boolean"},
            ["file_path", "old_string", "new_string"],
        ),
        "glob": ({"pattern": "string", "path": "string"}, ["pattern"]),
        "grep": ({"pattern": "string", "path": "string", "include": "string", "context": "integer"}, ["pattern"]),
    }
    json.dumps([tool.parameters for tool in tools.values()])


def test_what_may_overlap(tools: dict[str, FileTool]) -> None:
    """Calls that only read may overlap with others; those that write may not."""
    offered: Mapping[str, Tool] = tools
    safe = {name: tool.is_concurrency_safe({}) for name, tool in offered.items()}
    assert safe == {"read": True, "write": False, "edit": False, "glob": True, "grep": True}


async def test_errors_are_a_tree(refusal: Refusal) -> None:
    """Every refusal is a ToolError with a name and a code for the log."""
    error = await refusal("read", file_path="nothing")
    assert isinstance(error, ToolError)
    assert (error.name, error.code, error.path) == ("NotThere", "NOT_FOUND", "nothing")
    for kind in FilesError.__subclasses__():
        assert kind._CODE.isupper()


async def test_sessions_do_not_mix(make_agent: MakeAgent, tools: dict[str, FileTool], tmp_path: Path) -> None:
    """Calls that run at the same time each work in their own session's directory."""

    async def call(name: str) -> str:
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(f"{name}\n")
        arguments = {"file_path": "f"}
        agent = await make_agent(str(tmp_path / name))
        execution = ToolExecution(call_id="c", name="read", arguments=arguments, agent=agent)
        return (await tools["read"].execute(execution)).text

    names = [f"s{number}" for number in range(20)]
    assert await asyncio.gather(*map(call, names)) == [f"     1\t{name}\n" for name in names]


async def test_cancelled_write(make_agent: MakeAgent, tools: dict[str, FileTool], workspace: Path, swap: Swap) -> None:
    """A cancelled write that has not got to its end writes nothing, and leaves nothing, once the call has ended."""
    (workspace / "f").write_text("old")
    is_there, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        is_there.set()
        assert go_on.wait(60)

    swap.before("open", ".dsh-", hold)
    arguments: dict[str, Any] = {"file_path": "f", "content": "new"}
    execution = ToolExecution(call_id="c", name="write", arguments=arguments, agent=await make_agent(str(workspace)))
    call = asyncio.ensure_future(tools["write"].execute(execution))
    await asyncio.to_thread(is_there.wait, 60)
    call.cancel()
    await asyncio.sleep(0.05)
    assert not call.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert {path.name: path.read_text() for path in workspace.iterdir()} == {"f": "old"}


async def test_cancelled_before_it_began() -> None:
    """Work that nobody waits for any more is told so at its first step."""
    stop = Stop()
    stop.check()
    stop.set()
    with pytest.raises(Abandoned):
        stop.check()


async def test_failures_pass_through() -> None:
    """What the work raises is raised."""

    def work(stop: Stop) -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await in_thread(work)
