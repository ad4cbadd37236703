"""What extensions see and decide at each point of the loop, and that the most restrictive wins."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from loopkit import echo, told

from dsh_agent import (
    EXTENSIONS,
    AgentFailed,
    ApprovalAnswer,
    ApprovalAsked,
    ApprovalRequest,
    Extension,
    PromptDecision,
    Remark,
    ResultDecision,
    SessionEnd,
    SessionStart,
    StartDecision,
    StopDecision,
    SubagentEnd,
    SubagentStart,
    ToolDecision,
    ToolUse,
    TurnStopping,
)
from dsh_context import Context, plugin
from dsh_persistence import MemoryLogStore
from dsh_session import SessionEvent

TEXT = {"text": "ok"}
POINTS = (
    "session_start",
    "prompt_submit",
    "pre_tool_use",
    "approval_asked",
    "post_tool_use",
    "turn_stopping",
    "subagent_start",
    "subagent_end",
    "session_end",
)


class Says(Extension):
    """Answers as it is told, remembers what it saw; an answer that is an exception is raised."""

    def __init__(self, name: str = "plugin:says", **answers: Any) -> None:
        self.name = name
        self.answers = answers
        self.seen: list[Any] = []

    async def _at(self, point: str, event: Any) -> Any:
        self.seen.append(event)
        answer = self.answers.get(point)
        if isinstance(answer, list):
            answer = answer.pop(0) if answer else None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    @property
    def points(self) -> list[str]:
        return [type(event).__name__ for event in self.seen]


def _point(point: str) -> Callable[[Says, Any], Awaitable[Any]]:
    async def at(self: Says, event: Any) -> Any:
        return await self._at(point, event)

    return at


for _name in POINTS:
    setattr(Says, _name, _point(_name))


async def test_every_point_in_order(rig: Any) -> None:
    """Each is told once, with what it is about."""
    async with rig([{"tools": [echo()]}, TEXT]) as run:
        says = Says()
        run.extensions.register(says)
        agent = await run.agents.create()
        await agent.prompt("go")
        await run.agents.close(agent)
        await run.agents.close(agent)

        order = "SessionStart PromptSubmit ToolUse ToolUsed TurnStopping SessionEnd"
        assert order.split() == says.points
        start, prompt, use, used, stopping, end = says.seen
        assert ("startup", agent) == (start.source, end.agent)
        assert ("go", 1, 1, "user") == (prompt.text, prompt.turn, prompt.step, prompt.messages[0]["source"]["kind"])
        assert ("echo", {"text": "x"}, 1, 1) == (use.name, use.arguments, use.turn, use.step)
        assert ("x", use.call_id) == (used.result.text, used.call_id)
        assert ("ok", {"kind": "completed"}, 0) == (stopping.text, stopping.reason, stopping.continuations)


async def test_the_source_of_a_session(rig: Any) -> None:
    """A new one, a fork, and a resumed one are told apart."""
    store, says = MemoryLogStore(), Says()
    async with rig([TEXT], store=store) as run:
        run.extensions.register(says)
        agent = await run.agents.create(session_id="s")
        await agent.prompt("go")
        await run.agents.fork("s")
    async with rig(store=store) as run:
        run.extensions.register(says)
        await run.agents.resume("s")

    starts = [event.source for event in says.seen if isinstance(event, SessionStart)]
    assert ["startup", "fork", "resume"] == starts


async def test_it_can_be_taken_out(rig: Any) -> None:
    """The disposer ends it, and may be called twice; another one of the same kind stays."""
    async with rig([TEXT]) as run:
        first, second = Says(), Says()
        dispose = run.extensions.register(first)
        run.extensions.register(second)
        dispose()
        dispose()
        await run.agents.create()

        assert ([], ["SessionStart"]) == (first.points, second.points)


async def test_what_a_start_adds_is_in_the_first_request(rig: Any) -> None:
    """Before the prompt, one message for each extension, in their order; empty texts are none."""
    async with rig([TEXT]) as run:
        own = Remark(source={"kind": "skill-catalog", "form": "catalog"}, texts=["own"])
        run.extensions.register(Says("plugin:a", session_start=StartDecision(context=["one", "", "two", own])))
        run.extensions.register(Says("plugin:b", session_start=StartDecision(context=[""])))
        run.extensions.register(Says("plugin:c", session_start=StartDecision(context=["three"])))
        agent = await run.agents.create()
        await agent.prompt("go")

        assert [["user: one two", "user: own", "user: three", "user: go"]] == run.model.heard
        sources = [message["source"] for message in run.model.requests[0].messages[1:4]]
        assert [{"kind": "plugin:a"}, {"kind": "skill-catalog", "form": "catalog"}, {"kind": "plugin:c"}] == sources


async def test_a_prompt_can_be_added_to(rig: Any) -> None:
    """What is added stands behind what was said."""
    async with rig([TEXT]) as run:
        run.extensions.register(Says(prompt_submit=PromptDecision(context=["note"])))
        agent = await run.agents.create()
        await agent.prompt("go")

        assert [["user: go", "user: note"]] == run.model.heard


async def test_one_block_is_enough(rig: Any) -> None:
    """Whatever others add; every extension is asked all the same."""
    async with rig([TEXT]) as run:
        blocks, adds = Says(prompt_submit=PromptDecision(block="")), Says(prompt_submit=PromptDecision(context=["x"]))
        run.extensions.register(blocks)
        run.extensions.register(adds)
        agent = await run.agents.create()

        assert {"kind": "blocked"} == (await agent.prompt("go")).reason
        assert "PromptSubmit" == adds.points[-1]


VERDICTS = {
    "none": None,
    "allow": ToolDecision(verdict="allow", reason="fine"),
    "ask": ToolDecision(verdict="ask", reason="ask first"),
    "ask too": ToolDecision(verdict="ask", reason="really"),
    "deny": ToolDecision(verdict="deny", reason="never"),
    "deny too": ToolDecision(verdict="deny", reason="not even then"),
    "deny mute": ToolDecision(verdict="deny"),
    "ask mute": ToolDecision(verdict="ask"),
}


@pytest.mark.parametrize(
    ("verdicts", "text"),
    [
        (["none"], "x"),
        (["allow"], "x"),
        (["none", "allow", "none"], "x"),
        (["allow", "deny"], "Error: never"),
        (["deny", "allow"], "Error: never"),
        (["deny", "ask", "deny too"], "Error: never\n\nnot even then"),
        (["deny mute"], 'Error: tool "echo" was refused'),
        (["ask"], "Error: ask first"),
        (["allow", "ask", "ask too"], "Error: ask first\n\nreally"),
        (["ask mute"], 'Error: tool "echo" requires approval (not yet supported)'),
    ],
)
async def test_the_most_restrictive_verdict_wins(rig: Any, verdicts: list[str], text: str) -> None:
    """Deny, ask, allow, nothing; with the reasons of that rank, in order; asking without anybody to ask is no."""
    async with rig([{"tools": [echo()]}, TEXT]) as run:
        for verdict in verdicts:
            run.extensions.register(Says(pre_tool_use=VERDICTS[verdict]))
        agent = await run.agents.create()
        await agent.prompt("go")

        assert f"tool: {text}" == run.model.heard[1][-1]
        assert (text == "x") == bool(run.echo.seen)


TEXTS = {"allow": "x", "ask": "Error: {}", "deny": "Error: {}"}


@pytest.mark.parametrize("fallback", TEXTS)
@pytest.mark.parametrize("firm", TEXTS)
@pytest.mark.parametrize("is_first", [True, False])
async def test_a_fallback_gives_way(rig: Any, firm: Any, fallback: Any, *, is_first: bool) -> None:
    """Whatever it says, what another extension says counts alone, also one that is less strict; so do its reasons."""
    says = [ToolDecision(verdict=firm, reason="firm"), ToolDecision(verdict=fallback, reason="weak", is_fallback=True)]
    async with rig([{"tools": [echo()]}, TEXT]) as run:
        for decision in says if is_first else reversed(says):
            run.extensions.register(Says(pre_tool_use=decision))
        agent = await run.agents.create()
        await agent.prompt("go")

        assert f"tool: {TEXTS[firm].format('firm')}" == run.model.heard[1][-1]
        assert (firm == "allow") == bool(run.echo.seen)


@pytest.mark.parametrize("other", [None, ToolDecision(context=["by the way"]), ToolDecision(is_fallback=True)])
@pytest.mark.parametrize("fallback", TEXTS)
async def test_a_fallback_stands_where_nobody_decides(rig: Any, fallback: Any, other: ToolDecision | None) -> None:
    """Who only adds something has not decided."""
    async with rig([{"tools": [echo()]}, TEXT]) as run:
        run.extensions.register(Says(pre_tool_use=other))
        run.extensions.register(Says(pre_tool_use=ToolDecision(verdict=fallback, reason="weak", is_fallback=True)))
        run.extensions.register(Says(pre_tool_use=other))
        agent = await run.agents.create()
        await agent.prompt("go")

        assert f"tool: {TEXTS[fallback].format('weak')}" in run.model.heard[1]
        assert (fallback == "allow") == bool(run.echo.seen)


@pytest.mark.parametrize("verdicts", [*itertools.permutations(TEXTS, 2)])
async def test_of_fallbacks_the_most_restrictive_wins(rig: Any, verdicts: Any) -> None:
    """Among themselves they are verdicts like others."""
    async with rig([{"tools": [echo()]}, TEXT]) as run:
        for verdict in verdicts:
            decision = ToolDecision(verdict=verdict, reason=verdict, is_fallback=True)
            run.extensions.register(Says(pre_tool_use=decision))
        agent = await run.agents.create()
        await agent.prompt("go")

        strictest = "deny" if "deny" in verdicts else "ask"
        assert f"tool: Error: {strictest}" == run.model.heard[1][-1]


async def test_a_guard_that_fails_beats_a_fallback(rig: Any) -> None:
    """What it raises is a refusal like any other."""
    async with rig([{"tools": [echo()]}, TEXT]) as run:
        run.extensions.register(Says(pre_tool_use=ToolDecision(verdict="allow", is_fallback=True)))
        run.extensions.register(Says("plugin:bad", pre_tool_use=ZeroDivisionError("oops")))
        agent = await run.agents.create()
        await agent.prompt("go")

        assert "tool: Error: plugin:bad failed: oops" == run.model.heard[1][-1]


class Person:
    """Somebody who can be asked."""

    def __init__(self, answer: ApprovalAnswer | Exception | None) -> None:
        self.answer = answer
        self.asked: list[ApprovalRequest] = []
        self.is_asked = asyncio.Event()

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(request)
        self.is_asked.set()
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        assert self.answer is not None
        return self.answer


@pytest.mark.parametrize(
    ("answer", "outcome", "text"),
    [
        (ApprovalAnswer(is_allowed=True), "allowed-once", "x"),
        (ApprovalAnswer(is_allowed=False, reason="not now"), "rejected", "Error: not now"),
        (ApprovalAnswer(is_allowed=False), "rejected", 'Error: tool "echo" was not approved'),
        (OSError("no terminal"), "unavailable", "Error: approval failed: no terminal"),
    ],
)
async def test_somebody_is_asked(rig: Any, answer: Any, outcome: str, text: str) -> None:
    """The answer decides; question and answer stand in the log; who cannot be asked has not allowed it."""
    person = Person(answer)
    async with rig([{"tools": [echo()]}, TEXT], approval=person) as run:
        run.extensions.register(Says(pre_tool_use=VERDICTS["ask"]))
        agent = await run.agents.create()
        await agent.prompt("go")

        (request,) = person.asked
        assert ("echo", {"text": "x"}, "ask first") == (request.name, request.arguments, request.reason)
        assert ["call c1", "approval/asked", "approval/decided"] == told(agent.session)[9:12]
        asked, decided = agent.session.events[10].data, agent.session.events[11].data
        id = asked["id"]
        assert {"id": id, "toolName": "echo", "callId": request.call_id, "reason": "ask first"} == asked
        assert {"id": id, "outcome": outcome} == decided
        assert f"tool: {text}" == run.model.heard[1][-1]


async def test_a_question_is_told_before_it_is_asked(rig: Any) -> None:
    """The log has it by then; the arguments are those that the call would run with."""
    person = Person(ApprovalAnswer(is_allowed=True))
    told_at: list[tuple[ApprovalAsked, str, int]] = []

    class Watches(Extension):
        name = "plugin:watches"

        async def approval_asked(self, event: ApprovalAsked) -> None:
            told_at.append((event, told(event.agent.session)[-1], len(person.asked)))

    async with rig([{"tools": [echo("rm")]}, TEXT], approval=person) as run:
        run.extensions.register(Watches())
        decision = ToolDecision(verdict="ask", reason="look", updated_input={"text": "ls"})
        run.extensions.register(Says(pre_tool_use=decision))
        agent = await run.agents.create()
        await agent.prompt("go")

        (call_id,) = [request.call_id for request in person.asked]
        asked = ApprovalAsked(
            agent=agent, turn=1, step=1, call_id=call_id, name="echo", arguments={"text": "ls"}, reason="look"
        )
        assert [(asked, "approval/asked", 0)] == told_at


@pytest.mark.parametrize("verdict", ["none", "allow", "deny", "ask"])
async def test_no_question_is_told_that_is_not_asked(rig: Any, verdict: str) -> None:
    """Neither where a call is decided about, nor where there is nobody to ask."""
    async with rig([{"tools": [echo()]}, TEXT], approval=None if verdict == "ask" else Person(None)) as run:
        says = Says(pre_tool_use=VERDICTS[verdict])
        run.extensions.register(says)
        agent = await run.agents.create()
        await agent.prompt("go")

        assert "ApprovalAsked" not in says.points


async def test_a_cancel_while_somebody_is_asked(rig: Any) -> None:
    """The question is answered in the log, and the call was not dispatched."""
    person = Person(None)
    async with rig([{"tools": [echo()]}], approval=person) as run:
        run.extensions.register(Says(pre_tool_use=VERDICTS["ask"]))
        agent = await run.agents.create()
        prompt = asyncio.create_task(agent.prompt("go"))
        await person.is_asked.wait()
        agent.cancel("user")
        await prompt

        end = ["approval/asked", "approval/decided", "result c1 error", "step/end", "turn/end aborted"]
        assert end == told(agent.session)[-5:]
        assert "cancelled" == agent.session.events[-4].data["outcome"]


async def test_input_can_be_changed(rig: Any) -> None:
    """Later extensions see it; the tool runs with it; the result says it, for the call in the log is the model's."""
    async with rig([{"tools": [echo("rm")]}, TEXT]) as run:
        first = Says(pre_tool_use=ToolDecision(updated_input={"text": "ls"}))
        second = Says(pre_tool_use=ToolDecision(verdict="allow"))
        run.extensions.register(first)
        run.extensions.register(second)
        agent = await run.agents.create()
        await agent.prompt("go")

        uses = [event for event in second.seen if isinstance(event, ToolUse)]
        assert [{"text": "ls"}] == [use.arguments for use in uses]
        assert "tool: ls" == run.model.heard[1][-1]
        (call,) = agent.session.events.of_type("tool/call")
        (result,) = agent.session.events.of_type("tool/result")
        assert ('{"text": "rm"}', {"updatedInput": {"text": "ls"}}) == (call.data["arguments"], result.data["meta"])


