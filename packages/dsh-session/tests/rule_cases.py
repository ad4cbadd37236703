"""Cases of the rules, each decided by the real dsh 0.2.1-rc.2: it resumed the log twice, or refused it for good.

A case is a function that appends events through a ``Talk``; what is refused is its last event. For the verdict, the
same functions wrote their events unchecked, and ``resume_session`` of the SDK was given the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Act = Callable[[Any], object]

RESULT = {"type": "tool-result", "toolCallId": "x", "content": []}
TOOL = {"name": "bash", "description": "runs", "parameters": {"type": "object"}}
CONFIG = {"provider": "p", "model": "m"}


class Cases(dict[str, tuple[Act, str | None]]):
    """Acts by name, each with the reason for which its last event is refused, or None."""

    def refused(self, reason: str) -> Callable[[Act], Act]:
        return lambda act: self._add(act, reason)

    def accepted(self, act: Act) -> Act:
        return self._add(act, None)

    def _add(self, act: Act, reason: str | None) -> Act:
        self[act.__name__] = (act, reason)  # type: ignore[attr-defined] - functions have a name
        return act


def asked(talk: Any) -> Any:
    """Open a turn with a question, and return the question."""
    talk.open()
    return talk.user()


def header(talk: Any, reason: str = "initial", **fields: Any) -> Any:
    return talk.append("request/header", {"header": {"config": CONFIG, **fields}, "reason": reason})
