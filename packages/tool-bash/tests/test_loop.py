"""The tool inside a real agent loop: what the model is told, and what stands in the log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsh_agent import Agent
from dsh_session import SessionMeta

if TYPE_CHECKING:
    from conftest import OpenLoop

Replies = Sequence[Mapping[str, Any]]
OpenAgent = Callable[[Replies], AbstractAsyncContextManager[Agent]]


def bash(command: str, **arguments: Any) -> Mapping[str, Any]:
    return {"tools": [{"name": "bash", "arguments": {"command": command, "description": "d", **arguments}}]}


@pytest.fixture
def open_agent(open_loop: OpenLoop, tmp_path: Path) -> OpenAgent:
    """A running agent over JSONL persistence and real commands."""

    @asynccontextmanager
    async def start(replies: Replies) -> AsyncIterator[Agent]:
        async with open_loop(replies) as loop:
            yield await loop.agents.create(meta=SessionMeta(cwd=str(tmp_path)), session_id="s1")

    return start


def results(agent: Agent) -> list[tuple[str, bool]]:
    """Each tool result in the log: its text, and whether it is an error."""
    messages = [event.data["message"] for event in agent.session.events if event.type == "tool/result"]
    return [(message["content"][0]["text"], message["isError"]) for message in messages]


async def test_first_turn(open_agent: OpenAgent, tmp_path: Path) -> None:
    """§4.6: a command of the very first turn knows its session and where its log will be."""
    script = [bash("env | grep ^DSH_ | sort"), {"text": "done"}]
    async with open_agent(script) as agent:
        await agent.prompt("go")
        ((text, is_error),) = results(agent)
        facts = dict(line.split("=", 1) for line in text.splitlines())
        assert not is_error
        assert list(facts) == ["DSH_HOME", "DSH_SESSION_ID", "DSH_SESSION_JSONL", "DSH_SHELL"]
        assert (facts["DSH_HOME"], facts["DSH_SESSION_ID"]) == (str(tmp_path / "home"), "s1")
        assert facts["DSH_SESSION_JSONL"].startswith(str(tmp_path / "sessions"))
        log = Path(facts["DSH_SESSION_JSONL"])
    assert log.exists()


async def test_faulty_calls(open_agent: OpenAgent) -> None:
    """5.1 to 5.4: faults of a call are error results that the model reads, and the turn goes on."""
    script = [
        {"tools": [{"name": "bash", "arguments": {"command": "true"}}]},
        bash("true", timeoutMs="1"),
        bash(" "),
        bash("true", timeoutMs=0),
        bash("exit 3"),
        {"text": "done"},
    ]
    async with open_agent(script) as agent:
        assert (await agent.prompt("go")).text == "done"
        assert results(agent) == [
            ('Error: invalid arguments: missing required property "description"', True),
            ('Error: invalid arguments: "timeoutMs" must be a number', True),
            ("Error: invalid command: expected a non-empty string", True),
            ("Error: invalid timeoutMs: expected a positive number, got 0", True),
            ("(no output)\n[exit code: 3]", False),
        ]


async def test_what_the_model_is_told(open_agent: OpenAgent) -> None:
    """§5.1: the request header in the log carries the convention, and no single key."""
    async with open_agent([{"text": "hi"}]) as agent:
        await agent.prompt("go")
        (header,) = [event for event in agent.session.events if event.type == "request/header"]
        logged = str(header.data)
        assert "$DSH_*" in logged
        assert "DSH_SESSION_JSONL" not in logged
