"""A cancel at every await of a turn: the log is balanced, the cause is in it, and later work runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
from loopkit import Chunks, Overlapping, echo, overlap, told

from dsh_agent import (
    CHECKPOINT,
    Agent,
    ApprovalAnswer,
    Extension,
    RetryPolicy,
    ToolDecision,
    ToolExecution,
    ToolResult,
)
from dsh_session import BlockEnd, Finish, SessionEvent, TextDelta

TEXT = {"text": "later"}


class Brake:
    """Counts the awaits of a turn and calls ``act`` at one of them, which it then holds."""

    def __init__(self, stops_at: int = -1, *, stubborn: bool = False) -> None:
        self.stops_at, self.stubborn = stops_at, stubborn
        self.act: Callable[[], None] = lambda: None
        self.places: list[str] = []
        self.reached = 0
        """How many of the places the first turn came to."""

    async def at(self, place: str) -> None:
        self.places.append(place)
        await asyncio.sleep(0)
        if len(self.places) - 1 != self.stops_at:
            return
        self.act()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            if not self.stubborn:
                raise


class Everything(Extension):
    """An extension that waits at every point, asks about each call, and makes the turn go on once."""

    name = "plugin:brake"

    def __init__(self, brake: Brake) -> None:
        self.brake = brake

    async def prompt_submit(self, event: Any) -> None:
        await self.brake.at("prompt submit")

    async def pre_tool_use(self, event: Any) -> ToolDecision:
        await self.brake.at("pre tool use")
        return ToolDecision(verdict="ask")

    async def approval_asked(self, event: Any) -> None:
        await self.brake.at("approval asked")

    async def post_tool_use(self, event: Any) -> None:
        await self.brake.at("post tool use")

    async def turn_stopping(self, event: Any) -> None:
        await self.brake.at("turn stopping")


class Tool(Overlapping):
    """Waits once in its body."""

    def __init__(self, brake: Brake) -> None:
        super().__init__()
        self.brake = brake

    async def execute(self, execution: ToolExecution) -> ToolResult:
        await self.brake.at(f"tool {execution.arguments['text']}")
        return ToolResult.of_text("done")


class Exclusive(Tool):
    name = "exclusive"

    def is_concurrency_safe(self, arguments: Mapping[str, Any]) -> bool:
        return False


class Model:
    """Fails once, then calls three tools, then says something; it waits before and between its chunks."""

    def __init__(self, brake: Brake) -> None:
        self.brake = brake
        self.asked = 0

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        self.asked += 1
        await self.brake.at("model, before anything")
        yield TextDelta(index=0, text="so ")
        await self.brake.at("model, after text")
        yield TextDelta(index=0, text="far")
        if self.asked == 1:
            yield Finish(reason={"kind": "error", "failure": {"message": "no", "code": "SERVER"}})
            return
        if self.asked == 2:
            for index, name in enumerate(("overlap", "exclusive", "overlap"), start=1):
                arguments = f'{{"text": "{index}"}}'
                block = {"type": "tool-call", "id": f"c{index}", "name": name, "arguments": arguments}
                yield BlockEnd(index=index, block=block)
            await self.brake.at("model, after calls")
        yield Finish(reason={"kind": "stop"})


class Person:
    def __init__(self, brake: Brake) -> None:
        self.brake = brake

    async def ask(self, request: Any) -> ApprovalAnswer:
        await self.brake.at("approval")
        return ApprovalAnswer(is_allowed=True)


class Disk:
    def __init__(self, brake: Brake) -> None:
        self.brake = brake

    async def reach(self, session: Any, place: str) -> None:
        await self.brake.at(f"checkpoint {place}")


QUICK = RetryPolicy(base_ms=1, jitter=0)
AWAITS = 32
"""How many awaits the turn below has; ``test_the_turn_has_all_its_awaits`` counts them."""


async def run_turn(rig: Any, brake: Brake, how: str) -> Agent:
    async with rig(model=Model(brake), approval=Person(brake), retries=QUICK) as run:
        run.extensions.register(Everything(brake))
        run.tools.register(Tool(brake))
        run.tools.register(Exclusive(brake))
        await run.app.provide(CHECKPOINT, Disk(brake))
        agent: Agent = await run.agents.create()
        prompt = asyncio.create_task(agent.prompt("go"))
        if how == "cancel":
            brake.act = lambda: agent.cancel("user")
        elif how == "task":
            brake.act = lambda: prompt.cancel() and None
        if how == "stop":
            stopping: list[asyncio.Task[None]] = []
            brake.act = lambda: stopping.append(asyncio.create_task(agent.stop()))
        async with asyncio.timeout(20):
            if how == "task":
                with pytest.raises(asyncio.CancelledError):
                    await prompt
            else:
                result = await prompt
                assert agent.session.events[-1].data["reason"] == result.reason
        if how == "stop":
            await asyncio.gather(*stopping)
        elif how != "no":
            brake.stops_at = -1
            brake.reached = len(brake.places)
            assert "completed" == (await agent.prompt("again")).reason["kind"]
        return agent


async def test_the_turn_has_all_its_awaits(rig: Any) -> None:
    """Undisturbed it completes, and the cases below are as many as it has awaits of every kind."""
    brake = Brake()
    agent = await run_turn(rig, brake, "no")

    assert "turn/end completed" == told(agent.session)[-1]
    assert AWAITS == len(brake.places)
    assert {
        "checkpoint step",
        "checkpoint model",
        "checkpoint tool",
        "prompt submit",
        "model, before anything",
        "model, after text",
        "model, after calls",
        "pre tool use",
        "approval asked",
        "approval",
        "tool 1",
        "tool 2",
        "tool 3",
        "post tool use",
        "turn stopping",
    } == set(brake.places)


@pytest.mark.parametrize("how", ["cancel", "task", "stop"])
@pytest.mark.parametrize("stops_at", range(AWAITS))
async def test_a_cancel_at_every_await(rig: Any, stops_at: int, how: str) -> None:
    """By a cancel of the agent, of the prompt's task, or the agent's end: one turn ends as aborted, by that cause."""
    agent = await run_turn(rig, Brake(stops_at), how)

    ends = [event.data["reason"] for event in agent.session.events.of_type("turn/end")]
    cause = "disposed" if how == "stop" else "user"
    assert {"kind": "aborted", "reason": {"kind": cause}} == ends[0]
    assert [] == list(agent.session.events.of_type("approval/asked"))[len(decided(agent)) :]


def decided(agent: Agent) -> list[Any]:
    return list(agent.session.events.of_type("approval/decided"))


@pytest.mark.parametrize("stops_at", range(AWAITS))
async def test_who_swallows_a_cancel_does_not_stop_it(rig: Any, stops_at: int) -> None:
    """Foreign code that goes on after its cancellation delays the end of the turn, and nothing else is begun."""
    brake = Brake(stops_at, stubborn=True)
    agent = await run_turn(rig, brake, "cancel")

    ends = [event.data["reason"]["kind"] for event in agent.session.events.of_type("turn/end")]
    assert ["aborted", "completed"] == ends
    begun = brake.places[stops_at + 1 : brake.reached]
    if brake.places[stops_at].startswith("model"):
        assert all(place.startswith("model, after") for place in begun)
        lines = told(agent.session)
        assert "message interrupted" == lines[lines.index("turn/end aborted") - 2]
    else:
        assert [] == begun


async def test_parallel_calls_end_together(rig: Any) -> None:
    """Each is aborted, one that had finished before keeps its result, and none runs on."""
    async with rig([{"tools": [overlap(text) for text in "abc"]}]) as run:
        tool = Overlapping()
        run.tools.register(tool)
        agent = await run.agents.create()
        prompt = asyncio.create_task(agent.prompt("go"))
        while len(tool.order) < 3:
            await asyncio.sleep(0)
        tool.released["b"].set()
        while "-b" not in tool.order:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        agent.cancel("user")
        await prompt

        texts = [event.data["message"]["content"][0]["text"] for event in agent.session.events.of_type("tool/result")]
        assert ["Error: tool call aborted", "b", "Error: tool call aborted"] == texts
        assert ["+a", "+b", "+c", "-b"] == tool.order


async def test_a_tools_own_error_is_kept(rig: Any) -> None:
    """§6.3: what it says of its abortion counts; a success is only half of one."""

    class Cleans(Overlapping):
        def __init__(self, outcome: Any) -> None:
            super().__init__()
            self.outcome = outcome

        async def execute(self, execution: ToolExecution) -> ToolResult:
            self.order.append("+")
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                if isinstance(self.outcome, Exception):
                    raise self.outcome from None
            return ToolResult.of_text("half")

    for outcome, text in ((OSError("left a lock"), "Error: left a lock"), (None, "Error: tool call aborted")):
        async with rig([{"tools": [overlap("a")]}]) as run:
            tool = Cleans(outcome)
            run.tools.register(tool)
            agent = await run.agents.create()
            prompt = asyncio.create_task(agent.prompt("go"))
            while not tool.order:
                await asyncio.sleep(0)
            agent.cancel("user")
            await prompt

            (result,) = agent.session.events.of_type("tool/result")
            assert text == result.data["message"]["content"][0]["text"]


async def test_the_first_cause_wins(rig: Any) -> None:
    """A second one changes nothing; a hook's reason is in the log."""
    model = Chunks(hang=True)
    async with rig(model=model) as run:
        agent = await run.agents.create()
        prompt = asyncio.create_task(agent.prompt("go"))
        await model.is_waiting.wait()
        agent.cancel("hook", reason="enough")
        agent.cancel("user")

        assert {"kind": "hook", "reason": "enough"} == (await prompt).reason["reason"]


