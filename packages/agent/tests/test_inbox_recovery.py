"""What a turn had claimed when the process ended: it was safe while it waited, so it is not lost with the turn."""

from __future__ import annotations

from typing import Any

import pytest
from loopkit import told

from dsh_persistence import MemoryLogStore
from dsh_session import EncodedBatch

TEXT = {"text": "hello"}
USER = {"kind": "user"}


async def cut(rig: Any, until: str) -> MemoryLogStore:
    """Return a store with the session ``s``, cut off in its second turn, right behind the first event of a type."""
    whole, store = MemoryLogStore(), MemoryLogStore()
    async with rig([TEXT] * 4, store=whole) as run:
        agent = await run.agents.create(session_id="s")
        await agent.prompt("first")
        begun = agent.session.next_seq
        agent.inject("aside", USER)
        agent.followup("second", USER)
        agent.followup("third", USER)
        await agent.wait_idle()
        events = list(agent.session.events)
    end = next(event.seq for event in reversed(events[: _turn_end(events, 2)]) if event.type == until)
    assert end > begun
    with store.create(agent.session.header) as writer:
        writer.append(EncodedBatch(first_seq=0, events=tuple(events[: end + 1])))
    return store


def _turn_end(events: list[Any], turn: int) -> int:
    return next(event.seq for event in events if event.type == "turn/end" and event.data["turn"] == turn)


@pytest.mark.parametrize("until", ["agent/inbox/spliced", "step/start"])
async def test_what_was_claimed_and_not_said_waits_again(rig: Any, until: str) -> None:
    """It waits where it did, before what came later, and enters once, also when the next process ends at once."""
    store = await cut(rig, until)
    async with rig([], store=store) as run:
        await run.agents.close(await run.agents.resume("s"))
    async with rig([TEXT] * 2, store=store) as run:
        agent = await run.agents.resume("s")
        waiting = [
            [message["content"][0]["text"] for message in agent.waiting(at)] for at in ("next-step", "next-turn")
        ]
        agent.wake()
        await agent.wait_idle()

        assert [["aside"], ["second", "third"]] == waiting
        asked = [[line for line in heard if line.startswith("user")] for heard in run.model.heard]
        assert [["user: first", "user: aside", "user: second"], [*asked[0], "user: third"]] == asked


async def test_what_was_said_waits_no_more(rig: Any) -> None:
    """What has entered is in the history, and the next turn's model sees it there."""
    store = await cut(rig, "user/message")
    async with rig([TEXT], store=store) as run:
        agent = await run.agents.resume("s")
        before = told(agent.session)
        agent.wake()
        await agent.wait_idle()

        assert "turn/end interrupted" == before[-2]
        assert ["user: first", "assistant: hello", "user: aside", "user: second", "user: third"] == run.model.heard[0]


async def test_a_fork_has_none_of_it(rig: Any) -> None:
    """What was claimed in the other session is that one's to say."""
    store = await cut(rig, "step/start")
    async with rig([], store=store) as run:
        agent = await run.agents.fork("s")

        assert () == (*agent.waiting("next-step"), *agent.waiting("next-turn"))
