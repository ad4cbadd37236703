"""What rules ask of single values, with JavaScript's idea of them: the harness that must accept the log compares so."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeGuard, cast

from ._event import SessionEvent
from ._json import MAX_INTEGER
from .errors import EventRefused

MISSING: Final = object()
"""What a key that is not there compares as; null is something else."""


def refuse(event: SessionEvent, reason: str) -> NoReturn:
    """Raise ``EventRefused`` for ``event``."""
    raise EventRefused(event.type, reason, seq=event.seq)


def is_record(value: object) -> TypeGuard[dict[str, Any]]:
    """Tell whether ``value`` is a JSON object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Tell whether ``value`` is a JSON array."""
    return isinstance(value, list)


def is_count(value: object) -> bool:
    """Tell whether ``value`` is a whole number from 0 to 2^53-1; 1.0 is one, as -0 is not."""
    if isinstance(value, float):
        return value.is_integer() and 0 <= value <= MAX_INTEGER and math.copysign(1, value) > 0
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_INTEGER


def same(left: object, right: object) -> bool:
    """Tell whether two values are identical scalars; lists and objects never are, as they come from separate places."""
    if isinstance(left, (dict, list)) or isinstance(right, (dict, list)):
        return False
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def scalar(value: object) -> object:
    """Return a hashable stand-in that is equal exactly where ``same`` holds."""
    return object() if isinstance(value, (dict, list)) else (isinstance(value, bool), value)


def expect(event: SessionEvent, name: str, found: object, due: int) -> None:
    """Require that the number ``found`` is ``due``."""
    if found != due or isinstance(found, bool):
        refuse(event, f"{name} {due} is due, it names {found!r}")


def record(event: SessionEvent, value: object, what: str) -> dict[str, Any]:
    """Return ``value`` as an object."""
    if not isinstance(value, dict):
        refuse(event, f"its {what} is no object")
    return cast("dict[str, Any]", value)


def items(event: SessionEvent, value: object, what: str) -> list[Any]:
    """Return ``value`` as a list."""
    if not is_list(value):
        refuse(event, f"its {what} is no list")
    return value


def members(value: object) -> list[Any]:
    """Return the list, or an empty one for what is none."""
    return value if is_list(value) else []


def text(event: SessionEvent, value: object, what: str) -> str:
    """Return ``value`` as a string with content."""
    if not isinstance(value, str) or not value:
        refuse(event, f"its {what} is {value!r}, not a string with content")
    return value


def count(event: SessionEvent, value: object, what: str, *, least: int = 0) -> int:
    """Return ``value`` as a whole number from ``least`` on."""
    if not is_count(value) or cast("int", value) < least:
        refuse(event, f"its {what} is {value!r}, not a whole number from {least} on")
    return cast("int", value)


def earlier(event: SessionEvent, value: object, what: str) -> int:
    """Return ``value`` as the seq of an earlier event."""
    seq = count(event, value, what)
    if seq >= event.seq:
        refuse(event, f"its {what} is {seq}, which is no earlier event")
    return seq


def get(data: Mapping[str, Any], key: str) -> Any:
    """Return the member, or ``MISSING``."""
    return data.get(key, MISSING)
