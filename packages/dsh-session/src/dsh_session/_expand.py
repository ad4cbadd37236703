"""A lens over the stream an assistant message or attempt keeps: records back into timed chunks (GENERATIONS §3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn, cast

import msgspec

from ._json import MAX_INTEGER
from ._stream import ReasoningDelta, StreamChunk, TextDelta, ToolCallDelta
from .errors import StreamInvalid

_TEXT_KEYS = {"type", "time0", "index", "dt", "texts"}
_CALL_KEYS = {"type", "time0", "index", "dt", "id", "args"}


def expand_stream(records: Iterable[object]) -> Iterator[tuple[StreamChunk | Mapping[str, Any], int]]:
    """Yield each chunk with the time at which it arrived, in Unix epoch milliseconds.

    A chunk of an unknown kind, or with members of its own, comes as the object it was recorded as. Raises
    ``StreamInvalid`` at a record without exactly its keys and shapes; harnesses read such a log, so its event is valid.
    """
    for position, record in enumerate(records):
        if not isinstance(record, dict):
            _refuse(position, "is no object")
        yield from _expand(position, cast("dict[str, Any]", record))


def _expand(position: int, record: dict[str, Any]) -> Iterator[tuple[StreamChunk | Mapping[str, Any], int]]:
    match record.get("type"):
        case "chunk":
            if record.keys() != {"type", "time", "chunk"} or not isinstance(record["chunk"], dict):
                _refuse(position, "is no chunk with a time")
            yield _typed(cast("dict[str, Any]", record["chunk"])), _integer(position, record["time"], "time")
        case "text-chunks" | "reasoning-chunks" as kind:
            if record.keys() != _TEXT_KEYS:
                _refuse(position, f"does not have exactly the keys of {kind}")
            make = TextDelta if kind == "text-chunks" else ReasoningDelta
            for text, time in _members(position, record, record["texts"]):
                yield make(index=record["index"], text=text), time
        case "tool-call-chunks":
            if record.keys() - {"name"} != _CALL_KEYS:
                _refuse(position, "does not have exactly the keys of tool-call-chunks")
            for key in record.keys() & {"id", "name"}:
                if not isinstance(record[key], str) or not record[key]:
                    _refuse(position, f"has the {key} {record[key]!r}")
            id, name = record["id"], record.get("name")
            for arguments, time in _members(position, record, record["args"]):
                yield ToolCallDelta(index=record["index"], id=id, name=name, arguments_delta=arguments), time
        case other:
            _refuse(position, f"is of the unknown type {other!r}")


def _members(position: int, record: dict[str, Any], payload: object) -> Iterator[tuple[str, int]]:
    """Yield each member with its time: that of the one before and the gap between them."""
    members, gaps = _list(position, payload), _list(position, record["dt"])
    if not members or len(gaps) != len(members) - 1:
        _refuse(position, f"has {len(members)} members and {len(gaps)} gaps between them")
    if _integer(position, record["index"], "index") < 0:
        _refuse(position, "has a negative index")
    time = _integer(position, record["time0"], "time0")
    for number, member in enumerate(members):
        if number:
            time = _integer(position, time + _integer(position, gaps[number - 1], "gap"), "time")
        if not isinstance(member, str):
            _refuse(position, f"has the member {member!r}")
        yield member, time


def _list(position: int, value: object) -> list[object]:
    if not isinstance(value, list):
        _refuse(position, "has members or gaps that are no list")
    return cast("list[object]", value)


def _integer(position: int, value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MAX_INTEGER:
        _refuse(position, f"has the {what} {value!r}, which is no whole number")
    return value


def _typed(chunk: dict[str, Any]) -> StreamChunk | Mapping[str, Any]:
    """Return the chunk as a value, if that says all that the chunk says."""
    try:
        typed = msgspec.convert(chunk, StreamChunk)
    except msgspec.ValidationError:
        return chunk
    return cast("StreamChunk", typed) if msgspec.to_builtins(typed) == chunk else chunk


def _refuse(position: int, reason: str) -> NoReturn:
    raise StreamInvalid(position, reason)
