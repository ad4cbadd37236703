"""Kinds of JSON values, as foreign text may hold any of them."""

from __future__ import annotations

from typing import Any, TypeGuard


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
