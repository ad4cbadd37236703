"""``compat="dsh"``: hooks run as the real ``dsh`` runs them (BEHAVIOUR §7)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hooks.house import House, Listener, printed, ran, said
from support import bash, results

from dsh_agent import EXTENSIONS, Extension, Spawn, ToolDecision, ToolUse

DIALECTS = ["claude-code", "codex"]
DSH: dict[str, Any] = {"compat": "dsh"}
DONE = {"text": "Done."}
TOUCH = bash("touch ran.txt")


@pytest.fixture
def house(tmp_path) -> House:
    return House(top=tmp_path)


@pytest.fixture(params=DIALECTS)
def dialect(request) -> str:
    return request.param


async def test_every_batch_is_a_prompt(house, dialect):
    """Whoever speaks: what was injected counts with the prompt, and what makes a turn go on is one of its own."""
    house.hook(dialect, "UserPromptSubmit", house.recorder("prompts"))
    house.hook(dialect, "Stop", '[ -e stopped ] || { touch stopped; echo "go on" >&2; exit 2; }')

    async with house.agent(DONE, DONE, bridges=DSH) as agent:
        agent.inject("A note. ", {"kind": "plugin:test"})
        await agent.prompt("First.")

    assert ["A note. First.", "go on"] == [payload["prompt"] for payload in house.payloads("prompts")]


async def test_tools_have_our_names(house, dialect):
    """A matcher with the harness's own name for a tool never fires; arguments and results are ours."""
    house.hook(dialect, "PostToolUse", house.recorder("never"), matcher="Bash")
    house.hook(dialect, "PostToolUse", house.recorder("calls"), matcher="bash")

    async with house.agent(bash("echo hi"), DONE, bridges=DSH) as agent:
        await agent.prompt("go")

    [payload] = house.payloads("calls")
    more = {"description": "A test command"} if dialect == "claude-code" else {}
    expected = ("bash", {"command": "echo hi", **more}, "hi\n")
    assert expected == tuple(payload[name] for name in ("tool_name", "tool_input", "tool_response"))
    assert [] == house.payloads("never")


async def test_every_result_is_shown(house, dialect):
    """Also that of a call that was just refused, and of one that failed."""
    house.hook(dialect, "PreToolUse", "grep -q refused && { echo nope >&2; exit 2; }; exit 0")
    house.hook(dialect, "PostToolUse", house.recorder("results"))
    missing = {"tools": [{"name": "read", "arguments": {"file_path": "missing.txt"}}]}

    async with house.agent(bash("true refused"), missing, DONE, bridges=DSH) as agent:
        await agent.prompt("go")

        assert results(agent.session) == [payload["tool_response"] for payload in house.payloads("results")]
        assert "Error: nope" == results(agent.session)[0]


async def test_a_block_takes_the_place_of_the_result(house, dialect):
    """In both dialects."""
    house.hook(dialect, "PostToolUse", "echo 'tidy up' >&2; exit 2")

    async with house.agent(bash("echo output"), DONE, bridges=DSH) as agent:
        await agent.prompt("go")

        assert ["tidy up"] == results(agent.session)


async def test_a_stop_hook_has_no_cap(house, dialect):
    """It may go on for ever, and is never told that it did."""
    house.hook(dialect, "Stop", f"{house.recorder('stops')}; [ $(wc -l <'{house.top}/stops') -gt 11 ] || exit 2")

    async with house.agent(*[DONE] * 12, bridges=DSH) as agent:
        result = await agent.prompt("go")

        assert "completed" == result.reason["kind"]
        assert [False] * 12 == [payload["stop_hook_active"] for payload in house.payloads("stops")]
        assert [] == house.told("cap")
        asked = [event.data["content"][0]["text"] for event in agent.session.events.of_type("user/message")]
        assert ["go", *["continue: blocked by Stop hook"] * 11] == asked


