"""A recording for each row of BEHAVIOUR §6.3 in its v4 form: the exact events in order, and what the model saw."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from loopkit import Chunks, Overlapping, echo, overlap, told, until

from dsh_agent import (
    Agent,
    AgentFailed,
    Extension,
    ModelRoute,
    PromptDecision,
    ToolDecision,
    ToolExecution,
    ToolResult,
)
from dsh_session import BlockEnd, Finish, TextDelta, ToolCallDelta

TEXT: Mapping[str, Any] = {"text": "hello"}
FIRST = ["IN+ next-turn", "turn/start 1", "IN- next-turn", "step/start 1.1", "system/message", "user/message"]
ASKED = ["request/header initial", "request/context"]
OPENING = [*FIRST, *ASKED]


async def test_text_only(rig: Any) -> None:
    """Row 1 and 2: header and context are logged once; a later turn has neither."""
    async with rig([TEXT, TEXT]) as run:
        agent = await run.agents.create()
        await agent.prompt("hi")
        first = agent.session.next_seq
        await agent.prompt("again")

        assert [*OPENING, "message", "step/end", "turn/end completed"] == told(agent.session)[:first]
        later = ["IN+ next-turn", "turn/start 2", "IN- next-turn", "step/start 2.1", "user/message"]
        assert [*later, "message", "step/end", "turn/end completed"] == told(agent.session)[first:]
        assert [["user: hi"], ["user: hi", "assistant: hello", "user: again"]] == run.model.heard


async def test_one_tool_call(rig: Any) -> None:
    """Row 3: the result cites its call; the next step has no message of its own."""
    async with rig([{"tools": [echo()]}, TEXT]) as run:
        agent = await run.agents.create()
        await agent.prompt("go")

        step_2 = ["step/start 1.2", "message", "step/end", "turn/end completed"]
        assert [*OPENING, "message", "call c1", "result c1", "step/end", *step_2] == told(agent.session)
        (call,) = agent.session.events.of_type("tool/call")
        (result,) = agent.session.events.of_type("tool/result")
        assert (call.seq,) == result.source_event_seqs
        assert [["user: go"], ["user: go", "assistant: (echo)", "tool: x"]] == run.model.heard


async def test_parallel_calls_commit_in_model_order(rig: Any) -> None:
    """Row 4: the second finishes first, and its result waits for the first's."""
    async with rig([{"tools": [overlap("a"), overlap("b")]}, TEXT]) as run:
        tool = Overlapping()
        run.tools.register(tool)
        agent = await run.agents.create()
        prompt = asyncio.create_task(agent.prompt("go"))
        await until(lambda: len(tool.order) == 2)
        tool.released["b"].set()
        await until(lambda: "-b" in tool.order)
        await asyncio.sleep(0.01)
        before = told(agent.session)
        tool.released["a"].set()
        await prompt

        assert [*OPENING, "message", "call c1", "call c2"] == before
        assert ["result c1", "result c2", "step/end", "step/start 1.2"] == told(agent.session)[len(before) :][:4]
        assert ["user: go", "assistant: (overlap) (overlap)", "tool: a", "tool: b"] == run.model.heard[1]


async def test_an_exclusive_call_is_a_barrier(rig: Any) -> None:
    """Row 5: parallel, exclusive, parallel: each is settled before the next starts."""
    async with rig([{"tools": [overlap("a"), echo("b"), overlap("c")]}, TEXT]) as run:
        tool = Overlapping()
        run.tools.register(tool)
        agent = await run.agents.create()
        prompt = asyncio.create_task(agent.prompt("go"))
        for text in ("a", "c"):
            await until(lambda text=text: f"+{text}" in tool.order)
            tool.released[text].set()
        await prompt

        calls = [f"{what} c{number}" for number in (1, 2, 3) for what in ("call", "result")]
        assert calls == told(agent.session)[9:15]


async def test_a_tool_throws(rig: Any) -> None:
    """Row 6: the result is an error without a code, and the turn goes on."""
    async with rig([{"tools": [echo(fail=True)]}, TEXT]) as run:
        agent = await run.agents.create()
        await agent.prompt("go")

        expected = ["call c1", "result c1 error", "step/end", "step/start 1.2", "message", "step/end"]
        assert [*OPENING, "message", *expected, "turn/end completed"] == told(agent.session)
        (result,) = agent.session.events.of_type("tool/result")
        assert "error" not in result.data
        assert "tool: Error: kaboom" == run.model.heard[1][-1]


