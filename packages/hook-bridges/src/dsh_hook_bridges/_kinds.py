"""Kinds of JSON values, as foreign text may hold any of them."""

from __future__ import annotations

import re
from typing import Any, Final, TypeGuard

LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""What JSON can say and no byte can: half a character. Two that follow each other are no character here either."""
_SHOWN_CHARACTERS: Final = 80
_SHOWN_INTEGER: Final = 10**12


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Tell whether it is an array."""
    return isinstance(value, list)


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Tell whether it is an object."""
    return isinstance(value, dict)


def kind_of(value: object) -> str:
    """Return what people call it."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case dict():
            return "an object"
        case list():
            return "an array"
        case str():
            return "text"
        case _:
            return "a number"


def shown(value: object) -> str:
    """Return a value as a message has it; of what is long its beginning, of what is deep or huge only its kind."""
    match value:
        case str():
            return repr(value if len(value) <= _SHOWN_CHARACTERS else f"{value[:_SHOWN_CHARACTERS]}…")
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value)
        case int() if abs(value) < _SHOWN_INTEGER:
            return repr(value)
        case _:
            return kind_of(value)


def printable(text: str) -> str:
    """Return a text that can be shown on one line; what is no printable character stands there by its code."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
