"""Which calls overlap, and that all are logged in the model's order (BEHAVIOUR §6.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from loopkit import Overlapping, echo, overlap, told, until

from dsh_agent import Extension, ToolDecision, ToolError, ToolExecution, ToolFailure, ToolResult

TEXT = {"text": "ok"}


def results(session: Any) -> list[str]:
    return [event.data["message"]["content"][0]["text"] for event in session.events.of_type("tool/result")]


async def test_a_rolling_pool(rig: Any) -> None:
    """At most so many run; as soon as one ends the next starts, and what is done in order is logged."""
    async with rig([{"tools": [overlap(text) for text in "abcd"]}, TEXT], max_parallel_tool_calls=2) as run:
        tool = Overlapping()
        run.tools.register(tool)
        agent = await run.agents.create()
        prompt = asyncio.create_task(agent.prompt("go"))
        await until(lambda: tool.order == ["+a", "+b"])
        tool.released["b"].set()
        await until(lambda: "+c" in tool.order)
        assert ["call c1", "call c2", "call c3"] == told(agent.session)[9:]
        tool.released["a"].set()
        await until(lambda: "+d" in tool.order)
        assert ["call c3", "result c1", "result c2", "call c4"] == told(agent.session)[11:15]
        for text in "dc":
            tool.released[text].set()
        await prompt

        assert ["a", "b", "c", "d"] == results(agent.session)


async def test_ten_at_a_time(rig: Any) -> None:
    """The default limit."""
    async with rig([{"tools": [overlap(str(number)) for number in range(12)]}, TEXT]) as run:
        tool = Overlapping()
        run.tools.register(tool)
        agent = await run.agents.create()
        prompt = asyncio.create_task(agent.prompt("go"))
        await until(lambda: len(tool.order) == 10)
        await asyncio.sleep(0.01)
        assert 10 == len(tool.order)
        for number in range(12):
            tool.released.setdefault(str(number), asyncio.Event()).set()
        await prompt

        assert [str(number) for number in range(12)] == results(agent.session)


async def test_one_at_a_time(rig: Any) -> None:
    """A limit of one is serial, whatever the tools say; less is refused."""
    async with rig([{"tools": [overlap("a"), overlap("b")]}, TEXT], max_parallel_tool_calls=1) as run:
        tool = Overlapping()
        tool.released = {text: asyncio.Event() for text in "ab"}
        for released in tool.released.values():
            released.set()
        run.tools.register(tool)
        agent = await run.agents.create()
        await agent.prompt("go")

        assert ["+a", "-a", "+b", "-b"] == tool.order
        assert ["call c1", "result c1", "call c2", "result c2"] == told(agent.session)[9:13]
    async with rig(max_parallel_tool_calls=0) as run:
        with pytest.raises(ValueError, match="a number from 1"):
            await run.agents.create()


class Odd(Overlapping):
    """Says of its calls what no tool should."""

    name = "odd"

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer
        self.running = self.most = 0

    def is_concurrency_safe(self, arguments: Mapping[str, Any]) -> bool:
        if isinstance(self.answer, Exception):
            raise self.answer
        answer: bool = self.answer
        return answer

    async def execute(self, execution: ToolExecution) -> ToolResult:
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.01)
        self.running -= 1
        return ToolResult.of_text("x")


@pytest.mark.parametrize(("answer", "most"), [(True, 2), (False, 1), (1, 1), (None, 1), (OSError("no"), 1)])
async def test_only_a_plain_yes_lets_calls_overlap(rig: Any, answer: Any, most: int) -> None:
    """Everything else is exclusive: a tool that fails to say, or says something else."""
    async with rig([{"tools": [{"name": "odd", "arguments": {"text": ""}}] * 2}, TEXT]) as run:
        tool = Odd(answer)
        run.tools.register(tool)
        agent = await run.agents.create()
        await agent.prompt("go")

        assert most == tool.most


class Picky(Overlapping):
    """May overlap unless its text says otherwise."""

    name = "picky"

    def is_concurrency_safe(self, arguments: Mapping[str, Any]) -> bool:
        return bool(arguments["text"] != "alone")


@pytest.mark.parametrize(("verdict", "text"), [(None, "alone"), ("deny", "b")])
async def test_changed_arguments_are_asked_about_again(rig: Any, verdict: Any, text: str) -> None:
    """A call that has become one of those that wait does; one that is refused keeps nobody waiting."""

    class Changes(Extension):
        name = "plugin:changes"

        async def pre_tool_use(self, event: Any) -> ToolDecision | None:
            if event.arguments["text"] != "b":
                return None
            return ToolDecision(updated_input={"text": text}, verdict=verdict)

    call = [{"name": "picky", "arguments": {"text": each}} for each in "abc"]
    async with rig([{"tools": call}, TEXT]) as run:
        tool = Picky()
        run.tools.register(tool)
        run.extensions.register(Changes())
        agent = await run.agents.create()
        prompt = asyncio.create_task(agent.prompt("go"))
        await until(lambda: "+a" in tool.order)
        if verdict is None:
            await asyncio.sleep(0.01)
            assert ["+a"] == tool.order
            tool.released["a"].set()
            await until(lambda: "+alone" in tool.order)
            await asyncio.sleep(0.01)
            assert ["+a", "-a", "+alone"] == tool.order
            tool.released["alone"].set()
        await until(lambda: "+c" in tool.order)
        for released in tool.released.values():
            released.set()
        await prompt

        expected = ["a", "alone", "c"] if verdict is None else ["a", 'Error: tool "picky" was refused', "c"]
        assert expected == results(agent.session)


async def test_modes_are_asked_before_every_start(rig: Any) -> None:
    """What an earlier call of the batch changes counts for later ones: a tool that is gone is unknown."""

    class Leaves(Overlapping):
        name = "leaves"

        async def execute(self, execution: ToolExecution) -> ToolResult:
            dispose()
            return ToolResult.of_text("gone")

    call = {"name": "leaves", "arguments": {"text": ""}}
    async with rig([{"tools": [call, echo(), call]}, TEXT]) as run:
        dispose = run.tools.register(Leaves())
        agent = await run.agents.create()
        await agent.prompt("go")

        assert ["gone", "x", 'Error: unknown tool "leaves"'] == results(agent.session)


class Fails(Overlapping):
    """Gives back what it is made with."""

    name = "fails"

    def __init__(self, outcome: Any) -> None:
        super().__init__()
        self.outcome = outcome

    async def execute(self, execution: ToolExecution) -> ToolResult:
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        result: ToolResult = self.outcome
        return result


@pytest.mark.parametrize(
    ("outcome", "text", "failure"),
    [
        (ToolError("no", name="NoError", code="NO"), "Error: no", {"name": "NoError", "code": "NO"}),
        (ToolError("no", name="NoError"), "Error: no", None),
        (ValueError(), "Error: ValueError", None),
        (asyncio.CancelledError(), "Error: tool call aborted", {"name": "AbortError", "code": "ABORTED"}),
        (
            ToolResult(content=({"type": "text", "text": "fine"},), failure=ToolFailure(name="A", code="B")),
            "fine",
            None,
        ),
        (ToolResult.of_text("x" * (16 << 20)), "Error: the tool's result cannot be logged: it takes", None),
        (ToolResult(content=({"type": "tool-result"},)), "Error: the tool's result cannot be logged: its", None),
    ],
)
async def test_whatever_a_tool_does_is_a_result(rig: Any, outcome: Any, text: str, failure: Any) -> None:
    """The turn goes on, and the log can be read."""
    async with rig([{"tools": [{"name": "fails", "arguments": {"text": ""}}]}, TEXT]) as run:
        run.tools.register(Fails(outcome))
        agent = await run.agents.create()
        result = await agent.prompt("go")

        (settled,) = agent.session.events.of_type("tool/result")
        assert settled.data["message"]["content"][0]["text"].startswith(text)
        assert (failure, "completed") == (settled.data.get("error"), result.reason["kind"])