async def test_a_denied_tool(rig: Any) -> None:
    """Row 9: the reason is what the model sees; there is no code, and the body has not run."""

    class No(Extension):
        name = "plugin:no"

        async def pre_tool_use(self, event: Any) -> ToolDecision:
            return ToolDecision(verdict="deny", reason="not here")

    async with rig([{"tools": [echo()]}, TEXT]) as run:
        run.extensions.register(No())
        agent = await run.agents.create()
        await agent.prompt("go")

        assert ["call c1", "result c1 error"] == told(agent.session)[9:11]
        assert "error" not in next(agent.session.events.of_type("tool/result")).data
        assert ([], "tool: Error: not here") == (run.echo.seen, run.model.heard[1][-1])


async def test_cancel_mid_stream_after_text(rig: Any) -> None:
    """Row 10: what was visible is kept, marked; calls that were only announced are left out."""
    delta = ToolCallDelta(index=1, id="c", arguments_delta="{")
    model = Chunks(TextDelta(index=0, text="so far"), delta, hang=True)
    async with rig(model=model) as run:
        agent = await run.agents.create()
        prompt = asyncio.create_task(agent.prompt("go"))
        await model.is_waiting.wait()
        agent.cancel("user")

        assert {"kind": "aborted", "reason": {"kind": "user"}} == (await prompt).reason
        assert [*OPENING, "message interrupted", "step/end", "turn/end aborted"] == told(agent.session)
        assert [{"type": "text", "text": "so far"}] == agent.session.messages()[-1]["content"]


async def test_cancel_before_visible_content(rig: Any) -> None:
    """Row 11: queued work is cancelled in the log; a stream that had begun is an attempt, no message."""
    model = Chunks(ToolCallDelta(index=0, id="c", arguments_delta="{"), hang=True)
    async with rig(model=model) as run:
        agent = await run.agents.create()
        prompt = asyncio.create_task(agent.prompt("go"))
        await model.is_waiting.wait()
        agent.followup("later", {"kind": "tool-jobs"})
        agent.cancel("user")
        await prompt
        await agent.wait_idle()

        queued = ["IN+ next-turn", "IN- next-turn canceled"]
        assert [*OPENING, *queued, "attempt", "step/end", "turn/end aborted"] == told(agent.session)


async def test_cancel_while_an_exclusive_call_runs(rig: Any) -> None:
    """Row 12: the running call says that it was aborted, the other that it was not dispatched."""
    async with rig([{"tools": [echo("a"), echo("b")]}]) as run:
        run.echo.hold = asyncio.Event()
        agent = await run.agents.create()
        prompt = asyncio.create_task(agent.prompt("go"))
        await run.echo.started.wait()
        agent.cancel("parent")
        await prompt

        calls = ["call c1", "result c1 error", "call c2", "result c2 error"]
        assert [*OPENING, "message", *calls, "step/end", "turn/end aborted"] == told(agent.session)
        results = [event.data for event in agent.session.events.of_type("tool/result")]
        assert ["ABORTED", "ABORTED_BEFORE_DISPATCH"] == [data["error"]["code"] for data in results]
        texts = [data["message"]["content"][0]["text"] for data in results]
        assert ["Error: tool call aborted", "Error: tool call aborted before dispatch"] == texts
        assert {"kind": "parent"} == agent.session.events[-1].data["reason"]["reason"]


async def test_dispose_mid_stream(rig: Any) -> None:
    """Row 13: as a cancel, and the log says that the agent went; what waits stays for whoever resumes."""
    model = Chunks(TextDelta(index=0, text="so"), hang=True)
    async with rig(model=model) as run:
        agent = await run.agents.create()
        prompt = asyncio.create_task(agent.prompt("go"))
        await model.is_waiting.wait()
        agent.followup("later", {"kind": "tool-jobs"})
        await run.agents.close(agent)

        assert {"kind": "aborted", "reason": {"kind": "disposed"}} == (await prompt).reason
        end = ["IN+ next-turn", "message interrupted", "step/end", "turn/end aborted"]
        assert [*OPENING, *end] == told(agent.session)