async def test_changed_input_must_fit(rig: Any) -> None:
    """Otherwise the call has failed as if the model had sent it."""
    async with rig([{"tools": [echo()]}, TEXT]) as run:
        run.extensions.register(Says(pre_tool_use=ToolDecision(updated_input={"text": 3})))
        agent = await run.agents.create()
        await agent.prompt("go")

        assert 'tool: Error: invalid arguments: "text" must be a string' == run.model.heard[1][-1]
        assert [] == run.echo.seen


@pytest.mark.parametrize("call", [{"name": "nosuch", "arguments": {}}, echo(3), echo(fail=True)])
async def test_results_of_every_kind_are_judged(rig: Any, call: Any) -> None:
    """Also those of a call that could not run; before it ran, only a call that fits was asked about."""
    async with rig([{"tools": [call]}, TEXT]) as run:
        says = Says(post_tool_use=ResultDecision(context=["look"]))
        run.extensions.register(says)
        agent = await run.agents.create()
        await agent.prompt("go")

        assert says.points[2 if call.get("arguments", {}).get("fail") else 1 :][1] == "ToolUsed"
        assert "user: look" == run.model.heard[1][-1]


async def test_a_result_can_be_blocked(rig: Any) -> None:
    """The feedback takes its place, as an error; the output is nowhere."""
    async with rig([{"tools": [echo("secret")]}, TEXT]) as run:
        run.extensions.register(Says(post_tool_use=ResultDecision(block="redacted")))
        run.extensions.register(Says(post_tool_use=ResultDecision(block="indeed")))
        agent = await run.agents.create()
        await agent.prompt("go")

        assert "tool: redacted\n\nindeed" == run.model.heard[1][-1]
        (result,) = agent.session.events.of_type("tool/result")
        assert result.data["message"]["isError"] is True


