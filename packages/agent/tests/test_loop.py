"""The exact events of a turn, in order (BEHAVIOUR §6.2, §6.3 in their v4 form)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dsh_agent import AgentFailed, ScriptedModel, TurnEnded
from dsh_persistence import MemoryLogStore
from dsh_session import BlockEnd, EncodedBatch, Finish, LogState, SessionMeta, TextDelta, ToolCallDelta, Usage

IN = "agent/inbox/spliced"
OPENING = [IN, "turn/start", IN, "step/start", "system/message", "user/message", "request/header", "request/context"]
CLOSING = ["step/end", "turn/end"]


def call(text: str, **more: Any) -> dict[str, Any]:
    return {"name": "echo", "arguments": {"text": text, **more}}


async def test_text_only_first_turn(rig, types):
    """§6.3 row 1: header and context are logged once, before the reply."""
    async with rig([{"text": "hello"}]) as run:
        agent = await run.agents.create()

        result = await agent.prompt("hi")

        assert [*OPENING, "assistant/message", *CLOSING] == types(agent.session)
        assert (result.turn, dict(result.reason), result.text) == (1, {"kind": "completed"}, "hello")


async def test_text_only_later_turn(rig, types):
    """§6.3 row 2: no header or context when nothing changed."""
    async with rig([{"text": "one"}, {"text": "two"}]) as run:
        agent = await run.agents.create()
        await agent.prompt("hi")
        first = agent.session.next_seq

        await agent.prompt("again")

        expected = [IN, "turn/start", IN, "step/start", "user/message", "assistant/message", *CLOSING]
        assert expected == types(agent.session)[first:]


async def test_one_tool_call(rig, types):
    """§6.3 row 3: call and result lie between the message and the end of the step; the next step follows."""
    async with rig([{"tools": [call("x")]}, {"text": "done"}]) as run:
        agent = await run.agents.create()

        await agent.prompt("go")

        expected = [*OPENING, "assistant/message", "tool/call", "tool/result", "step/end"]
        expected += ["step/start", "assistant/message", *CLOSING]
        assert expected == types(agent.session)
        called, result = agent.session.events[9], agent.session.events[10]
        assert (called.seq,) == result.source_event_seqs
        assert [{"type": "text", "text": "x"}] == result.data["message"]["content"]


async def test_exclusive_calls_alternate(rig, types):
    """§6.3: an exclusive tool's calls and results take turns, in the model's order."""
    async with rig([{"tools": [call("a"), call("b")]}, {"text": "done"}]) as run:
        agent = await run.agents.create()

        await agent.prompt("go")

        assert types(agent.session)[9:13] == ["tool/call", "tool/result"] * 2
        assert ["a", "b"] == [seen.arguments["text"] for seen in run.echo.seen]


@pytest.mark.parametrize(
    ("tool", "text", "failure"),
    [
        ({"name": "echo", "arguments": {"text": "x", "fail": True}}, "Error: kaboom", None),
        (
            {"name": "nosuch", "arguments": {}},
            'Error: unknown tool "nosuch"',
            {"name": "ToolNotFoundError", "code": "UNKNOWN_TOOL"},
        ),
        (
            {"name": "echo", "arguments": {"text": 3}},
            'Error: invalid arguments: "text" must be a string',
            {"name": "ToolArgsError", "code": "INVALID_ARGS"},
        ),
        (
            {"name": "echo", "arguments": ""},
            'Error: invalid arguments: missing required property "text"',
            {"name": "ToolArgsError", "code": "INVALID_ARGS"},
        ),
        (
            {"name": "echo", "arguments": "{not json"},
            'Error: invalid arguments: "arguments" must be an object',
            {"name": "ToolArgsError", "code": "INVALID_ARGS"},
        ),
    ],
)
async def test_a_failed_call_is_a_result_and_the_turn_goes_on(rig, tool, text, failure):
    """§6.3: throwing, unknown and wrongly called tools answer the model; the turn completes."""
    async with rig([{"tools": [tool]}, {"text": "done"}]) as run:
        agent = await run.agents.create()

        result = await agent.prompt("go")

        settled = next(event.data for event in agent.session.events if event.type == "tool/result")
        assert "completed" == result.reason["kind"]
        assert (text, True) == (settled["message"]["content"][0]["text"], settled["message"]["isError"])
        assert failure == settled.get("error")


async def test_a_model_failure_leaves_an_attempt(rig, types):
    """§6.3: an error finish is an attempt, no message; the next prompt runs normally."""
    async with rig([{"text": "half", "fail": "boom"}, {"text": "fine"}]) as run:
        agent = await run.agents.create()

        failed = await agent.prompt("go")
        after = await agent.prompt("again")

        assert [*OPENING, "assistant/attempt", *CLOSING] == types(agent.session)[:11]
        assert dict(failed.reason) == {"kind": "error", "error": {"message": "boom", "code": "SCRIPTED"}}
        assert "fine" == after.text


async def test_a_script_that_ends_early_says_so(rig):
    """A model asked once too often fails the turn with a message that tells what to do."""
    async with rig([]) as run:
        agent = await run.agents.create()

        result = await agent.prompt("go")

        assert "SCRIPT_ENDED" == result.reason["error"]["code"]
        assert "reply 1 was asked for, and it has 0" in result.reason["error"]["message"]


async def test_an_adapter_that_raises_counts_as_an_error_finish(rig, types):
    """§6.3: whatever an adapter raises becomes an error with the code UNKNOWN."""

    class Raising:
        async def stream(self, request):
            if request is not None:
                raise OSError("no route")
            yield

    async with rig(model=Raising()) as run:
        agent = await run.agents.create()

        result = await agent.prompt("go")

        assert result.reason["error"] == {"message": "no route", "code": "UNKNOWN"}
        assert "assistant/attempt" in types(agent.session)


async def test_cancel_during_a_tool(rig, types):
    """§6.3: the running call settles as aborted, the others as aborted before dispatch, the turn as aborted."""
    async with rig([{"tools": [call("a"), call("b")]}]) as run:
        run.echo.hold = asyncio.Event()
        agent = await run.agents.create()
        prompt = asyncio.create_task(agent.prompt("go"))
        await run.echo.started.wait()

        prompt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await prompt

        assert types(agent.session)[9:] == ["tool/call", "tool/result"] * 2 + CLOSING
        codes = [event.data["error"]["code"] for event in agent.session.events if event.type == "tool/result"]
        assert ["ABORTED", "ABORTED_BEFORE_DISPATCH"] == codes
        assert agent.session.events[-1].data["reason"] == {"kind": "aborted", "reason": {"kind": "user"}}
        assert agent.session.id in [entry.header.id for entry in await run.persistence.list()]


async def test_cancel_while_the_model_thinks(rig, types):
    """§6.3: cancelled before anything visible, there is no assistant message; later work goes on."""
    async with rig([{"text": "late", "delay_ms": 60_000}, {"text": "fine"}]) as run:
        agent = await run.agents.create()
        prompt = asyncio.create_task(agent.prompt("go"))
        while "request/context" not in types(agent.session):
            await asyncio.sleep(0)

        prompt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await prompt
        after = await agent.prompt("again")

        assert [*OPENING, *CLOSING] == types(agent.session)[:10]
        assert "fine" == after.text


async def test_prompts_run_one_after_the_other(rig, types):
    """Two prompts at once are two turns, never one inside the other."""
    async with rig([{"text": "one"}, {"text": "two"}]) as run:
        agent = await run.agents.create()

        first, second = await asyncio.gather(agent.prompt("a"), agent.prompt("b"))

        assert [1, 2] == [first.turn, second.turn]
        LogState().feed_all(agent.session.events)


async def test_the_system_prompt_is_the_first_message_and_is_replaced_when_it_changes(rig):
    """GENERATIONS §4.1: one protected head, which only a new system message may replace."""
    store = MemoryLogStore()
    async with rig([{"text": "one"}], store=store, system_prompt="old") as run:
        agent = await run.agents.create(session_id="s")
        await agent.prompt("a")
    async with rig([{"text": "two"}], store=store, system_prompt="new") as run:
        agent = await run.agents.resume("s")
        await agent.prompt("b")

        roles = [message["role"] for message in agent.session.messages()]

        assert ["system", "user", "assistant", "user", "assistant"] == roles
        assert "new" == agent.session.messages()[0]["content"][0]["text"]


async def test_what_the_model_sees(rig):
    """A request is the derived conversation and the tools, nothing else."""
    seen = []

    class Recording(ScriptedModel):
        async def stream(self, request):
            seen.append(request)
            async for chunk in super().stream(request):
                yield chunk

    async with rig(model=Recording.from_replies([{"tools": [call("x")]}, {"text": "done"}])) as run:
        agent = await run.agents.create()

        await agent.prompt("go")

        assert [[message["role"] for message in request.messages] for request in seen] == [
            ["system", "user"],
            ["system", "user", "assistant", "tool"],
        ]
        assert ["echo"] == [tool["name"] for tool in seen[0].tools]


async def test_turn_end_flush_settles_before_prompt_returns(rig):
    """§11.4 Q2: after ``turn/end`` the log is flushed, also with a long window, before the next turn."""
    durable = []
    async with rig([{"text": "one"}, {"text": "two"}], window_ms=600_000) as run:
        agent = await run.agents.create()
        run.app.on(TurnEnded, lambda ended: durable.append(run.persistence.health(agent.session.id).queued))

        await agent.prompt("a")
        await agent.prompt("b")

        assert [0, 0] == durable


async def test_a_failed_flush_is_reported_live_and_not_in_the_log(rig, types, caplog):
    """§11.4 Q2: the turn stays closed as it was, the failure is an event and a log line, later work runs."""

    class Full(MemoryLogStore):
        broken = True

        def extend(self, session_id: str, batch: EncodedBatch) -> None:
            if self.broken:
                raise OSError(28, "No space left on device")
            super().extend(session_id, batch)

    store, failures = Full(), []
    async with rig([{"text": "one"}, {"text": "two"}], store=store) as run:
        run.app.on(AgentFailed, failures.append)
        agent = await run.agents.create()

        await agent.prompt("a")
        ended = types(agent.session)
        store.broken = False
        await agent.prompt("b")

        assert "turn/end" == ended[-1]
        assert [failed.agent for failed in failures] == [agent]
        assert 0 == run.persistence.health(agent.session.id).queued


async def test_parent_and_child_have_logs_of_their_own(rig):
    """§6.6: a delegated session has its own id and log and names its parent."""
    async with rig([{"text": "p"}, {"text": "c"}]) as run:
        parent = await run.agents.create()
        meta = SessionMeta(parent_session=parent.session.id, origin="subagent", delegation_depth=1)
        child = await run.agents.create(meta=meta)
        await parent.prompt("a")
        await child.prompt("b")

        listed = {entry.header.id: entry.header for entry in await run.persistence.list()}

        assert {parent.session.id, child.session.id} == set(listed)
        assert parent.session.id == listed[child.session.id].parent_session
        assert 1 == listed[child.session.id].delegation_depth


class Chunks:
    """A model that yields given chunks, then waits for ever if asked to."""

    def __init__(self, *chunks, hang=False):
        self.chunks, self.hang = chunks, hang

    async def stream(self, request):
        for chunk in self.chunks:
            yield chunk
        if self.hang:
            await asyncio.Event().wait()


async def test_cancel_after_visible_text_keeps_it(rig, types):
    """§6.3: what was visible becomes a message marked interrupted; calls that were only announced are left out."""
    chunks = [
        TextDelta(index=0, text="so "),
        TextDelta(index=0, text="far"),
        ToolCallDelta(index=1, id="c", arguments_delta="{"),
    ]
    async with rig(model=Chunks(*chunks, hang=True)) as run:
        agent = await run.agents.create()
        prompt = asyncio.create_task(agent.prompt("go"))
        while "request/context" not in types(agent.session):
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)

        prompt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await prompt

        assert [*OPENING, "assistant/message", *CLOSING] == types(agent.session)
        message = agent.session.events[8].data
        assert (message["interrupted"], message["message"]["content"]) == (True, [{"type": "text", "text": "so far"}])


async def test_max_tokens_drops_the_calls_and_ends_the_turn(rig, types):
    """§6.3: no call of a reply that was cut is run, whole or not."""
    block = {"type": "tool-call", "id": "c", "name": "echo", "arguments": "{}"}
    model = Chunks(
        TextDelta(index=0, text="cut"), BlockEnd(index=1, block=block), Finish(reason={"kind": "max-tokens"})
    )
    async with rig(model=model) as run:
        agent = await run.agents.create()

        result = await agent.prompt("go")

        assert dict(result.reason) == {"kind": "max-tokens"}
        assert [*OPENING, "assistant/message", *CLOSING] == types(agent.session)
        assert [{"type": "text", "text": "cut"}] == agent.session.events[8].data["message"]["content"]


async def test_usage_is_kept_beside_the_message(rig):
    """GENERATIONS §9: the counts of a reply are on its message."""
    usage = {"inputTokens": 3, "outputTokens": 2}
    model = Chunks(TextDelta(index=0, text="x"), Usage(usage=usage), Finish(reason={"kind": "stop"}))
    async with rig(model=model) as run:
        agent = await run.agents.create()

        await agent.prompt("go")

        assert usage == agent.session.events[8].data["usage"]
