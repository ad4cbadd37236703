"""Which handlers of a point a call or a source is for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from ._values import DialectName

_List: TypeAlias = tuple[re.Pattern[str], re.Pattern[str]]
"""What a list of names is made of, and what stands between two of them."""

_PLAIN: Final[_List] = re.compile(r"[A-Za-z0-9_|]+"), re.compile(r"\|")
_LISTS: Final[Mapping[DialectName, _List]] = {
    "claude-code": (re.compile(r"[A-Za-z0-9_|, \-]+"), re.compile(r"[|,]")),
    "codex": _PLAIN,
}
_REFERENCE_LISTS: Final[Mapping[DialectName, _List]] = {"claude-code": _PLAIN}
_NO_EXPRESSION: Final = (re.error, OverflowError, RecursionError)
"""What the compiler raises for a text that is none: nonsense, a number beyond its own, brackets without end."""


def matches(matcher: str | None, subjects: Sequence[str], *, dialect: DialectName, exact_names: bool = True) -> bool:
    """Tell whether a matcher takes one of the names that its subject goes by; the first is the dialect's own.

    None, an empty one and ``*`` take everything. One made of names takes exactly these; any other is a regular
    expression that is searched for, in the dialect's names alone, so that what it excludes there stays excluded. With
    ``exact_names`` off it is as in ``dsh``: only ``|`` parts names for Claude Code, and for Codex every matcher is an
    expression (BEHAVIOUR §7.2). What is no expression takes nothing.
    """
    if matcher is None or matcher in ("", "*"):
        return True
    listing = (_LISTS if exact_names else _REFERENCE_LISTS).get(dialect)
    if listing is not None and listing[0].fullmatch(matcher):
        wanted = {name.strip() for name in listing[1].split(matcher)}
        return not wanted.isdisjoint(subjects)
    pattern = _compiled(matcher)
    return pattern is not None and any(pattern.search(name) for name in _foreign(subjects))


def is_names(matcher: str, dialect: DialectName) -> bool:
    """Tell whether a matcher lists names."""
    return _LISTS[dialect][0].fullmatch(matcher) is not None


def matcher_problem(matcher: str) -> str | None:
    """Return why a matcher is no regular expression, None for one that is."""
    try:
        re.compile(matcher)
    except _NO_EXPRESSION as error:
        return str(error)
    return None


def _foreign(subjects: Sequence[str]) -> Sequence[str]:
    """Return all names but our own, which stands last where there are others."""
    return subjects if len(subjects) == 1 else subjects[:-1]


@lru_cache(maxsize=256)
def _compiled(matcher: str) -> re.Pattern[str] | None:
    try:
        return re.compile(matcher)
    except _NO_EXPRESSION:
        return None
