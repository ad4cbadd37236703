"""Samples: a hook that is only tried is given a moment that its matcher is for."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from dsh_hook_bridges import SAMPLE_SESSION, DialectName, Handler, HookPoint, dialect_of, is_reachable, sample_payload


def handler(dialect: DialectName, point: HookPoint, matcher: str | None = None) -> Handler:
    return Handler(
        dialect=dialect, layer="user", path="hooks.json", place="", point=point, matcher=matcher, command="true"
    )


def sample(dialect: DialectName, point: HookPoint, matcher: str | None = None) -> dict[str, object]:
    return json.loads(sample_payload(dialect_of(dialect), handler(dialect, point, matcher), cwd="/srv/work"))


@pytest.mark.parametrize("dialect", get_args(DialectName))
@pytest.mark.parametrize("point", get_args(HookPoint))
def test_every_point_has_one(dialect, point):
    """It names its event, the session of samples, and the directory it is tried in."""
    payload = sample(dialect, point)

    facts = {"session_id": SAMPLE_SESSION, "cwd": "/srv/work", "hook_event_name": point}
    assert facts == {name: payload[name] for name in facts}


@pytest.mark.parametrize(
    ("dialect", "matcher", "name", "tool_input"),
    [
        ("claude-code", None, "Bash", {"command": "echo hello", "description": "Say hello"}),
        ("claude-code", "Write|Read", "Write", {"file_path": "/srv/work/sample.txt", "content": "hello\n"}),
        ("claude-code", "grep", "Grep", {"pattern": "hello"}),
        ("claude-code", "BashOutput", "TaskOutput", {"job_id": "sample"}),
        ("claude-code", "mcp__.*", "Bash", {"command": "echo hello", "description": "Say hello"}),
        ("codex", "Bash", "Bash", {"command": "echo hello"}),
    ],
)
def test_the_call_is_one_that_the_matcher_takes(dialect, matcher, name, tool_input):
    """In the dialect's words; a matcher that takes no tool is tried with a command."""
    before, after = (sample(dialect, point, matcher) for point in ("PreToolUse", "PostToolUse"))

    assert (name, tool_input) == (before["tool_name"], before["tool_input"])
    assert before == {key: after[key] for key in before} | {"hook_event_name": "PreToolUse"}
    assert {"tool_response"} == set(after) - set(before)


def test_an_edit_of_codex_is_a_patch():
    """As everywhere."""
    payload = sample("codex", "PreToolUse", "apply_patch")

    assert "apply_patch" == payload["tool_name"]
    assert "*** Begin Patch\n*** Update File: sample.txt\n" in payload["tool_input"]["command"]


def test_a_source_is_one_that_the_matcher_takes():
    """The first of them, else the most common."""
    assert ["startup", "resume", "fork", "startup"] == [
        sample("codex", "SessionStart", matcher)["source"] for matcher in (None, "resume|clear", "fork", "compact")
    ]


@pytest.mark.parametrize(
    ("point", "matcher", "expected"),
    [
        ("PreToolUse", None, True),
        ("PreToolUse", "Edit|MultiEdit", True),
        ("PreToolUse", "MultiEdit", False),
        ("PostToolUse", "mcp__.*", False),
        ("SessionStart", "clear|compact", False),
        ("SessionEnd", "other", True),
        ("SessionEnd", "logout", False),
        ("Notification", "idle_prompt", False),
        ("SubagentStop", "reviewer", True),
        ("Stop", None, True),
    ],
)
def test_what_a_matcher_can_take_here(point, matcher, expected):
    """Kinds of children are anybody's; tools and sources are known."""
    assert expected == is_reachable(dialect_of("claude-code"), handler("claude-code", point, matcher))
