"""Glob patterns, matched one name at a time on the way down a tree.

``*``, ``?`` and ``[…]`` stay within a name, ``**`` stands for any number of directories, ``{a,b}`` for either. A
pattern without a slash means a name at any depth. Matching name by name tells which directories need not be entered.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from .errors import PatternInvalid

MAX_CHARS = 1000
MAX_ALTERNATIVES = 64

State = frozenset[tuple[int, int]]
"""Where a walk may be in the pattern: an alternative, and how many of its parts lie behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What one name has to be; without a ``regex`` it is ``**``."""

    text: str
    regex: re.Pattern[str] | None


class GlobPattern:
    """One pattern. Raises ``PatternInvalid`` when it is none."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARS:
            raise PatternInvalid(f"{text[:40]}…", f"it is longer than {MAX_CHARS} characters; name less")
        self._text = text
        texts = list(_alternatives(text))
        if len(texts) > MAX_ALTERNATIVES:
            raise PatternInvalid(text, f"its braces mean more than {MAX_ALTERNATIVES} patterns; use several calls")
        self._alternatives = [self._parts(alternative) for alternative in texts]
        self.start: State = self._closed({(number, 0) for number in range(len(texts))})

    def step(self, state: State, name: str) -> State:
        """Return where ``name`` leads from ``state``."""
        after: set[tuple[int, int]] = set()
        for alternative, at in state:
            parts = self._alternatives[alternative]
            if at == len(parts):
                continue
            regex = parts[at].regex
            if regex is None:
                after.add((alternative, at))
            elif regex.match(name):
                after.add((alternative, at + 1))
        return self._closed(after)

    def is_match(self, state: State) -> bool:
        """Tell whether a file at ``state`` is meant."""
        return any(at == len(self._alternatives[alternative]) for alternative, at in state)

    def goes_on(self, state: State) -> bool:
        """Tell whether anything below a directory at ``state`` can be meant."""
        return any(at < len(self._alternatives[alternative]) for alternative, at in state)

    def names(self, state: State, name: str) -> bool:
        """Tell whether the pattern spells out ``name`` at ``state``."""
        coming = [part for alternative, at in state for part in self._alternatives[alternative][at : at + 1]]
        return any(part.text == name for part in coming)

    def _closed(self, state: set[tuple[int, int]]) -> State:
        """Add where ``**`` that stands for nothing leads."""
        closed = set(state)
        for alternative, first in state:
            parts, at = self._alternatives[alternative], first
            while at < len(parts) and parts[at].regex is None:
                at += 1
                closed.add((alternative, at))
        return frozenset(closed)

    def _parts(self, text: str) -> list[_Part]:
        names = [name for name in text.split("/") if name not in ("", ".")]
        if text.startswith("/") or ".." in names:
            raise PatternInvalid(self._text, "it must lead down from where the search begins; name a directory in path")
        if not names:
            raise PatternInvalid(self._text, "it is empty; **/* means every file")
        if "/" not in text:
            names = ["**", *names]
        try:
            return [_Part(text=name, regex=None if name == "**" else _compiled(name)) for name in names]
        except re.error as error:
            raise PatternInvalid(self._text, str(error)) from error


def _compiled(name: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(name))


def _alternatives(text: str) -> Iterator[str]:
    """Yield what the braces of ``text`` mean, at most one more than are allowed; unbalanced ones mean themselves."""
    todo, found = [text], 0
    while todo and found <= MAX_ALTERNATIVES:
        pattern = todo.pop()
        group = _first_group(pattern)
        if group is None:
            found += 1
            yield pattern
            continue
        begin, end, choices = group
        todo.extend(pattern[:begin] + choice + pattern[end:] for choice in reversed(choices))


def _first_group(text: str) -> tuple[int, int, list[str]] | None:
    """Return where the first balanced braces with a comma begin and end, and the choices between them."""
    for begin, char in enumerate(text):
        if char == "{":
            bounds = _bounds(text, begin)
            if len(bounds) > 2:
                return begin, bounds[-1] + 1, [text[a + 1 : b] for a, b in pairwise(bounds)]
    return None


def _bounds(text: str, begin: int) -> list[int]:
    """Return where the brace at ``begin``, its own commas and its closing brace are; nothing if it has none."""
    depth, bounds = 0, [begin]
    for at in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return [*bounds, at]
        if depth == 1 and text[at] == ",":
            bounds.append(at)
    return []