async def test_continue_false_halts_nothing(house, dialect):
    """It is in the log, and that is all."""
    for point in ("UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"):
        house.hook(dialect, point, printed({"continue": False, "stopReason": "enough"}))

    async with house.agent(TOUCH, DONE, bridges=DSH) as agent:
        result = await agent.prompt("go")

        assert ("completed", "Done.") == (result.reason["kind"], result.text)
        assert ["stop"] * 4 == [decision for _, decision, *_ in ran(agent.session)]


class Asking(Extension):
    """Asks about every call, with nobody there to answer."""

    name = "plugin:asking"

    async def pre_tool_use(self, event: ToolUse) -> ToolDecision:
        return ToolDecision(verdict="ask", reason="not asked", is_fallback=True)


async def test_an_allow_allows_nothing(house, dialect):
    """The call is asked about as if there were no hook, and keeps its arguments."""
    answer = said("PreToolUse", permissionDecision="allow", updatedInput={"command": "echo changed"})
    house.hook(dialect, "PreToolUse", answer)

    async with house.harness(TOUCH, DONE, bridges=DSH) as running:
        agent = await running.agents.create(meta=house.meta)
        running.context.require(EXTENSIONS).register(Asking())
        await agent.prompt("go")

        assert ["Error: not asked"] == results(agent.session)
        assert ["allow"] == [decision for _, decision, *_ in ran(agent.session)]


async def test_hooks_run_in_turn_each_time_they_stand_there(house, dialect):
    """In the order of the configuration, twins too."""
    house.hook(dialect, "PreToolUse", "sleep 0.2; echo slow >>order")
    for _ in range(2):
        house.hook(dialect, "PreToolUse", "echo quick >>order")

    async with house.agent(TOUCH, DONE, bridges=DSH) as agent:
        await agent.prompt("go")

    assert ["slow", "quick", "quick"] == (house.project / "order").read_text().split()


async def test_a_start_is_not_waited_for(house, dialect):
    """A fork starts up, and what its hooks add enters a later step."""
    answer = said("SessionStart", additionalContext="Late.")
    house.hook(dialect, "SessionStart", f"{house.recorder('starts')}; while [ ! -e go ]; do sleep 0.02; done; {answer}")
    model = Listener([DONE, DONE])

    async with house.harness(model=model, bridges=DSH) as running:
        agent = await running.agents.create(meta=house.meta)
        await agent.prompt("first")
        (house.project / "go").touch()
        while not agent.waiting("next-step"):
            await asyncio.sleep(0.01)
        await agent.prompt("second")
        await running.agents.fork(agent.session.id)

    assert (["first"], ["first", "Late.", "second"]) == (model.heard(0), model.heard(1))
    assert ["startup", "startup"] == [payload["source"] for payload in house.payloads("starts")]


async def test_children(house):
    """A child is a session of its own there, with one name for all kinds, and its end is only told of."""
    house.hook("claude-code", "SubagentStart", house.recorder("runs"))
    house.hook("claude-code", "SubagentStop", f"{house.recorder('runs')}; exit 2")
    house.hook("claude-code", "Stop", house.recorder("stops"))

    async with house.harness(DONE, bridges=DSH) as running:
        parent = await running.agents.create(meta=house.meta)
        child = await running.agents.spawn(parent, Spawn(label="reviewer"))
        await child.prompt("go")
        await running.agents.close(child)

    names = ("session_id", "agent_id", "agent_type")
    told = [tuple(payload[name] for name in names) for payload in house.payloads("runs")]
    assert [(child.session.id, child.session.id, "general-purpose")] * 2 == told
    assert [child.session.id] == [payload["session_id"] for payload in house.payloads("stops")]


async def test_what_only_the_harnesses_have_does_not_run(house, dialect):
    """Nothing is told of ends and questions; Codex's hooks hear of no children."""
    for point in ("SessionEnd", "Notification", *(["SubagentStart", "SubagentStop"] if dialect == "codex" else [])):
        house.hook(dialect, point, "touch ran.txt")

    async with house.harness(DONE, bridges=DSH) as running:
        parent = await running.agents.create(meta=house.meta)
        child = await running.agents.spawn(parent, Spawn(label="reviewer"))
        await child.prompt("go")
        await running.agents.close(child)

    assert [] == list(house.project.iterdir())
