from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_tool_files import PatternInvalid
from dsh_tool_files._pattern import GlobPattern

parts = st.lists(st.sampled_from(["**", "*", "a", "a*", "?b", "[ab]", "[!a]"]), min_size=1, max_size=5)
names = st.lists(st.sampled_from(["a", "b", "ab", ".a"]), min_size=1, max_size=6)


def walk(pattern: GlobPattern, path: list[str]) -> tuple[bool, bool]:
    """Go down the path; return whether it matches, and whether every directory on the way was worth entering."""
    state, is_reached = pattern.start, True
    for number, name in enumerate(path, 1):
        state = pattern.step(state, name)
        is_reached &= number == len(path) or pattern.goes_on(state)
    return pattern.is_match(state), is_reached


def matches(pattern: list[str], path: list[str]) -> bool:
    """The meaning, as plainly as it can be said."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(matches(pattern[1:], path[skipped:]) for skipped in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], pattern[0]) and matches(pattern[1:], path[1:])


@given(pattern=parts, path=names)
def test_meaning(pattern: list[str], path: list[str]) -> None:
    """A pattern matches what its parts mean, and no directory that leads to a match is left out."""
    meant = pattern if len(pattern) > 1 else ["**", *pattern]
    is_match, is_reached = walk(GlobPattern("/".join(pattern)), path)
    assert is_match == matches(meant, path)
    assert is_reached or not is_match


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", "d/e/a.py", ".py"], ["a.pyc", "a.py/b"]),
        ("./*.py", ["a.py"], ["d/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/d/e/a.py"], ["a.py", "x/src/a.py"]),
        ("**/t/*", ["t/a", "x/t/a"], ["t/a/b"]),
        ("src/**", ["src/a", "src/d/a"], ["a"]),
        ("*.{ts,tsx}", ["a.ts", "d/a.tsx"], ["a.js"]),
        ("{src,test}/{a,b{c,d}}.py", ["src/a.py", "test/bc.py", "src/bd.py"], ["src/b.py", "a.py"]),
        ("{a,b/c}", ["a", "x/a", "b/c"], ["x/b/c", "c"]),
        ("a{b}c", ["a{b}c"], ["abc"]),
        ("{a,b", ["{a,b"], ["a"]),
        ("a{,b}", ["a", "ab"], ["b"]),
        ("[!a]?", ["bc"], ["ab", "b"]),
        ("A", ["A"], ["a"]),
    ],
)
def test_examples(pattern: str, yes: list[str], no: list[str]) -> None:
    """What people and models write means what they mean."""
    compiled = GlobPattern(pattern)
    assert [path for path in yes if not walk(compiled, path.split("/"))[0]] == []
    assert [path for path in no if walk(compiled, path.split("/"))[0]] == []


@pytest.mark.parametrize(
    ("pattern", "words"),
    [("", "empty"), (".", "empty"), ("/etc/*", "lead down"), ("../*", "lead down"), ("{a,..}/b", "lead down"),
     ("x" * 1001, "1000 characters"), ("{a,b}" * 7, "64 patterns"), ("{a,b}" * 190, "64 patterns")],
)  # fmt: skip
def test_no_patterns(pattern: str, words: str) -> None:
    """What is no pattern, leads out or means too much is refused, at once."""
    with pytest.raises(PatternInvalid, match=words):
        GlobPattern(pattern)


def test_spelled_names() -> None:
    """A name that is spelled out is told from one that a wildcard happens to match."""

    def spelled(pattern: str, *path: str) -> bool:
        compiled: Any = GlobPattern(pattern)
        state = compiled.start
        for name in path[:-1]:
            state = compiled.step(state, name)
        return compiled.names(state, path[-1])

    assert spelled(".git/*", ".git")
    assert spelled("**/.git/*", "a", ".git")
    assert not spelled("*/x", ".git")
    assert not spelled("**", ".git")


def test_slow_patterns_are_not() -> None:
    """A pattern made to be slow is matched at once all the same."""
    pattern = GlobPattern("/".join(["**"] * 100 + ["*a" * 100] * 3))
    state = pattern.start
    for _ in range(60):
        state = pattern.step(state, "a" * 250)
    assert not pattern.is_match(pattern.step(state, "b"))
