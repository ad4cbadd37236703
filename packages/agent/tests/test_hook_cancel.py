"""An extension ends the turn from inside the point it is asked at: as aborted, by it, and what waits goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from loopkit import Overlapping, overlap, told, until

from dsh_agent import (
    Agent,
    ApprovalAnswer,
    Extension,
    PromptDecision,
    ResultDecision,
    StopDecision,
    ToolDecision,
    TurnEnded,
)

TEXT = {"text": "later"}
CALLS = {"tools": [overlap(text) for text in "abc"]}
ABORTED = {"kind": "aborted", "reason": {"kind": "hook", "reason": "enough"}}
POINTS = ("prompt_submit", "pre_tool_use", "approval_asked", "post_tool_use", "turn_stopping")
BLOCKS: dict[str, Any] = {
    "prompt_submit": PromptDecision(block="no", context=["note"]),
    "pre_tool_use": ToolDecision(verdict="deny", reason="no", context=["note"]),
    "post_tool_use": ResultDecision(block="no", context=["note"]),
    "turn_stopping": StopDecision(go_on="no"),
}


@pytest.fixture(autouse=True)
async def quiet_loop() -> AsyncIterator[None]:
    """Fail a test whose event loop met an exception that nobody saw."""
    unseen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unseen.append(context))
    yield
    assert [] == unseen


class Ends(Extension):
    """Ends the turn once, when it comes to a point, in a way of its own; asks about every call."""

    name = "plugin:ends"

    def __init__(self, point: str, how: str) -> None:
        self.point, self.how = point, how
        self.helpers: list[asyncio.Task[None]] = []
        self.has_ended = False

    async def at(self, point: str, event: Any) -> Any:
        if self.has_ended or point != self.point:
            return None
        self.has_ended = True
        match self.how:
            case "returns":
                end(event.agent)
            case "waits":
                end(event.agent)
                await asyncio.sleep(30)
            case "decides":
                end(event.agent)
                return BLOCKS.get(point)
            case "raises":
                end(event.agent)
                raise ZeroDivisionError("oops")
            case "is late":
                self.helpers.append(asyncio.create_task(end_soon(event.agent)))
                await asyncio.sleep(30)
            case _:
                self.helpers.append(asyncio.create_task(end_soon(event.agent)))
                with pytest.raises(asyncio.CancelledError):
                    await asyncio.sleep(30)
                return BLOCKS.get(point)
        return None

    async def prompt_submit(self, event: Any) -> Any:
        return await self.at("prompt_submit", event)

    async def pre_tool_use(self, event: Any) -> Any:
        return await self.at("pre_tool_use", event) or ToolDecision(verdict="ask", is_fallback=True)

    async def approval_asked(self, event: Any) -> None:
        await self.at("approval_asked", event)

    async def post_tool_use(self, event: Any) -> Any:
        return await self.at("post_tool_use", event)

    async def turn_stopping(self, event: Any) -> Any:
        return await self.at("turn_stopping", event)


class Waits(Extension):
    """Takes its time at every point, as a hook does; a cancel that comes before reaches it there."""

    name = "plugin:waits"

    async def prompt_submit(self, event: Any) -> None:
        await asyncio.sleep(0)

    async def pre_tool_use(self, event: Any) -> None:
        await asyncio.sleep(0)

    async def approval_asked(self, event: Any) -> None:
        await asyncio.sleep(0)

    async def post_tool_use(self, event: Any) -> None:
        await asyncio.sleep(0)

    async def turn_stopping(self, event: Any) -> None:
        await asyncio.sleep(0)


class Person:
    async def ask(self, request: Any) -> ApprovalAnswer:
        await asyncio.sleep(0)
        return ApprovalAnswer(is_allowed=True)


class Quick(Overlapping):
    """Some calls are done at once, ``c`` never is."""

    def __init__(self) -> None:
        super().__init__()
        self.released = {text: asyncio.Event() for text in "abc"}
        for text in "ab":
            self.released[text].set()


def end(agent: Agent) -> None:
    agent.cancel("hook", reason="enough", keep_inbox=True)


async def end_soon(agent: Agent) -> None:
    await asyncio.sleep(0)
    end(agent)


@pytest.mark.parametrize("others", [(), ("before",), ("behind",), ("before", "behind")])
@pytest.mark.parametrize("how", ["returns", "waits", "decides", "raises", "is late", "swallows"])
@pytest.mark.parametrize("point", POINTS)
async def test_it_ends_the_turn(rig: Any, point: str, how: str, others: Any) -> None:
    """Whatever else it says, and whoever is asked beside it; prompts that wait have their own turns."""
    first = [TEXT] if point == "turn_stopping" else [] if point == "prompt_submit" else [CALLS]
    async with rig([*first, TEXT, TEXT], approval=Person()) as run:
        ended: list[TurnEnded] = []
        run.app.on(TurnEnded, ended.append)
        run.tools.register(Quick())
        ends = Ends(point, how)
        if "before" in others:
            run.extensions.register(Waits())
        run.extensions.register(ends)
        if "behind" in others:
            run.extensions.register(Waits())
        agent = await run.agents.create()
        prompts = [asyncio.create_task(agent.prompt(text)) for text in ("go", "second", "third")]
        async with asyncio.timeout(20):
            results = await asyncio.gather(*prompts)
            await asyncio.gather(*ends.helpers)

        completed = {"kind": "completed"}
        assert [ABORTED, completed, completed] == [result.reason for result in results]
        assert [1, 2, 3] == [result.turn for result in results]
        assert [result.reason for result in results] == [each.reason for each in ended]
        assert ["user: second", "assistant: later", "user: third"] == run.model.heard[-1][-3:]
        assert all("note" not in line for line in run.model.heard[-1])
        assert "idle" == agent.status


def result_texts(agent: Agent) -> list[str]:
    return [event.data["message"]["content"][0]["text"] for event in agent.session.events.of_type("tool/result")]


class At(Extension):
    """Does something at the first call with a text, before or after it has run."""

    name = "plugin:at"

    def __init__(self, point: str, text: str, act: Callable[[Agent], Any]) -> None:
        self.point, self.text, self.act = point, text, act

    async def at(self, point: str, event: Any) -> Any:
        if (point, event.arguments["text"]) == (self.point, self.text):
            result = self.act(event.agent)
            return await result if asyncio.iscoroutine(result) else result
        return None

    async def pre_tool_use(self, event: Any) -> Any:
        return await self.at("pre_tool_use", event)

    async def post_tool_use(self, event: Any) -> Any:
        return await self.at("post_tool_use", event)


async def test_before_a_call_while_others_run(rig: Any) -> None:
    """What runs is aborted, what had ended keeps its result, and the call itself and those behind never began."""
    tool = Overlapping()
    tool.released["a"] = asyncio.Event()

    async def stop(agent: Agent) -> None:
        await until(lambda: "+b" in tool.order)
        tool.released["a"].set()
        await until(lambda: "-a" in tool.order)
        end(agent)

    async with rig([{"tools": [overlap(text) for text in "abcd"]}]) as run:
        run.tools.register(tool)
        run.extensions.register(At("pre_tool_use", "c", stop))
        agent = await run.agents.create()
        result = await agent.prompt("go")

        begun, never = "Error: tool call aborted", "Error: tool call aborted before dispatch"
        assert (ABORTED, ["a", begun, never, never]) == (result.reason, result_texts(agent))
        assert ["+a", "+b", "-a"] == tool.order
        assert ["call c1", "call c2", "call c3"] == told(agent.session)[9:12]


@pytest.mark.parametrize("blocks", [True, False])
async def test_after_a_call_while_others_run(rig: Any, *, blocks: bool) -> None:
    """The result that was judged is what the judge left of it: what it took out is nowhere in the log."""
    tool = Overlapping()
    tool.released["secret"] = asyncio.Event()

    def stop(agent: Agent) -> ResultDecision | None:
        end(agent)
        return ResultDecision(block="redacted") if blocks else None

    async with rig([{"tools": [overlap("secret"), overlap("b")]}]) as run:
        run.tools.register(tool)
        run.extensions.register(At("post_tool_use", "secret", stop))
        agent = await run.agents.create()
        prompt = asyncio.create_task(agent.prompt("go"))
        await until(lambda: "+b" in tool.order)
        tool.released["secret"].set()
        result = await prompt

        first = "redacted" if blocks else "secret"
        assert (ABORTED, [first, "Error: tool call aborted"]) == (result.reason, result_texts(agent))
        assert ["+secret", "+b", "-secret"] == tool.order
