"""What a turn keeps whatever happens in it (BEHAVIOUR §6.2); its exact events are in ``test_sequences``."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from loopkit import Chunks

from dsh_agent import AgentFailed, TurnEnded
from dsh_persistence import MemoryLogStore
from dsh_session import EncodedBatch, Finish, LogState, SessionMeta, TextDelta, Usage

IN = "agent/inbox/spliced"
OPENING = [IN, "turn/start", IN, "step/start", "system/message", "user/message", "request/header", "request/context"]
CLOSING = ["step/end", "turn/end"]


def call(text: str, **more: Any) -> dict[str, Any]:
    return {"name": "echo", "arguments": {"text": text, **more}}


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


async def test_a_script_that_ends_early_says_so(rig):
    """A model asked once too often fails the turn with a message that tells what to do."""
    async with rig([]) as run:
        agent = await run.agents.create()

        result = await agent.prompt("go")

        assert "SCRIPT_ENDED" == result.reason["error"]["code"]
        assert "reply 1 was asked for, and it has 0" in result.reason["error"]["message"]


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


async def test_usage_is_kept_beside_the_message(rig):
    """GENERATIONS §9: the counts of a reply are on its message."""
    usage = {"inputTokens": 3, "outputTokens": 2}
    model = Chunks(TextDelta(index=0, text="x"), Usage(usage=usage), Finish(reason={"kind": "stop"}))
    async with rig(model=model) as run:
        agent = await run.agents.create()

        await agent.prompt("go")

        assert usage == agent.session.events[8].data["usage"]
