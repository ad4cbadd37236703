"""JSON that survives: encode once with proof, decode whatever a harness wrote (FORMAT §1)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn, cast

import msgspec

from .errors import DataNotLossless

MAX_INTEGER = 2**53 - 1
"""The largest magnitude of an integer that JavaScript keeps exact."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

_LONG_NUMBER = b"0" * 16
# With all digits alike a plain search finds a run of them, twenty times as fast as a regular expression.
_DIGITS_ALIKE = bytes(ord("0") if byte in b"0123456789" else byte for byte in range(256))
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPLIT_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def encode_data(type: str, value: object) -> bytes:
    r"""Return ``value`` as compact JSON bytes, proven to decode to an equal value.

    Raises ``DataNotLossless``, naming the place, for whatever would not come back: NaN and infinities, -0.0, integers
    beyond ±(2^53-1), non-string keys, tuples, bytes, sets, objects, cycles. Lone surrogates are written as ``\udXXX``.
    """
    try:
        encoded = _encode(value)
        survived = _decode(encoded) == value
    except UnicodeEncodeError:
        encoded, survived = _encode_surrogates(type, value)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        _refuse(type, value)
    if not survived:
        _refuse(type, value)
    # Equality sees neither the sign of zero nor a lost digit, so bytes that could hold either are walked as well.
    suspicious = b"-0" in encoded or _LONG_NUMBER in encoded.translate(_DIGITS_ALIKE)
    if suspicious and (problem := _first_problem(value)):
        raise DataNotLossless(type, *problem)
    return encoded


def decode_json(encoded: bytes) -> Any:
    r"""Return the value of one JSON document. Raises ``ValueError`` when it is none.

    msgspec refuses a lone ``\udXXX`` escape, which JavaScript writes and the standard library reads.
    """
    try:
        try:
            return _decode(encoded)
        except msgspec.DecodeError:
            import json  # noqa: PLC0415  # for the rare value only, and it takes long to load

            # As text: given bytes, the standard library would guess at UTF-16 and pass over a byte order mark.
            return json.loads(encoded.decode(), parse_constant=_no_constant)
    except RecursionError:
        msg = "it is nested too deeply to be decoded here"
        raise ValueError(msg) from None


def _no_constant(token: str) -> NoReturn:
    msg = f"{token} is not JSON"
    raise ValueError(msg)


def _encode_surrogates(type: str, value: object) -> tuple[bytes, bool]:
    import json  # noqa: PLC0415  # for the rare value only, and it takes long to load

    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        _refuse(type, value)
    encoded = _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()
    try:
        return encoded, json.loads(encoded) == value
    except RecursionError:
        _refuse(type, value)


def _refuse(type: str, value: object) -> NoReturn:
    path, reason = _first_problem(value) or ("$", "does not survive encoding and decoding")
    raise DataNotLossless(type, path, reason) from None


def _first_problem(value: object) -> tuple[str, str] | None:
    try:
        return next(_problems(value), None)
    except RecursionError:
        return "$", "is nested too deeply"


def _problems(value: object, path: str = "$", above: tuple[int, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yield (JSON path, reason) of everything in ``value`` that JSON would change, in document order."""
    match value:
        case None | bool():
            return
        case str():
            if _SPLIT_PAIR.search(value):
                yield path, "holds a surrogate pair as two characters; join them into one"
        case int():
            if abs(value) > MAX_INTEGER:
                yield path, "is an integer beyond ±(2^53-1); pass it as a string"
        case float():
            yield from _float_problems(value, path)
        case dict() | list():
            members = cast("dict[object, object] | list[object]", value)
            if id(members) in above:
                yield path, "refers back to itself"
                return
            for place, item in _members(members, path):
                if place is None:
                    yield path, f"has the key {item!r}, which is no string"
                else:
                    yield from _problems(item, place, (*above, id(members)))
        case _:
            kind = value.__class__.__name__
            yield path, f"is a {kind}, which JSON does not know; convert it to a list, dict, string or number"


def _members(value: dict[object, object] | list[object], path: str) -> Iterator[tuple[str | None, object]]:
    """Yield (JSON path, member); for a key that is no string (None, key)."""
    if isinstance(value, list):
        yield from ((f"{path}[{index}]", item) for index, item in enumerate(value))
        return
    for key, item in value.items():
        yield (f"{path}.{key}", item) if isinstance(key, str) else (None, key)


def _float_problems(value: float, path: str) -> Iterator[tuple[str, str]]:
    if not math.isfinite(value):
        yield path, f"is {value}, which JSON cannot hold"
    elif value == 0 and math.copysign(1, value) < 0:
        yield path, "is -0.0, which JSON readers turn into 0"
