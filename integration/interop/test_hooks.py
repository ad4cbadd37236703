"""Sessions whose hooks said everything that hooks can say: the real ``dsh`` takes their logs, and goes on with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hooks.house import House, Listener, printed, said

from dsh_hook_bridges import Compat, DialectName
from dsh_session import SessionEvent

from .desk import Desk, Encoding
from .stage import LoopDesk, Prompter, shell, stored_session

WORDS = frozenset(("pass", "allow", "ask", "deny", "approve", "block", "stop", "error", "timeout", "spawn-failed"))
CASES: list[tuple[DialectName, Compat | None, frozenset[str]]] = [
    ("claude-code", None, WORDS | {"cancelled"}),
    ("codex", None, WORDS - {"ask", "approve"} | {"cancelled"}),  # which are no answers there
    ("claude-code", "dsh", WORDS - {"error", "timeout", "spawn-failed"}),  # failures pass
    ("codex", "dsh", WORDS - {"error", "timeout", "spawn-failed"}),
]


def furnish(house: House, dialect: DialectName) -> None:
    """Add hooks that say everything."""
    house.hook(dialect, "SessionStart", said("SessionStart", additionalContext="It begins."))
    house.hook(dialect, "UserPromptSubmit", said("UserPromptSubmit", additionalContext="Mind the gap."))
    for verdict in ("allow", "ask", "deny"):
        more = {"updatedInput": {"command": "true"}} if verdict == "allow" else {}
        reason = {"permissionDecisionReason": "as the hook says"}
        house.hook(dialect, "PreToolUse", said("PreToolUse", permissionDecision=verdict, **reason, **more))
    house.hook(dialect, "PreToolUse", printed({"decision": "approve"}))
    house.hook(dialect, "PreToolUse", "echo 'not \"that\"\nand no other: ü' >&2; exit 2", matcher="*")
    house.hook(dialect, "PreToolUse", "exit 1")
    house.hook(dialect, "PreToolUse", "kill -KILL $$")
    house.hook(dialect, "PreToolUse", "sleep 600", timeout=1, onFailure="closed")
    house.hook(dialect, "PreToolUse", "/no/such/program")
    house.hook(dialect, "Stop", printed({"continue": False, "stopReason": "enough"}))
    house.hook(dialect, "Stop", "exit 0")


async def play(house: House, session_id: str, bridges: Mapping[str, Any], encoding: Encoding) -> None:
    """Have a session with one turn to its end, and one that is cancelled while its hooks run."""
    replies: list[Mapping[str, Any]] = [{"tools": [shell("true")]}, {"text": "Done."}, {"tools": [shell("true")]}]
    model = Listener(replies, route=Prompter.route)
    async with house.harness(model=model, bridges=bridges, system_prompt="Be brief.", encoding=encoding) as running:
        agent = await running.agents.create(session_id=session_id, meta=house.meta)
        result = await agent.prompt("Begin.")
        assert "completed" == result.reason["kind"]

        def cancel(event: SessionEvent) -> None:
            if event.type == "hook/invoked" and event.data["point"] == "PreToolUse":
                agent.cancel("user")

        agent.session.subscribe(cancel)
        result = await agent.prompt("And again.")
        assert "aborted" == result.reason["kind"]


def of_hooks(desk: Desk, session_id: str) -> list[SessionEvent]:
    return [event for event in stored_session(desk, session_id).events if event.type.startswith("hook/")]


@pytest.mark.parametrize("encoding", ["zstd", "raw"])
def test_every_answer(new_desk: Callable[..., Desk], encoding: Encoding) -> None:
    """``dsh``, we and ``dsh`` again continue each, in both dialects and both ways; what was said stays as it is."""
    desk = LoopDesk.at(new_desk(encoding))
    said_by: dict[str, list[SessionEvent]] = {}
    for dialect, compat, words in CASES:
        house, session_id = House(top=desk.home.parent), f"{dialect}-{compat}"
        furnish(house, dialect)
        asyncio.run(play(house, session_id, {"compat": compat, "dialects": (dialect,)}, encoding))
        events = said_by[session_id] = of_hooks(desk, session_id)
        found = {event.data["decision"] for event in events if event.type == "hook/result"}
        assert words <= found, session_id
        assert found <= words | {"cancelled"}, session_id
        assert {dialect} == {event.data["dialect"] for event in events if event.type == "hook/invoked"}
        messages: list[Any] = stored_session(desk, session_id).messages()
        assert f"hooks-{dialect}" in {message["source"]["kind"] for message in messages}

    troubles = desk.take_turns(["dsh", "we", "dsh"], *said_by)

    assert {session_id: [] for session_id in said_by} == troubles
    assert said_by == {session_id: of_hooks(desk, session_id) for session_id in said_by}
