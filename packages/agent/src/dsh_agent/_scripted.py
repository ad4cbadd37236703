"""A model that answers from a script: keyless, deterministic, enough to drive every path of the loop."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from dsh_session import (
    BlockEnd,
    BlockStart,
    Finish,
    ReasoningDelta,
    StreamChunk,
    TextDelta,
    ToolCallDelta,
    Usage,
)

from ._model import ModelRequest, ModelRoute
from .errors import ScriptInvalid

_WORDS = re.compile(r"\S+\s*|\s+")


class ScriptedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool call of a scripted reply."""

    name: str
    arguments: dict[str, Any] | str
    """An object, or the text a model would have written in its place, valid or not."""


class ScriptedReply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One reply: some text, then some calls, or a failure."""

    reasoning: str = ""
    """What the model thinks before it speaks."""
    text: str = ""
    tools: list[ScriptedCall] = []
    usage: dict[str, int] | None = None
    delay_ms: float = 0
    """How long the model waits before it answers."""
    finish: Literal["stop", "tool-calls", "max-tokens"] | None = None
    """How the reply ends; None: as its calls say."""
    fail: str | None = None
    """Ends the reply, after its text, in an error with this message."""
    code: str = "SCRIPTED"
    """The error's code; loops retry some, such as ``RATE_LIMIT``."""
    status: int | None = None
    """The error's HTTP status."""
    retry_after_ms: float | None = None
    """How long the provider asks to be left alone."""


class ScriptedModel:
    """Answers each request with the next reply of its script, word by word."""

    route = ModelRoute(provider="scripted", model="scripted")

    def __init__(self, replies: Sequence[ScriptedReply]) -> None:
        self._replies = tuple(replies)
        self._asked = 0

    @classmethod
    def from_replies(cls, replies: Sequence[Mapping[str, Any]], *, where: str = "list") -> ScriptedModel:
        """Return a model for plain replies. Raises ``ScriptInvalid``; ``where`` names the source in it."""
        try:
            return cls(msgspec.convert(list(replies), type=list[ScriptedReply]))
        except msgspec.ValidationError as error:
            raise ScriptInvalid(where, f"is no list of replies: {error}") from None

    @classmethod
    def from_json(cls, text: str | bytes, *, where: str = "text") -> ScriptedModel:
        """Return a model for a JSON list of replies. Raises ``ScriptInvalid``; ``where`` names the source in it."""
        try:
            return cls(msgspec.json.decode(text, type=list[ScriptedReply]))
        except msgspec.DecodeError as error:
            raise ScriptInvalid(where, f"is no list of replies: {error}") from None

    @classmethod
    def from_file(cls, path: str | Path) -> ScriptedModel:
        """Return a model for a file of replies. Raises ``ScriptInvalid``."""
        try:
            return cls.from_json(Path(path).read_bytes(), where=str(path))
        except OSError as error:
            raise ScriptInvalid(str(path), f"cannot be read: {error.strerror}") from error

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamChunk]:
        """Yield the next reply. Asked once too often, it fails with the code ``SCRIPT_ENDED``."""
        self._asked += 1
        if self._asked > len(self._replies):
            yield _failure(
                f"the model script ended: reply {self._asked} was asked for, and it has {len(self._replies)}; add one",
                "SCRIPT_ENDED",
            )
            return
        reply = self._replies[self._asked - 1]
        await asyncio.sleep(reply.delay_ms / 1000)
        for chunk in _reply_chunks(reply, f"call-{len(request.messages)}"):
            yield chunk


def _reply_chunks(reply: ScriptedReply, prefix: str) -> Iterator[StreamChunk]:
    index = 0
    for kind, text in (("reasoning", reply.reasoning), ("text", reply.text)):
        if text:
            yield BlockStart(index=index, block_type=kind)
            for word in _WORDS.findall(text):
                yield (
                    ReasoningDelta(index=index, text=word) if kind == "reasoning" else TextDelta(index=index, text=word)
                )
            yield BlockEnd(index=index, block={"type": kind, "text": text})
            index += 1
    if reply.fail is not None:
        yield _failure(reply.fail, reply.code, status=reply.status, providerRetryAfterMs=reply.retry_after_ms)
        return
    for number, call in enumerate(reply.tools, start=1):
        yield from _call_chunks(call, index, f"{prefix}-{number}")
        index += 1
    if reply.usage is not None:
        yield Usage(usage=reply.usage)
    yield Finish(reason={"kind": reply.finish or ("tool-calls" if reply.tools else "stop")})


def _call_chunks(call: ScriptedCall, index: int, call_id: str) -> list[StreamChunk]:
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)
    block = {"type": "tool-call", "id": call_id, "name": call.name, "arguments": arguments}
    return [
        BlockStart(index=index, block_type="tool-call"),
        ToolCallDelta(index=index, id=call_id, name=call.name, arguments_delta=arguments),
        BlockEnd(index=index, block=block),
    ]


def _failure(message: str, code: str, **more: float | None) -> Finish:
    known = {key: value for key, value in more.items() if value is not None}
    return Finish(reason={"kind": "error", "failure": {"message": message, "code": code, **known}})
