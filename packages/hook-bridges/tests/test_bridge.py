"""From what hooks said to what the loop does, and to what the user is told."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dsh_agent import Agent, Spawn, ToolResult
from dsh_hook_bridges import STOP_CAP, DialectName, HookNotice, cache_path
from dsh_session import SessionEvent, SessionMeta

CALL: Mapping[str, Any] = {"text": "I look.", "tools": [{"name": "bash", "arguments": {"command": "go"}}]}
DONE: Mapping[str, Any] = {"text": "Done."}


@pytest.fixture(params=["claude-code", "codex"])
def dialect(request: pytest.FixtureRequest) -> DialectName:
    found: DialectName = request.param
    return found


@pytest.fixture
def shell(tool: Callable[..., Any]) -> Any:
    """A shell that only says that it ran."""
    return tool("bash", ToolResult.of_text("output"))


def prints(**fields: Any) -> str:
    return f"echo {shlex.quote(json.dumps(fields))}"


def adds(point: str, text: str) -> str:
    return prints(hookSpecificOutput={"hookEventName": point, "additionalContext": text})


def told(notices: list[HookNotice], kind: str) -> list[str]:
    return [notice.text for notice in notices if notice.kind == kind]


def results(agent: Agent) -> list[str]:
    return [event.data["message"]["content"][0]["text"] for event in agent.session.events.of_type("tool/result")]


def user_texts(agent: Agent) -> list[str]:
    return [event.data["content"][0]["text"] for event in agent.session.events.of_type("user/message")]


def decisions(events: Any) -> list[str]:
    return [event.data["decision"] for event in events.of_type("hook/result")]


async def begin(rig: Any, place: Any, shell: Any) -> Agent:
    rig.tools.register(shell)
    agent: Agent = await rig.agents.create(meta=SessionMeta(cwd=str(place.project)))
    return agent


async def test_both_dialects_are_asked(place: Any, rig: Any, shell: Any) -> None:
    """Claude Code's hooks first; both reasons reach the model."""
    place.hooks("claude-code", {"PreToolUse": "echo first >&2; exit 2"})
    place.hooks("codex", {"PreToolUse": "echo second >&2; exit 2"})

    async with rig([CALL, DONE]) as opened:
        agent = await begin(opened, place, shell)
        await agent.prompt("Go.")

    assert (["Error: first\n\nsecond"], []) == (results(agent), shell.ran)
    dialects = [event.data["dialect"] for event in agent.session.events.of_type("hook/invoked")]
    assert ["claude-code", "codex"] == dialects


async def test_one_dialects_input_is_what_the_other_sees(place: Any, rig: Any, shell: Any) -> None:
    """What Claude Code's hook makes of the call is what Codex's judges and what runs."""
    answer = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": {"command": "stay"}}
    place.hooks("claude-code", {"PreToolUse": prints(hookSpecificOutput=answer)})
    place.hooks("codex", {"PreToolUse": "cat >seen"})

    async with rig([CALL, DONE]) as opened:
        agent = await begin(opened, place, shell)
        await agent.prompt("Go.")

    assert [{"command": "stay"}] == shell.ran
    assert {"command": "stay"} == json.loads((place.project / "seen").read_text())["tool_input"]


async def test_an_objection_without_a_reason(place: Any, rig: Any, shell: Any) -> None:
    """The model is told which point it was; a turn that goes on is told that as well."""
    place.hooks("claude-code", {"PreToolUse": "exit 2", "Stop": "[ -e stopped ] || { touch stopped; exit 2; }"})

    async with rig([CALL, DONE, DONE]) as opened:
        agent = await begin(opened, place, shell)
        await agent.prompt("Go.")

    assert ["Error: blocked by PreToolUse hook"] == results(agent)
    assert ["Go.", "continue: blocked by Stop hook"] == user_texts(agent)


async def test_an_end_without_a_reason(place: Any, rig: Any, shell: Any, dialect: DialectName) -> None:
    """There is a reason all the same, in the log or in the result's place."""
    place.hooks(dialect, {"PostToolUse": prints(**{"continue": False})})

    async with rig([CALL, DONE]) as opened:
        agent = await begin(opened, place, shell)
        result = await agent.prompt("Go.")

    if dialect == "claude-code":
        assert {"kind": "aborted", "reason": {"kind": "hook", "reason": "a hook ended the turn"}} == result.reason
        assert ["output"] == results(agent)
    else:
        assert "completed" == result.reason["kind"]
        assert ["PostToolUse hook stopped execution"] == results(agent)


async def test_what_the_user_is_told(place: Any, rig: Any, shell: Any) -> None:
    """A message of the hook's, a field without effect, a failure: each names its dialect, point and file."""
    answer = {
        "systemMessage": "Mind the gap.",
        "hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": "another"},
    }
    place.hooks("claude-code", {"PostToolUse": prints(**answer), "UserPromptSubmit": "exit 1"})

    async with rig([CALL, DONE]) as opened:
        agent = await begin(opened, place, shell)
        await agent.prompt("Go.")

    file = str(place.user / ".claude" / "settings.json")
    found = [(notice.kind, notice.point) for notice in opened.notices]
    assert [("failure", "UserPromptSubmit"), ("message", "PostToolUse"), ("ignored", "PostToolUse")] == found
    assert {("claude-code", file, agent)} == {(notice.dialect, notice.path, notice.agent) for notice in opened.notices}
    assert ["Mind the gap."] == told(opened.notices, "message")
    assert "hookSpecificOutput.updatedToolOutput has no effect here" in told(opened.notices, "ignored")[0]
    assert ["output"] == results(agent)


