"""A call's arguments: from the model's text to checked values (BEHAVIOUR §5.1, §6.3)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, cast

from .errors import ToolError

_IS_TYPE: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
}


def decode_arguments(text: str) -> Any:
    """Return the value of the model's argument text; no text means no arguments, and text that is no JSON is itself."""
    if not text:
        return {}
    try:
        return json.loads(text)
    except ValueError:
        return text


def check_arguments(parameters: Mapping[str, Any], arguments: Any) -> dict[str, Any]:
    """Return ``arguments`` if they fit the schema's required and typed properties; others pass through unchecked.

    Raises ``ToolError`` with code ``INVALID_ARGS``.
    """
    if not isinstance(arguments, dict):
        raise _invalid('"arguments" must be an object')
    given = cast("dict[str, Any]", arguments)
    for name in parameters.get("required", ()):
        if name not in given:
            raise _invalid(f'missing required property "{name}"')
    for name, schema in parameters.get("properties", {}).items():
        if name in given and not _IS_TYPE[schema["type"]](given[name]):
            raise _invalid(f'"{name}" must be a {schema["type"]}')
    return given


def _invalid(reason: str) -> ToolError:
    return ToolError(f"invalid arguments: {reason}", name="ToolArgsError", code="INVALID_ARGS")