async def test_what_wakes_during_a_cancel_has_its_turn(rig: Any) -> None:
    """§6.3: a waking message that comes after the abort and before the agent is idle is not lost; an injected waits."""
    for wakes in (True, False):
        brake = Brake(0)
        async with rig([{"tools": [overlap("a")]}, TEXT]) as run:
            run.tools.register(Tool(brake))
            agent = await run.agents.create()

            def act(agent: Agent = agent, *, wakes: bool = wakes) -> None:
                agent.cancel("user")
                deliver = agent.steer if wakes else agent.inject
                deliver("now", {"kind": "tool-jobs"})

            brake.act = act
            assert "aborted" == (await agent.prompt("go")).reason["kind"]
            await agent.wait_idle()

            assert (2 if wakes else 1) == agent.session.state.last_turn
            assert (0 if wakes else 1) == len(agent.waiting("next-step"))


async def test_a_prompt_that_is_over_cancels_nothing(rig: Any) -> None:
    """Who is cancelled as its turn has ended does not end the next one."""
    async with rig([TEXT, TEXT]) as run:
        agent = await run.agents.create()
        first, second = (asyncio.create_task(agent.prompt(text)) for text in "ab")

        def cancel(event: SessionEvent) -> None:
            if event.type == "turn/start" and event.data["turn"] == 2:
                assert first.cancel(), "the first is still about to hear of its end"

        agent.session.subscribe(cancel)
        assert "completed" == (await second).reason["kind"]
        with pytest.raises(asyncio.CancelledError):
            await first


async def test_a_cancel_from_within(rig: Any) -> None:
    """A tool that cancels its own agent ends its turn, and the flush after it is not what is cancelled."""

    class Quits(Overlapping):
        async def execute(self, execution: ToolExecution) -> ToolResult:
            assert execution.agent is not None
            execution.agent.cancel("hook", reason="quit")
            return ToolResult.of_text("quit")

    async with rig([{"tools": [overlap("a"), echo()]}]) as run:
        run.tools.register(Quits())
        agent = await run.agents.create()
        result = await agent.prompt("go")

        assert "hook" == result.reason["reason"]["kind"]
        assert 0 == run.persistence.health(agent.session.id).queued
        assert [] == run.echo.seen
