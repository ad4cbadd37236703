"""From a stream of chunks to the message that the log keeps."""

from __future__ import annotations

from typing import Any

from dsh_session import (
    BlockEnd,
    Finish,
    ReasoningDelta,
    StreamChunk,
    StreamRecorder,
    TextDelta,
    ToolCallDelta,
    Usage,
)


class Reply:
    """A model's reply as it arrives."""

    def __init__(self) -> None:
        self._recorder = StreamRecorder()
        self._blocks: dict[int, dict[str, Any]] = {}
        self._whole: set[int] = set()
        self.usage: dict[str, int] | None = None
        self.finish: Finish | None = None

    def add(self, chunk: StreamChunk, time: int) -> None:
        """Take a chunk that arrived at ``time`` (Unix epoch milliseconds); the first finish ends the reply."""
        if self.finish is not None:
            return
        self._recorder.add(chunk, time)
        match chunk:
            case TextDelta():
                self._extend(chunk.index, {"type": "text", "text": ""}, "text", chunk.text)
            case ReasoningDelta():
                self._extend(chunk.index, {"type": "reasoning", "text": ""}, "text", chunk.text)
            case ToolCallDelta():
                empty = {"type": "tool-call", "id": chunk.id, "name": chunk.name or "", "arguments": ""}
                self._extend(chunk.index, empty, "arguments", chunk.arguments_delta)
            case BlockEnd():
                self._blocks[chunk.index] = chunk.block
                self._whole.add(chunk.index)
            case Usage():
                self.usage = chunk.usage
            case Finish():
                self.finish = chunk
            case _:
                pass

    @property
    def stream(self) -> list[dict[str, Any]]:
        """The records of the stream, for the log."""
        return self._recorder.records

    def content(self, *, with_calls: bool) -> list[dict[str, Any]]:
        """Return the blocks in order; without calls for a reply that was cut before they could count."""
        return [
            block
            for index, block in sorted(self._blocks.items())
            if block["type"] != "tool-call" or (with_calls and index in self._whole)
        ]

    def _extend(self, index: int, empty: dict[str, Any], key: str, more: str) -> None:
        block = self._blocks.setdefault(index, empty)
        block[key] += more