async def test_a_model_error(rig: Any) -> None:
    """Row 14: an attempt and no message; announced once; the next prompt runs normally."""
    async with rig([{"text": "half", "fail": "boom", "code": "AUTH", "status": 401}, TEXT]) as run:
        failures: list[AgentFailed] = []
        run.app.on(AgentFailed, failures.append)
        agent = await run.agents.create()
        result = await agent.prompt("go")
        first = agent.session.next_seq
        await agent.prompt("again")

        assert [*OPENING, "attempt", "step/end", "turn/end error"] == told(agent.session)[:first]
        failure = {"message": "boom", "code": "AUTH", "status": 401}
        assert {"kind": "error", "error": failure} == result.reason
        assert [(1, 1, "boom")] == [(failed.turn, failed.step, str(failed.error)) for failed in failures]
        assert "turn/end completed" == told(agent.session)[-1]


async def test_an_adapter_that_throws(rig: Any) -> None:
    """Row 15: it becomes an error finish in the stream, with the code UNKNOWN."""

    class Throws:
        async def stream(self, request: Any) -> AsyncIterator[Any]:
            yield TextDelta(index=0, text="x")
            raise OSError("no route")

    async with rig(model=Throws()) as run:
        agent = await run.agents.create()
        result = await agent.prompt("go")

        assert [*OPENING, "attempt", "step/end", "turn/end error"] == told(agent.session)
        assert {"message": "no route", "code": "UNKNOWN"} == result.reason["error"]
        (attempt,) = agent.session.events.of_type("assistant/attempt")
        assert "finish" == attempt.data["stream"][-1]["chunk"]["type"]


async def test_no_adapter(rig: Any) -> None:
    """Row 17: the code says it."""
    async with rig() as run:
        await run.provision.withdraw()
        agent = Agent(run.app, run.sessions.create(), route=ModelRoute(provider="p", model="m"), system_prompt="S")
        result = await agent.prompt("go")

        assert [*OPENING, "attempt", "step/end", "turn/end error"] == told(agent.session)
        assert "NO_ADAPTER" == result.reason["error"]["code"]


async def test_no_route(rig: Any) -> None:
    """Row 18: no header is logged and nobody is asked."""
    async with rig([TEXT], route=ModelRoute(provider="", model="")) as run:
        agent = await run.agents.create()
        result = await agent.prompt("go")

        assert [*FIRST, "step/end", "turn/end error"] == told(agent.session)
        assert ("UNKNOWN", []) == (result.reason["error"]["code"], run.model.requests)


@pytest.mark.parametrize("tools", [[], [echo()]])
async def test_max_tokens(rig: Any, tools: Any) -> None:
    """Row 19 and 20: the text is kept, calls of a reply that was cut are dropped, nothing is run."""
    async with rig([{"text": "cut", "tools": tools, "finish": "max-tokens"}]) as run:
        agent = await run.agents.create()
        result = await agent.prompt("go")

        assert [*OPENING, "message", "step/end", "turn/end max-tokens"] == told(agent.session)
        assert {"kind": "max-tokens"} == result.reason
        assert [{"type": "text", "text": "cut"}] == agent.session.messages()[-1]["content"]


async def test_max_tokens_stays_the_end_of_the_turn(rig: Any) -> None:
    """§6.2 11: what was steered makes the turn go on, and its end is still that it was cut."""
    async with rig([{"text": "cut", "finish": "max-tokens", "delay_ms": 20}, TEXT]) as run:
        agent = await run.agents.create()
        prompt = asyncio.create_task(agent.prompt("go"))
        await until(lambda: "request/context" in told(agent.session))
        agent.steer("go on", {"kind": "user"})

        assert {"kind": "max-tokens"} == (await prompt).reason
        assert 2 == len(run.model.requests)


async def test_pre_step_reject(rig: Any) -> None:
    """Row 21: a human's message is gone, and no step was."""

    class No(Extension):
        name = "plugin:no"

        async def prompt_submit(self, event: Any) -> PromptDecision:
            return PromptDecision(block="no")

    async with rig([TEXT]) as run:
        dispose = run.extensions.register(No())
        agent = await run.agents.create()
        result = await agent.prompt("go")
        first = agent.session.next_seq
        dispose()
        await agent.prompt("again")

        assert ["IN+ next-turn", "turn/start 1", "IN- next-turn", "turn/end blocked"] == told(agent.session)[:first]
        assert ({"kind": "blocked"}, "no", "") == (result.reason, result.feedback, result.text)
        assert [["user: again"]] == run.model.heard


