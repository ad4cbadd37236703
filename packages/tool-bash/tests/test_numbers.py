from __future__ import annotations

import json
import math

import pytest

from dsh_tool_bash._numbers import is_positive, json_number


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (-5, "-5"), (-5.0, "-5"), (0.5, "0.5"), (-0.0, "0"), (math.inf, "null"), (math.nan, "null"),
     (-(10**400), "null"), (-2.5e300, "-2.5e+300")],
)  # fmt: skip
def test_json_number(value: float, text: str) -> None:
    """5.4: a number is told as JSON.stringify tells it."""
    assert json_number(value) == text
    json.loads(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, True), (0.001, True), (0, False), (-1, False), (math.inf, False), (math.nan, False), (10**400, False)],
)
def test_is_positive(value: float, expected: bool) -> None:
    """5.4: positive and finite, also for an int that no float can hold."""
    assert is_positive(value) is expected
