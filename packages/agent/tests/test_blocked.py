"""A blocked prompt takes nothing with it but what a human said."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from loopkit import echo, told

from dsh_agent import (
    Agent,
    Extension,
    PromptDecision,
    PromptSubmit,
    Remark,
    ResultDecision,
    StartDecision,
    ToolUsed,
    TurnEnded,
)
from dsh_persistence import MemoryLogStore
from dsh_session import EncodedBatch

TEXT = {"text": "ok"}
NOTICE = {"kind": "tool-jobs"}
USER = {"kind": "user"}
BLOCKED = PromptDecision(block="no")


class Blocks(Extension):
    """Blocks what has a word in it; ``meanwhile`` happens while it thinks."""

    name = "plugin:blocks"

    def __init__(self, word: str = "bad") -> None:
        self.word = word
        self.seen: list[list[str]] = []
        self.meanwhile: list[Any] = []

    async def prompt_submit(self, event: PromptSubmit) -> PromptDecision | None:
        self.seen.append(texts(event.messages))
        while self.meanwhile:
            self.meanwhile.pop(0)()
        return BLOCKED if self.word in event.text else None


def texts(messages: Sequence[Any]) -> list[str]:
    return [block["text"] for message in messages for block in message["content"]]


async def test_what_was_not_said_by_a_human_waits_again(rig: Any) -> None:
    """In front of what has come meanwhile, under its own id; it enters with the next prompt, once."""
    async with rig([TEXT] * 2) as run:
        blocks = Blocks()
        run.extensions.register(blocks)
        agent = await run.agents.create()
        agent.inject("job done", NOTICE)
        agent.steer("bad, and faster", USER)
        agent.add([Remark(source={"kind": "plugin:acme"}, texts=["a note"])])
        before = agent.waiting("next-step")
        blocks.meanwhile.append(lambda: agent.inject("late", NOTICE))

        result = await agent.prompt("go")
        kept = agent.waiting("next-step")
        await agent.prompt("again")
        await agent.prompt("and again")

        assert ("blocked", "no") == (result.reason["kind"], result.feedback)
        assert [before[0], before[2]] == list(kept[:2])
        assert ["job done", "a note", "late"] == texts(kept)
        first = ["user: job done", "user: a note", "user: late", "user: again"]
        assert [first, [*first, "assistant: ok", "user: and again"]] == run.model.heard


async def test_it_opens_no_turn(rig: Any) -> None:
    """Also where nothing else was blocked: no turn follows by itself, and one that is asked for ends as well."""
    async with rig() as run:
        blocks = Blocks()
        run.extensions.register(blocks)
        agent = await run.agents.create()
        agent.followup("bad news", NOTICE)
        async with asyncio.timeout(20):
            await agent.wait_idle()
        turns = agent.session.state.last_turn
        agent.wake()
        async with asyncio.timeout(20):
            await agent.wait_idle()

        assert (1, 2) == (turns, agent.session.state.last_turn)
        assert [["bad news"]] * 2 == blocks.seen
        assert ["bad news"] == texts(agent.waiting("next-step"))
        blocked = ["turn/start 2", "IN- next-step", "IN+ next-step", "turn/end blocked"]
        assert blocked == told(agent.session)[-4:]


async def test_prompts_that_wait_have_their_turns(rig: Any) -> None:
    """And what was steered while a prompt was blocked; each takes with it what was kept."""
    async with rig([TEXT] * 2) as run:
        blocks = Blocks()
        run.extensions.register(blocks)
        agent = await run.agents.create()
        agent.inject("job done", NOTICE)
        for text in ("bad", "good"):
            agent.followup(text, USER)
        await agent.wait_idle()
        blocks.meanwhile.append(lambda: agent.steer("hurry", USER))
        await agent.prompt("bad again")
        await agent.wait_idle()

        asked = [["job done", "bad"], ["job done", "good"], ["bad again"], ["hurry"]]
        assert asked == blocks.seen
        assert ("blocked", "completed") == tuple(event.data["reason"]["kind"] for event in ends(agent)[-2:])


async def test_what_is_kept_can_be_taken_back(rig: Any) -> None:
    """By the function that its producer got when it first said it."""
    async with rig([TEXT]) as run:
        run.extensions.register(Blocks())
        agent = await run.agents.create()
        take_back = agent.inject("job done", NOTICE)
        await agent.prompt("bad")
        take_back()
        await agent.prompt("good")

        assert [["user: good"]] == run.model.heard


async def test_what_results_added_is_kept(rig: Any) -> None:
    """A later step of a turn is blocked like the first one."""

    class Adds(Extension):
        name = "plugin:adds"

        async def session_start(self, event: Any) -> StartDecision:
            return StartDecision(context=["hello"])

        async def post_tool_use(self, event: ToolUsed) -> ResultDecision:
            return ResultDecision(context=["look, bad"])

    async with rig([{"tools": [echo()]}]) as run:
        run.extensions.register(Adds())
        run.extensions.register(Blocks())
        agent = await run.agents.create()
        result = await agent.prompt("go")

        assert ("blocked", ["look, bad"]) == (result.reason["kind"], texts(agent.waiting("next-step")))


async def test_the_end_of_the_turn_tells_why(rig: Any) -> None:
    """To whoever listens, as to whoever awaits it."""
    async with rig([TEXT]) as run:
        ended: list[TurnEnded] = []
        run.app.on(TurnEnded, ended.append)
        run.extensions.register(Blocks())
        agent = await run.agents.create()
        await agent.prompt("bad")
        await agent.prompt("good")

        assert [("blocked", "no"), ("completed", "")] == [(end.reason["kind"], end.feedback) for end in ended]


@pytest.mark.parametrize(("last", "prompts"), [("agent/inbox/spliced", ["bad"]), ("turn/end", [])])
async def test_a_crash_keeps_it_as_well(rig: Any, last: str, prompts: list[str]) -> None:
    """What was put back is there once; the prompt is gone with the end of its turn, and not before."""
    whole, store = MemoryLogStore(), MemoryLogStore()
    async with rig(store=whole) as run:
        run.extensions.register(Blocks())
        agent = await run.agents.create(session_id="s")
        agent.inject("job done", NOTICE)
        await agent.prompt("bad")
        events = list(agent.session.events)
    end = max(event.seq for event in events if event.type == last)
    with store.create(agent.session.header) as writer:
        writer.append(EncodedBatch(first_seq=0, events=tuple(events[: end + 1])))
    async with rig(store=store) as run:
        agent = await run.agents.resume("s")

        assert (["job done"], prompts) == (texts(agent.waiting("next-step")), texts(agent.waiting("next-turn")))


def ends(agent: Agent) -> list[Any]:
    return list(agent.session.events.of_type("turn/end"))