async def test_idle_inject_then_prompt(rig: Any) -> None:
    """Row 22: what was injected enters first, and opens no turn by itself."""
    async with rig([TEXT]) as run:
        agent = await run.agents.create()
        agent.inject("by the way", {"kind": "tool-jobs"})
        await asyncio.sleep(0.01)
        assert "idle" == agent.status
        await agent.prompt("go")

        begun = ["IN+ next-step", "IN+ next-turn", "turn/start 1", "IN- next-step", "IN- next-turn", "step/start 1.1"]
        assert [*begun, "system/message", "user/message", "user/message", *ASKED] == told(agent.session)[:11]
        assert [["user: by the way", "user: go"]] == run.model.heard


async def test_steering_between_steps(rig: Any) -> None:
    """§6.1: what is steered while a tool runs enters with the next step."""
    async with rig([{"tools": [echo()]}, TEXT]) as run:
        run.echo.hold = asyncio.Event()
        agent = await run.agents.create()
        prompt = asyncio.create_task(agent.prompt("go"))
        await run.echo.started.wait()
        agent.steer("faster", {"kind": "user"})
        run.echo.hold.set()
        await prompt

        calls = ["call c1", "IN+ next-step", "result c1", "step/end", "IN- next-step", "step/start 1.2"]
        assert [*OPENING, "message", *calls, "user/message", "message"] == told(agent.session)[:17]
        assert ["user: go", "assistant: (echo)", "tool: x", "user: faster"] == run.model.heard[1]


async def test_a_turn_that_a_result_concludes(rig: Any) -> None:
    """§6.2 9: the model is not asked again."""

    class Done(Overlapping):
        name = "done"

        async def execute(self, execution: ToolExecution) -> ToolResult:
            return ToolResult(content=({"type": "text", "text": "bye"},), concludes_turn=True)

    async with rig([{"tools": [{"name": "done", "arguments": {"text": ""}}]}]) as run:
        run.tools.register(Done())
        agent = await run.agents.create()
        await agent.prompt("go")

        end = ["message", "call c1", "result c1", "step/end", "turn/end completed"]
        assert [*OPENING, *end] == told(agent.session)


async def test_a_stream_without_a_finish_is_a_failure(rig: Any) -> None:
    """The seam: a reply that just ends was cut, and is no answer."""
    async with rig(model=Chunks(TextDelta(index=0, text="half"))) as run:
        agent = await run.agents.create()
        result = await agent.prompt("go")

        assert "MALFORMED_RESPONSE" == result.reason["error"]["code"]
        assert [*OPENING, "attempt", "step/end", "turn/end error"] == told(agent.session)


async def test_a_reply_that_no_log_can_hold_is_a_failure(rig: Any) -> None:
    """A model that gives two calls one id fails its turn, and nothing else."""
    block = {"type": "tool-call", "id": "c", "name": "echo", "arguments": "{}"}
    ends = [BlockEnd(index=index, block=block) for index in (0, 1)]
    async with rig(model=Chunks(*ends, Finish(reason={"kind": "tool-calls"}))) as run:
        agent = await run.agents.create()
        result = await agent.prompt("go")

        assert "MALFORMED_RESPONSE" == result.reason["error"]["code"]
        assert "twice" in result.reason["error"]["message"]


async def test_a_changed_header_is_logged_again(rig: Any) -> None:
    """FORMAT §7: tools that come or go change the header in force; the model is offered those that are there."""
    async with rig([TEXT, TEXT]) as run:
        agent = await run.agents.create()
        await agent.prompt("go")
        run.tools.register(Overlapping())
        await agent.prompt("again")

        headers = [line for line in told(agent.session) if line.startswith("request/")]
        assert ["request/header initial", "request/context", "request/header change"] == headers
        offered = [[tool["name"] for tool in request.tools] for request in run.model.requests]
        assert [["echo"], ["echo", "overlap"]] == offered


async def test_what_the_provider_wants_to_see_again_is_kept(rig: Any) -> None:
    """FORMAT §8: the replay state of a finish is its message's source's."""
    async with rig(model=Chunks(Finish(reason={"kind": "stop"}, replay_state={"id": 1}))) as run:
        agent = await run.agents.create()
        await agent.prompt("go")

        (message,) = agent.session.events.of_type("assistant/message")
        assert ({"id": 1}, []) == (message.data["message"]["source"]["replayState"], message.data["message"]["content"])
