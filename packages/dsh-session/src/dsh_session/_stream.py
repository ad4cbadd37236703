"""What a model streams, and how a message keeps it (FORMAT §8, GENERATIONS §3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec


class _Chunk(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", rename="camel", omit_defaults=True):
    """A piece of a model's reply; ``index`` is the block it belongs to."""


class BlockStart(_Chunk, frozen=True, kw_only=True, tag="block-start"):
    """A block of content begins."""

    index: int
    block_type: str


class TextDelta(_Chunk, frozen=True, kw_only=True, tag="text-delta"):
    """More text."""

    index: int
    text: str


class ReasoningDelta(_Chunk, frozen=True, kw_only=True, tag="reasoning-delta"):
    """More of the model's reasoning."""

    index: int
    text: str


class ToolCallDelta(_Chunk, frozen=True, kw_only=True, tag="tool-call-delta"):
    """More of a tool call's arguments, which are JSON text as the model writes it."""

    index: int
    id: str
    name: str | None = None
    arguments_delta: str


class BlockEnd(_Chunk, frozen=True, kw_only=True, tag="block-end"):
    """A block of content is whole; ``block`` is it."""

    index: int
    block: dict[str, Any]


class Usage(_Chunk, frozen=True, kw_only=True, tag="usage"):
    """Token counts; comes before ``Finish``."""

    usage: dict[str, int]


class Finish(_Chunk, frozen=True, kw_only=True, tag="finish"):
    """The end: ``reason.kind`` is stop, tool-calls, max-tokens, aborted or error (with a ``failure``)."""

    reason: dict[str, Any]
    replay_state: Any = None
    """What the provider wants to see again with this message; opaque."""


StreamChunk: TypeAlias = BlockStart | TextDelta | ReasoningDelta | ToolCallDelta | BlockEnd | Usage | Finish

_Delta: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta


class StreamRecorder:
    """Gathers chunks with their times into the records an assistant message keeps as ``stream``.

    Neighbouring deltas of one block become one record; everything else stays a chunk of its own.
    """

    def __init__(self) -> None:
        self._records: list[dict[str, Any]] = []
        self._run: tuple[object, ...] | None = None
        self._last_time = 0

    def add(self, chunk: StreamChunk | Mapping[str, Any], time: int) -> None:
        """Record ``chunk``, which arrived at ``time`` (Unix epoch milliseconds); an object is kept as it is."""
        run = None
        if isinstance(chunk, _Delta) and not _lacks_identity(chunk):
            run = _run_of(chunk)
            if run != self._run:
                self._records.append(_row(chunk, time))
            else:
                self._records[-1]["dt"].append(time - self._last_time)
            _payload_list(self._records[-1]).append(
                chunk.arguments_delta if isinstance(chunk, ToolCallDelta) else chunk.text
            )
        else:
            self._records.append({"type": "chunk", "time": time, "chunk": msgspec.to_builtins(chunk)})
        self._run = run
        self._last_time = time

    @property
    def records(self) -> list[dict[str, Any]]:
        """The records so far; treat them as read-only."""
        return self._records


def _lacks_identity(chunk: _Delta) -> bool:
    """Readers demand a call id and a name, where there is one, of every packed record."""
    return isinstance(chunk, ToolCallDelta) and (not chunk.id or chunk.name == "")


def _run_of(chunk: _Delta) -> tuple[object, ...]:
    """What two deltas must share to stand in one record."""
    if isinstance(chunk, ToolCallDelta):
        return ("tool-call-chunks", chunk.index, chunk.id, chunk.name)
    return ("text-chunks" if isinstance(chunk, TextDelta) else "reasoning-chunks", chunk.index)


def _row(chunk: _Delta, time: int) -> dict[str, Any]:
    record: dict[str, Any] = {"type": _run_of(chunk)[0], "time0": time, "index": chunk.index, "dt": []}
    if not isinstance(chunk, ToolCallDelta):
        return {**record, "texts": []}
    record["id"] = chunk.id
    if chunk.name is not None:
        record["name"] = chunk.name
    return {**record, "args": []}


def _payload_list(record: dict[str, Any]) -> list[str]:
    payload: list[str] = record["args" if "args" in record else "texts"]
    return payload
