"""What the log says of hooks: a pair of events for each that ran in a turn (BEHAVIOUR §7.8)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hookkit import handler, outcome

from dsh_agent import ToolResult
from dsh_hook_bridges import HookOutcome
from dsh_hook_bridges._records import Records
from dsh_session import EventRun, Session, SessionHeader, SessionMeta


@pytest.fixture
def session() -> Session:
    return Session(SessionHeader.new(session_id="s"))


def result(session: Session, of: HookOutcome, *, is_real: bool = True) -> dict[str, Any]:
    Records(itertools.count(1), is_real=is_real).result(session, 3, "claude-code:PreToolUse:1", of)
    data: dict[str, Any] = session.events[-1].data
    return data


def ended(word: str = "pass", *, code: int | None = 0, stderr: str = "", **fields: Any) -> HookOutcome:
    kind = {"block": "deny", "approve": "allow", "stop": "pass"}.get(word, word)
    found = outcome(kind, word=word, **fields)
    return HookOutcome(handler=found.handler, answer=found.answer, exit_code=code, stderr=stderr, duration_ms=12.6)


def test_what_is_about_to_run(session):
    """Ids count up for all points; a matcher is told where there is one."""
    records = Records(itertools.count(7), is_real=True)
    ids = [
        records.invoked(session, 3, handler(matcher="Bash|Edit")),
        records.invoked(session, 3, handler(dialect="codex", point="Stop")),
    ]
    assert ["claude-code:PreToolUse:7", "codex:Stop:8"] == ids
    assert [
        {
            "turn": 3,
            "point": "PreToolUse",
            "dialect": "claude-code",
            "matcher": "Bash|Edit",
            "handlerId": "claude-code:PreToolUse:7",
        },
        {"turn": 3, "point": "Stop", "dialect": "codex", "handlerId": "codex:Stop:8"},
    ] == [event.data for event in session.events]
    assert ["hook/invoked"] * 2 == [event.type for event in session.events]


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (ended(), {"decision": "pass", "exitCode": 0}),
        (ended("block", code=2, stderr=" no\n"), {"decision": "block", "exitCode": 2, "stderrSummary": "no"}),
        (ended("approve"), {"decision": "approve", "exitCode": 0}),
        (ended("stop"), {"decision": "stop", "exitCode": 0}),
        (
            ended("error", code=1, stderr="hm", reason="hm (exit 1 = …)"),
            {"decision": "error", "exitCode": 1, "stderrSummary": "hm"},
        ),
        (ended("error", code=1, reason="exit 1"), {"decision": "error", "exitCode": 1, "stderrSummary": "exit 1"}),
        (ended("timeout", code=None, reason="late"), {"decision": "timeout", "stderrSummary": "late"}),
        (ended("spawn-failed", code=None, reason="gone"), {"decision": "spawn-failed", "stderrSummary": "gone"}),
        (ended("cancelled", code=None), {"decision": "cancelled"}),
        (ended("deny", reason="only for the model"), {"decision": "deny", "exitCode": 0}),
    ],
)
def test_what_came_of_it(session, of, expected):
    """A failure says why, in the hook's own words where it has some."""
    head = {"turn": 3, "point": "PreToolUse", "handlerId": "claude-code:PreToolUse:1"}
    assert {**head, **expected, "durationMs": 13} == result(session, of)


@pytest.mark.parametrize("word", ["error", "timeout", "spawn-failed", "cancelled"])
def test_dsh_has_no_word_for_failures(session, word):
    assert "pass" == result(session, ended(word, code=None), is_real=False)["decision"]


@pytest.mark.parametrize(
    ("stderr", "summary"), [("x" * 500, "x" * 500), ("x" * 501, "x" * 500 + "…"), (" \n" + "é" * 600, "é" * 500 + "…")]
)
def test_a_long_story_is_cut(session, stderr, summary):
    assert summary == result(session, ended(stderr=stderr))["stderrSummary"]


CALL = {"text": "I look.", "tools": [{"name": "bash", "arguments": {"command": "ls"}}]}


async def test_where_they_stand(place, rig, tool):
    """Before the step, between a call and its result, before the end of the turn; none for what is outside a turn."""
    points = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd", "Notification")
    place.hooks("claude-code", dict.fromkeys(points, "exit 0"))
    async with rig([CALL, {"text": "Done."}]) as run:
        run.tools.register(tool("bash", ToolResult.of_text("")))
        agent = await run.agents.create(meta=SessionMeta(cwd=str(place.project)))
        await agent.prompt("Go.")
    kept = ("turn/start", "step/start", "tool/call", "tool/result", "step/end", "turn/end")
    told = [
        f"{event.type} {event.data['point']}" if event.type.startswith("hook/") else event.type
        for event in agent.session.events
        if event.type in kept or event.type.startswith("hook/")
    ]
    assert [
        "turn/start",
        "hook/invoked UserPromptSubmit",
        "hook/result UserPromptSubmit",
        "step/start",
        "tool/call",
        "hook/invoked PreToolUse",
        "hook/result PreToolUse",
        "hook/invoked PostToolUse",
        "hook/result PostToolUse",
        "tool/result",
        "step/end",
        "step/start",
        "step/end",
        "hook/invoked Stop",
        "hook/result Stop",
        "turn/end",
    ] == told
    EventRun(agent.session.events).validate(agent.session.header)


async def test_several_hooks_of_a_point_are_told_in_order(place, rig):
    """Whichever of them ends first; those that nothing waits for are not in the log."""
    commands = ["sleep 0.2; exit 0", "echo no >&2; exit 1", "exit 0"]
    handlers = [{"command": command} for command in commands]
    handlers[2]["async"] = True  # type: ignore[assignment]  # a flag among texts
    place.write("user/.claude/settings.json", {"hooks": {"Stop": [{"hooks": handlers}]}})
    async with rig([{"text": "Done."}]) as run:
        agent = await run.agents.create(meta=SessionMeta(cwd=str(place.project)))
        await agent.prompt("Go.")
    invoked = [event.data["handlerId"] for event in agent.session.events.of_type("hook/invoked")]
    results = [event.data for event in agent.session.events.of_type("hook/result")]
    assert (["claude-code:Stop:1", "claude-code:Stop:2"], ["pass", "error"]) == (
        invoked,
        [each["decision"] for each in results],
    )
    assert invoked == [each["handlerId"] for each in results]