async def test_a_listener_that_fails(place: Any, rig: Any, shell: Any, dialect: DialectName) -> None:
    """Nobody's decision depends on who listens."""
    place.hooks(dialect, {"PreToolUse": "echo no >&2; exit 1"})

    def fail(notice: HookNotice) -> None:
        raise LookupError(notice.text)

    async with rig([CALL, DONE]) as opened:
        opened.app.on(HookNotice, fail)
        agent = await begin(opened, place, shell)
        result = await agent.prompt("Go.")

    assert ("completed", 1) == (result.reason["kind"], len(shell.ran))


async def test_a_text_too_long_for_a_conversation(
    place: Any, rig: Any, shell: Any, tmp_path: Path, dialect: DialectName
) -> None:
    """It enters as its beginning and the place of the whole."""
    (tmp_path / "long").write_text("x" * 10_001)
    place.hooks(dialect, {"UserPromptSubmit": f"cat {tmp_path}/long"})

    async with rig([DONE]) as opened:
        agent = await begin(opened, place, shell)
        await agent.prompt("Go.")

    _, entered = user_texts(agent)
    [whole] = Path(cache_path(str(place.home))).iterdir()
    assert f"{'x' * 2_000}\n[cut: all 10001 characters are in {whole}]" == entered
    assert "x" * 10_001 == whole.read_text()


async def test_a_log_that_cannot_be_written(place: Any, rig: Any, shell: Any, dialect: DialectName) -> None:
    """Hooks still guard what they guard, and the user is told that they cannot see the turn."""
    place.hooks(dialect, {"PreToolUse": "echo no >&2; exit 2"})

    async with rig([CALL, DONE]) as opened:
        (place.home / "sessions").write_text("in the way")
        agent = await begin(opened, place, shell)
        await agent.prompt("Go.")
        (place.home / "sessions").unlink()

    assert (["Error: no"], []) == (results(agent), shell.ran)
    behind = f"PreToolUse hooks run although the log of session {agent.session.id} is behind: "
    assert told(opened.notices, "failure")[0].startswith(behind)


async def test_how_often_a_turn_may_go_on(place: Any, rig: Any, shell: Any, dialect: DialectName) -> None:
    """As often as the cap says; then it ends, and the user is told."""
    place.hooks(dialect, {"Stop": "echo again >&2; exit 2"})

    async with rig([DONE] * (STOP_CAP + 1)) as opened:
        agent = await begin(opened, place, shell)
        result = await agent.prompt("Go.")

    assert "completed" == result.reason["kind"]
    assert ["Go.", *["again"] * STOP_CAP] == user_texts(agent)
    assert 1 == len(told(opened.notices, "cap"))


async def test_a_childs_turn_goes_on(place: Any, rig: Any, shell: Any, dialect: DialectName) -> None:
    """Its hooks are its parent's, its log has what they said, and its cap is its own."""
    place.hooks(dialect, {"SubagentStop": "echo again >&2; exit 2", "Stop": "touch wrong"})

    async with rig([DONE] * (STOP_CAP + 1)) as opened:
        parent = await begin(opened, place, shell)
        child = await opened.agents.spawn(parent, Spawn(label="scout"))
        await child.prompt("Look.")

    assert ["Look.", *["again"] * STOP_CAP] == user_texts(child)
    assert ["block"] * (STOP_CAP + 1) == decisions(child.session.events)
    assert [] == decisions(parent.session.events)
    assert "SubagentStop hooks have made turn 1 go on 8 times in a row" in told(opened.notices, "cap")[0]
    assert not (place.project / "wrong").exists()


async def test_a_turn_that_is_cancelled_before_its_hook_runs(
    place: Any, rig: Any, shell: Any, dialect: DialectName
) -> None:
    """The log has the hook's end as well as its beginning."""
    place.hooks(dialect, {"PreToolUse": "touch ran"})

    async with rig([CALL]) as opened:
        agent = await begin(opened, place, shell)

        def cancel(event: SessionEvent) -> None:
            if event.type == "hook/invoked":
                agent.cancel("user")

        agent.session.subscribe(cancel)
        result = await agent.prompt("Go.")

    assert ("aborted", ["cancelled"]) == (result.reason["kind"], decisions(agent.session.events))
    assert not (place.project / "ran").exists()


async def test_contexts_of_several_points_enter_in_order(
    place: Any, rig: Any, shell: Any, dialect: DialectName
) -> None:
    """What a start and a prompt add surround the prompt; what a call and its result add stands behind the result."""
    points = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse")
    place.hooks(dialect, {point: adds(point, f"At {point}.") for point in points})

    async with rig([CALL, DONE]) as opened:
        agent = await begin(opened, place, shell)
        await agent.prompt("Go.")

    expected = ["At SessionStart.", "Go.", "At UserPromptSubmit.", "At PreToolUse.", "At PostToolUse."]
    assert expected == user_texts(agent)
    sources = [event.data["source"]["kind"] for event in agent.session.events.of_type("user/message")]
    assert {"user", f"hooks-{dialect}"} == set(sources)