async def test_what_results_add_follows_all_of_them(rig: Any) -> None:
    """§6.4: in the next step, behind the whole batch, by way of the inbox."""
    decisions = [ResultDecision(context=["one"]), ResultDecision(context=["two"])]
    async with rig([{"tools": [echo("a"), echo("b")]}, TEXT]) as run:
        run.extensions.register(Says(pre_tool_use=ToolDecision(context=["pre"]), post_tool_use=decisions))
        agent = await run.agents.create()
        await agent.prompt("go")

        expected = ["tool: a", "tool: b", "user: pre", "user: one", "user: pre", "user: two"]
        assert expected == run.model.heard[1][2:]
        calls = ["call c1", "result c1", "call c2", "result c2"]
        assert [*calls, *["IN+ next-step"] * 4, "step/end", "IN- next-step"] == told(agent.session)[9:19]


async def test_a_turn_can_be_made_to_go_on(rig: Any) -> None:
    """§6.2 10: the objection is steered, the next stop knows that there was one; then the turn ends."""
    async with rig([TEXT, {"text": "better"}]) as run:
        says = Says("hooks", turn_stopping=[StopDecision(go_on="test it"), StopDecision(), None])
        run.extensions.register(says)
        agent = await run.agents.create()
        result = await agent.prompt("go")

        assert ("better", 1) == (result.text, result.turn)
        step = ["message", "step/end", "IN+ next-step", "IN- next-step", "step/start 1.2", "user/message"]
        assert [*step, "message", "step/end", "turn/end completed"] == told(agent.session)[8:]
        assert [0, 1] == [event.continuations for event in says.seen if hasattr(event, "continuations")]
        assert {"kind": "hooks"} == run.model.requests[1].messages[-1]["source"]


