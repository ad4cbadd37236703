"""JSON that survives: encode once with proof, decode whatever a harness wrote (FORMAT §1)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import msgspec

from .errors import DataNotLossless

MAX_INTEGER = 2**53 - 1
"""The largest magnitude of an integer that JavaScript keeps exact."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

# Equality sees neither the sign of zero nor a lost digit, so bytes that could hold either are walked as well.
_SUSPICIOUS = re.compile(rb"-0|\d{16}")
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
    if _SUSPICIOUS.search(encoded):
        for path, reason in _problems(value):
            raise DataNotLossless(type, path, reason)
    return encoded


def decode_json(encoded: bytes) -> Any:
    r"""Return the value of one JSON document. Raises ``ValueError`` when it is none.

    msgspec refuses a lone ``\udXXX`` escape, which JavaScript writes and the standard library reads.
    """
    try:
        try:
            return _decode(encoded)
        except msgspec.DecodeError:
            # As text: given bytes, the standard library would guess at UTF-16 and pass over a byte order mark.
            return json.loads(encoded.decode(), parse_constant=_no_constant)
    except RecursionError:
        msg = "it is nested too deeply to be decoded here"
        raise ValueError(msg) from None


def _no_constant(token: str) -> NoReturn:
    msg = f"{token} is not JSON"
    raise ValueError(msg)


def _encode_surrogates(type: str, value: object) -> tuple[bytes, bool]:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        _refuse(type, value)
    encoded = _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()
    return encoded, json.loads(encoded) == value


def _refuse(type: str, value: object) -> NoReturn:
    try:
        path, reason = next(_problems(value), ("$", "does not survive encoding and decoding"))
    except RecursionError:
        path, reason = "$", "is nested too deeply"
    raise DataNotLossless(type, path, reason) from None


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
            if id(value) in above:
                yield path, "refers back to itself"
                return
            above = (*above, id(value))
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                if isinstance(value, dict) and not isinstance(key, str):
                    yield path, f"has the key {key!r}, which is no string"
                    continue
                yield from _problems(item, f"{path}.{key}" if isinstance(value, dict) else f"{path}[{key}]", above)
        case _:
            kind = value.__class__.__name__
            yield path, f"is a {kind}, which JSON does not know; convert it to a list, dict, string or number"


def _float_problems(value: float, path: str) -> Iterator[tuple[str, str]]:
    if not math.isfinite(value):
        yield path, f"is {value}, which JSON cannot hold"
    elif value == 0 and math.copysign(1, value) < 0:
        yield path, "is -0.0, which JSON readers turn into 0"
