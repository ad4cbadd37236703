"""Which handlers of a point a call or a source is for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from ._values import DialectName

_NAMES = {"claude-code": re.compile(r"[A-Za-z0-9_|, \-]+"), "codex": re.compile(r"[A-Za-z0-9_|]+")}
_SEPARATORS = {"claude-code": re.compile(r"[|,]"), "codex": re.compile(r"\|")}


def matches(matcher: str | None, subjects: Sequence[str], *, dialect: DialectName, exact_names: bool = True) -> bool:
    """Tell whether a matcher takes one of the names that its subject goes by; the first is the dialect's own.

    None, an empty one and ``*`` take everything. One made of names takes exactly these; any other is a regular
    expression that is searched for, in the dialect's names alone, so that what it excludes there stays excluded. With
    ``exact_names`` off every matcher of Codex is one (BEHAVIOUR §7.2). What is no expression takes nothing.
    """
    if matcher is None or matcher in ("", "*"):
        return True
    if is_names(matcher, dialect) and (exact_names or dialect == "claude-code"):
        wanted = {name.strip() for name in _SEPARATORS[dialect].split(matcher)}
        return not wanted.isdisjoint(subjects)
    pattern = _compiled(matcher)
    return pattern is not None and any(pattern.search(name) for name in _foreign(subjects))


def is_names(matcher: str, dialect: DialectName) -> bool:
    """Tell whether a matcher lists names."""
    return _NAMES[dialect].fullmatch(matcher) is not None


def matcher_problem(matcher: str) -> str | None:
    """Return why a matcher is no regular expression, None for one that is."""
    try:
        re.compile(matcher)
    except re.error as error:
        return str(error)
    return None


def _foreign(subjects: Sequence[str]) -> Sequence[str]:
    """Return all names but our own, which stands last where there are others."""
    return subjects if len(subjects) == 1 else subjects[:-1]


@lru_cache(maxsize=256)
def _compiled(matcher: str) -> re.Pattern[str] | None:
    try:
        return re.compile(matcher)
    except re.error:
        return None