async def test_a_turn_that_goes_on_anyway_does_not_stop(rig: Any) -> None:
    """§6.2 10: what was steered in the last step comes first; the end is asked about when there is one."""
    async with rig([TEXT, {"text": "better"}]) as run:
        says = Says()
        run.extensions.register(says)
        agent = await run.agents.create()

        def steer(event: SessionEvent) -> None:
            if event.type == "request/context":
                agent.steer("more", {"kind": "user"})

        agent.session.subscribe(steer)
        await agent.prompt("go")

        assert ["better"] == [event.text for event in says.seen if isinstance(event, TurnStopping)]


async def test_a_listener_that_fails_as_well(rig: Any, caplog: Any) -> None:
    """What cannot be announced is in the logger, and the turn goes on."""
    async with rig([TEXT]) as run:

        def fail(failed: AgentFailed) -> None:
            raise ValueError("nor I")

        run.app.on(AgentFailed, fail)
        run.extensions.register(Says(prompt_submit=ZeroDivisionError("oops")))
        agent = await run.agents.create()

        assert "completed" == (await agent.prompt("go")).reason["kind"]
        assert {"oops", "nor I"} <= {word for word in ("oops", "nor I") if word in caplog.text}


@pytest.mark.parametrize("point", POINTS)
async def test_one_that_raises_is_contained(rig: Any, point: str, caplog: Any) -> None:
    """It is announced and logged, the others are asked; only a guard of calls fails closed."""
    person = Person(ApprovalAnswer(is_allowed=True))
    async with rig([{"tools": [echo()]}, TEXT], approval=person) as run:
        failures: list[AgentFailed] = []
        run.app.on(AgentFailed, failures.append)
        good = Says(pre_tool_use=VERDICTS["ask"])
        bad = Says("plugin:bad", **{point: ZeroDivisionError("oops")})
        run.extensions.register(bad)
        run.extensions.register(good)
        agent = await run.agents.create()
        result = await agent.prompt("go")
        child = SubagentStart(agent=agent, child=agent, kind="t")
        await run.extensions.subagent_start(child)
        await run.extensions.subagent_end(SubagentEnd(agent=agent, child=agent, kind="t", reason=result.reason))
        await run.agents.close(agent)

        assert "completed" == result.reason["kind"]
        assert bad.points == good.points
        assert [("ZeroDivisionError", agent)] == [(type(each.error).__name__, each.agent) for each in failures]
        assert "extension 'plugin:bad' failed at" in caplog.text
        denied = "tool: Error: plugin:bad failed: oops"
        assert (denied if point == "pre_tool_use" else "tool: x") == run.model.heard[1][-1]


async def test_a_child_is_announced(rig: Any) -> None:
    """What is added enters the child, by whoever delegates."""
    async with rig() as run:
        run.extensions.register(Says(subagent_start=StartDecision(context=["be brief"])))
        agent = await run.agents.create()
        remarks = await run.extensions.subagent_start(SubagentStart(agent=agent, child=agent, kind="t"))

        assert [Remark(source={"kind": "plugin:says"}, texts=["be brief"])] == remarks


async def test_a_plugin_of_extensions_sees_the_end(rig: Any) -> None:
    """Mounted before the agents it starts with them, and hears of the end of sessions that nobody closed."""
    says = Says()

    @plugin(EXTENSIONS)
    async def hooks(ctx: Context, _config: None) -> None:
        ctx.effect(ctx.require(EXTENSIONS).register(says))

    async with rig([TEXT], plugins=[hooks]) as run:
        agent = await run.agents.create()
        await agent.prompt("go")

    assert [SessionStart, SessionEnd] == [type(says.seen[0]), type(says.seen[-1])]
