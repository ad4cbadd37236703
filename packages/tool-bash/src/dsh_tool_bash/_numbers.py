"""Numbers as the wire writes them."""

from __future__ import annotations

import json
import math

_PLAIN_LIMIT = 1e21  # from here on JSON.stringify writes an exponent


def is_positive(value: float) -> bool:
    """Tell whether ``value`` is a positive number that a float can hold."""
    try:
        return math.isfinite(value) and value > 0
    except OverflowError:  # an int beyond every float; JSON.parse reads it as infinity
        return False


def plain(value: float) -> float:
    """Return a whole number as an int, so that 100.0 is written as 100."""
    return int(value) if abs(value) < _PLAIN_LIMIT and value == int(value) else value


def json_number(value: float) -> str:
    """Return ``value`` as ``JSON.stringify`` writes it: whole without a fraction, and null for what JSON cannot say."""
    try:
        return json.dumps(plain(value)) if math.isfinite(value) else "null"
    except OverflowError:
        return "null"
