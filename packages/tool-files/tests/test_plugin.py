"""The tools in a harness: mounted, called by a model, taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsh_agent import AGENTS, MODEL, SESSIONS, TOOLS, AgentsConfig, ScriptedModel, ToolExists, Tools, agents
from dsh_context import App
from dsh_session import SessionMeta, Sessions
from dsh_tool_files import ToolFilesConfig, file_tools, tool_files

NAMES = ["read", "write", "edit", "glob", "grep"]


async def test_comes_and_goes() -> None:
    """The plugin offers five tools, in this order, and takes them back."""
    async with App() as app:
        tools = Tools()
        fiber = await app.plugin(tool_files, None)
        await app.provide(TOOLS, tools)
        assert [definition["name"] for definition in tools.definitions()] == NAMES
        await fiber.stop()
        assert tools.definitions() == []
        await app.plugin(tool_files, ToolFilesConfig(grep_limit_s=1))
        assert [definition["name"] for definition in tools.definitions()] == NAMES


async def test_failed_start_leaves_nothing() -> None:
    """When another tool has one of the names, none is offered."""
    async with App() as app:
        tools = Tools()
        await app.provide(TOOLS, tools)
        dispose = tools.register(file_tools()[2])
        with pytest.raises(ToolExists):
            await app.plugin(tool_files, None)
        dispose()
        assert tools.definitions() == []


async def test_a_model_works_with_them(tmp_path: Path) -> None:
    """A whole turn: what the model asks for happens in its session's directory, and faults are results it reads."""
    calls = [
        ("write", {"file_path": "src/a.py", "content": "x = 1\n"}),
        ("edit", {"file_path": "src/a.py", "old_string": "1", "new_string": "2"}),
        ("read", {"file_path": "src/a.py"}),
        ("glob", {"pattern": "*.py"}),
        ("grep", {"pattern": "x ="}),
        ("read", {"file_path": "../secret"}),
        ("read", {"file_path": "src/a.py", "limit": "2"}),
        ("read", {}),
    ]
    replies = [{"tools": [{"name": name, "arguments": arguments}]} for name, arguments in calls]
    model = ScriptedModel.from_replies([*replies, {"text": "done"}])
    async with App() as app:
        await app.provide(SESSIONS, Sessions())
        await app.provide(TOOLS, Tools())
        await app.provide(MODEL, model)
        await app.plugin(tool_files, None)
        await app.plugin(agents, AgentsConfig(route=model.route))
        agent = await app.require(AGENTS).create(meta=SessionMeta(cwd=str(tmp_path)))
        assert (await agent.prompt("go")).text == "done"
        results = [event.data for event in agent.session.events if event.type == "tool/result"]
    assert [result["message"]["content"][0]["text"] for result in results] == [
        "created src/a.py (6 bytes)",
        "edited src/a.py: 1 replacement at line 1",
        "     1\tx = 2\n",
        "src/a.py",
        "src/a.py\n1:x = 2\n",
        "Error: '../secret' contains '..'; name the file from the workspace down",
        'Error: invalid arguments: "limit" must be a integer',
        'Error: invalid arguments: missing required property "file_path"',
    ]
    assert results[5]["error"] == {"name": "PathRefused", "code": "PATH_REFUSED"}
