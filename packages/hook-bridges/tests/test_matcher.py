"""Matchers: which calls and sources a group of hooks is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_hook_bridges import Claude, Codex, DialectName, matches

DIALECTS: tuple[DialectName, ...] = get_args(DialectName)


def claude(matcher: str | None, tool: str) -> bool:
    """Tell what a matcher of Claude Code makes of one of our tools."""
    return matches(matcher, names(Claude().tool_names(tool), tool), dialect="claude-code")


def codex(matcher: str | None, tool: str) -> bool:
    return matches(matcher, names(Codex().tool_names(tool), tool), dialect="codex")


def names(theirs: Sequence[str], tool: str) -> Sequence[str]:
    return theirs if tool in theirs else (*theirs, tool)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("exact_names", [True, False])
@pytest.mark.parametrize("matcher", [None, "", "*", ".*"])
def test_everything_is_taken(dialect, exact_names, matcher):
    """By none, an empty one, a star, and an expression that takes everything."""
    assert matches(matcher, ("Bash", "bash"), dialect=dialect, exact_names=exact_names)


@pytest.mark.parametrize(
    ("matcher", "tool", "expected"),
    [
        ("Bash", "bash", True),
        ("bash", "bash", True),
        ("BASH", "bash", False),
        ("Bas", "bash", False),
        ("Bash", "job_output", False),
        ("BashOutput", "job_output", True),
        ("TaskOutput", "job_output", True),
        ("KillShell|TaskStop", "job_kill", True),
        ("Edit|Write", "write", True),
        ("Edit|Write", "read", False),
        ("Edit, Write", "write", True),
        ("Edit,Write", "edit", True),
        (" Edit | Write ", "write", True),
        ("Edit Write", "write", False),
        ("mcp__memory", "mcp__memory__create", False),
        ("mcp__memory__.*", "mcp__memory__create", True),
        ("my-tool", "my-tool", True),
        ("my-tool", "my-tools", False),
        ("my.tool", "my-tool", True),
        ("^Bash$", "bash", True),
        ("^B", "bash", True),
        ("ash", "bash", False),
        ("a.h", "bash", True),
        ("Write|Edit.*", "write", True),
        ("^(?!Bash$)", "bash", False),
        ("^(?!bash)", "bash", True),
        ("^(?!Bash$)", "read", True),
        ("^[a-z]+$", "bash", False),
        ("^[a-z]+$", "custom", True),
        ("Bash(", "bash", False),
        ("Bash(git *)", "bash", False),
    ],
)
def test_matchers_of_claude_code(matcher, tool, expected):
    """Names are exact, in its words or ours; an expression sees its words alone, so what it excludes is excluded."""
    assert expected == claude(matcher, tool)


@pytest.mark.parametrize(
    ("matcher", "tool", "expected"),
    [
        ("Bash", "bash", True),
        ("bash", "bash", True),
        ("Bas", "bash", False),
        ("^Bash$", "bash", True),
        ("B.sh", "bash", True),
        ("apply_patch", "edit", True),
        ("Edit|Write", "edit", True),
        ("Edit", "write", True),
        ("edit", "edit", True),
        ("edit", "write", False),
        ("MultiEdit", "edit", False),
        ("Edit, Write", "edit", False),
        ("my-tool", "my-tool", True),
        ("my-tool", "my-tools", True),
        ("read", "read", True),
        ("Read", "read", False),
        ("^(?!Bash)", "bash", False),
        ("^(?!bash)", "bash", True),
        ("^edit$", "edit", False),
        ("[", "bash", False),
    ],
)
def test_matchers_of_codex(matcher, tool, expected):
    """It knows no lists with commas and no names with dashes: those are expressions, and found anywhere."""
    assert expected == codex(matcher, tool)


@pytest.mark.parametrize(
    ("matcher", "subject", "expected"),
    [
        ("startup", "startup", True),
        ("startup|resume", "resume", True),
        ("start", "startup", False),
        ("^(startup|fork)$", "fork", True),
        ("clear", "startup", False),
    ],
)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_other_subjects(dialect, matcher, subject, expected):
    """A source, a kind of child, a reason: whatever has one name is held against it."""
    assert expected == matches(matcher, (subject,), dialect=dialect)


@pytest.mark.parametrize(
    ("dialect", "matcher", "expected"),
    [
        ("claude-code", "bash", True),
        ("claude-code", "ba", False),
        ("claude-code", "edit|bash", True),
        ("claude-code", "edit,bash", False),
        ("claude-code", "bash-like", False),
        ("claude-code", "ba.*", True),
        ("codex", "ba", True),
        ("codex", "edit|as", True),
        ("codex", "^ba$", False),
        ("codex", "ba(", False),
    ],
)
def test_matchers_as_dsh_has_them(dialect, matcher, expected):
    """Claude Code's lists are parted by bars alone, and Codex's matchers are all expressions (BEHAVIOUR §7.2)."""
    assert expected == matches(matcher, ("bash",), dialect=dialect, exact_names=False)


def test_a_name_with_a_dash_is_an_expression_of_dsh():
    """So it is found anywhere, which in Claude Code itself it is not."""
    assert matches("a-b", ("xa-bx",), dialect="claude-code", exact_names=False)
    assert not matches("a-b", ("xa-bx",), dialect="claude-code")


@pytest.mark.filterwarnings("ignore::FutureWarning")  # what the expression compiler thinks of some matchers
@given(
    matcher=st.text(alphabet="AB|, -_.^$?(){}[]\\+\ud800", max_size=12),
    dialect=st.sampled_from(DIALECTS),
    exact_names=st.booleans(),
)
def test_no_matcher_raises(matcher: str, dialect: DialectName, exact_names: bool):
    """What is no expression takes nothing."""
    assert matches(matcher, ("AB", "ab"), dialect=dialect, exact_names=exact_names) in (True, False)
