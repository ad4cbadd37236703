"""The model inside the loop: what a turn asks, and what the log says afterwards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dsh_agent import AGENTS, MODEL, SESSIONS, TOOLS, Agent, AgentsConfig, ModelRoute, ToolResult, Tools, agents
from dsh_context import App
from dsh_model_openai import OpenAIModel
from dsh_session import Sessions

ROUTE = ModelRoute(provider="test", model="test-model")


class Upper:
    name = "upper"
    description = "Say it in capitals."
    parameters: Mapping[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}

    def is_concurrency_safe(self, arguments: Mapping[str, Any]) -> bool:
        return True

    async def execute(self, execution: Any) -> ToolResult:
        return ToolResult.of_text(execution.arguments["text"].upper())


@asynccontextmanager
async def agent(model: OpenAIModel) -> AsyncIterator[Agent]:
    async with App() as app:
        tools = Tools()
        tools.register(Upper())
        await app.provide(SESSIONS, Sessions())
        await app.provide(TOOLS, tools)
        await app.provide(MODEL, model)
        await app.plugin(agents, AgentsConfig(route=ROUTE, system_prompt="You shout."))
        yield await app.require(AGENTS).create()


def event(finish: str | None = None, **delta: Any) -> bytes:
    piece = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(piece).encode() + b"\n\n"


def call(index: int, id: str, text: str) -> dict[str, Any]:
    return {"index": index, "id": id, "function": {"name": "upper", "arguments": json.dumps({"text": text})}}


async def test_a_turn_with_calls(server, model):
    """Two calls at once come back as two results, with the reasoning that led to them; then the model says its last."""
    calls = [call(0, "call_a", "one"), call(1, "call_b", "two")]
    server.will_send(event(reasoning_content="Hm."), event(tool_calls=calls), event("tool_calls"))
    server.will_send(event(content="Done."), event("stop"))

    async with agent(model) as asked:
        result = await asked.prompt("Shout.")

    assert ("completed", "Done.") == (result.reason["kind"], result.text)
    roles = [(message["role"], message["content"]) for message in server.requests[1].body["messages"]]
    assert [("system", "You shout."), ("user", "Shout."), ("assistant", ""), ("tool", "ONE"), ("tool", "TWO")] == roles
    assert "Hm." == server.requests[1].body["messages"][2]["reasoning_content"]
    assert ["upper"] == [tool["function"]["name"] for tool in server.requests[1].body["tools"]]


async def test_a_refused_request_is_the_turn_s_reason(server, model):
    """What the provider says stands in the log as the reason why the turn ended, and the next prompt goes on."""
    server.will_refuse("401 Unauthorized", {"error": {"message": "who?"}}, {"x-request-id": "req-1"})
    server.will_send(event(content="Back."), event("stop"))

    async with agent(model) as asked:
        refused = await asked.prompt("Shout.")
        result = await asked.prompt("Again.")

    error = {"message": "who?", "code": "AUTH", "status": 401, "requestId": "req-1"}
    assert {"kind": "error", "error": error} == refused.reason
    assert "Back." == result.text


async def test_a_cancelled_turn_closes_the_connection(server, model):
    """Cancelling a turn while the model speaks hangs up."""
    server.will_send(event(content="So far"), end="hold")

    async with asyncio.timeout(30), agent(model) as asked:
        turn = asyncio.create_task(asked.prompt("Shout."))
        await server.arrived.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        await server.gone.wait()
