from __future__ import annotations

import decimal
import enum
import json
import math
import pathlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_session import DataNotLossless, decode_json, encode_data

LIMIT = 2**53 - 1
CYCLE: list[Any] = []
CYCLE.append({"self": CYCLE})


def nested(depth: int, leaf: object = None) -> object:
    value = leaf
    for _ in range(depth):
        value = [value]
    return value


class Colour(enum.Enum):
    RED = "red"


REFUSED = {
    "nan": ({"loss": math.nan}, "$.loss"),
    "inf": ({"a": [1, math.inf]}, "$.a[1]"),
    "minus-inf": ({"nested": [{"x": -math.inf}]}, "$.nested[0].x"),
    "minus-zero": ({"a": {"b": -0.0}}, "$.a.b"),
    "big-int": ({"n": LIMIT + 1}, "$.n"),
    "small-int": ({"n": [-LIMIT - 1]}, "$.n[0]"),
    "huge-int": ({"n": 10**40}, "$.n"),
    "int-key": ({"a": {1: "x"}}, "$.a"),
    "none-key": ({None: 1}, "$"),
    "tuple": ({"args": (1, 2)}, "$.args"),
    "bytes": ({"b": b"x"}, "$.b"),
    "bytearray": ({"b": bytearray(b"x")}, "$.b"),
    "set": ({"s": {1}}, "$.s"),
    "object": ({"o": object()}, "$.o"),
    "path": ({"p": pathlib.PurePosixPath("/a")}, "$.p"),
    "decimal": ({"d": decimal.Decimal(1)}, "$.d"),
    "enum": ({"e": Colour.RED}, "$.e"),
    "complex": ({"c": 1j}, "$.c"),
    "cycle": ({"c": CYCLE}, "$.c[0].self"),
    "tuple-beside-a-surrogate": ({"s": "\ud800", "t": (1,)}, "$.t"),
    "nan-beside-a-surrogate": ({"s": "\ud800", "n": math.nan}, "$.n"),
    "minus-zero-beside-a-surrogate": ({"s": "\ud800", "n": -0.0}, "$.n"),
    "int-key-beside-a-surrogate": ({"s": "\ud800", 1: 2}, "$"),
    "split-pair": ({"s": "\ud83d\ude00"}, "$.s"),
}


@pytest.mark.parametrize(("value", "path"), REFUSED.values(), ids=REFUSED.keys())
def test_refuses_what_would_not_come_back(value: object, path: str) -> None:
    """FORMAT §1: what JSON would change is refused before anything is stored, naming event type and JSON path."""
    with pytest.raises(DataNotLossless) as caught:
        encode_data("tool/result", value)
    assert (caught.value.type, caught.value.path) == ("tool/result", path)
    assert "'tool/result'" in str(caught.value)
    assert path in str(caught.value)


@pytest.mark.parametrize("leaf", [None, "-0", "\ud800"], ids=["plain", "suspicious", "surrogate"])
def test_refuses_deep_nesting(leaf: object) -> None:
    """Data nested deeper than can be decoded again is refused like everything else; how deep depends on Python."""
    with pytest.raises(DataNotLossless) as caught:
        encode_data("t", nested(100_000, leaf))
    assert caught.value.reason == "data at $ is nested too deeply"


@pytest.mark.parametrize("leaf", [None, "-0", "\ud800"], ids=["plain", "suspicious", "surrogate"])
@pytest.mark.parametrize("below", [300, 600, 850])
def test_a_full_stack_is_no_other_error(below: int, leaf: object) -> None:
    """However little of the stack is left, data is encoded or refused; a recursion error never escapes."""

    def call(frames: int, depth: int) -> bytes | None:
        if frames:
            return call(frames - 1, depth)
        try:
            return encode_data("t", nested(depth, leaf))
        except DataNotLossless:
            return None

    found = [call(below, depth) for depth in range(20, 400, 19)]
    assert found[0] is not None


@pytest.mark.parametrize("value", [LIMIT, -LIMIT, 0, 1.5, 1e300, True, None, "-0", "1234567890123456", "\x00", {}, []])
def test_accepts_the_edges(value: object) -> None:
    """The largest exact integers, text that looks like a refused number, and empty containers are fine."""
    assert decode_json(encode_data("t", value)) == value


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("\ud800", rb'"\ud800"'),
        ("x\ud83d…", '"x\\ud83d…"'.encode()),
        ("\udc9f", rb'"\udc9f"'),
        ("\ud800\ud800", rb'"\ud800\ud800"'),
    ],
)
def test_lone_surrogates_are_escaped(text: str, encoded: bytes) -> None:
    r"""FORMAT §1: half a surrogate pair is written as a lower-case ``\udXXX`` escape and reads back equal."""
    assert encode_data("t", text) == encoded
    assert decode_json(encoded) == text


def test_bytes_are_those_of_javascript() -> None:
    """FORMAT §1: compact, insertion order, non-ASCII and U+2028 raw, short escapes, lower-case hex."""
    value = {"b": 1, "a": "é\u2028\x7f😀", "c": '\b\f\n\r\t\x0b\x1f"\\/'}
    expected = '{"b":1,"a":"é\u2028\x7f😀","c":"\\b\\f\\n\\r\\t\\u000b\\u001f\\"\\\\/"}'
    assert encode_data("t", value) == expected.encode()


TEXTS = st.text(st.characters(exclude_categories=())).filter(
    lambda text: text == text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-LIMIT, LIMIT)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: x != 0 or math.copysign(1, x) > 0)
    | TEXTS
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=20)


@given(VALUES)
def test_round_trip(value: object) -> None:
    """Every JSON value comes back equal, and of the same types, as whichever reader sees it."""
    encoded = encode_data("t", value)
    assert b"\n" not in encoded
    assert decode_json(encoded) == value
    assert repr(json.loads(encoded)) == repr(value)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"NaN", b"-Infinity", b"\xef\xbb\xbf{}", "{}".encode("utf-16"), b'"\xff"', b"[" * 5_000]
)
def test_decoding_refuses_with_value_error(text: bytes) -> None:
    """What is no JSON in UTF-8 raises ``ValueError``: no constant, no byte order mark, no recursion error."""
    with pytest.raises(ValueError):
        decode_json(text)
