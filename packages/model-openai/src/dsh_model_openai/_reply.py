"""From the pieces of a streamed reply to the chunks of the model seam."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

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

from ._failure import Failure
from ._wire import CallDelta, CompletionDetails, Delta, FunctionDelta, Piece, PromptDetails, TokenCounts

_FINISHES = frozenset({"stop", "tool_calls", "length"})
_FAILURES = {
    "content_filter": ("CONTENT_FILTER", "the provider's content filter cut the reply; put the request in other words"),
    "insufficient_system_resource": ("SERVER", "the provider ran out of resources in the middle of the reply"),
}


@dataclass(slots=True, kw_only=True)
class _Block:
    """A block as it grows."""

    index: int
    type: str
    id: str = ""
    name: str = ""
    text: list[str] = field(default_factory=list[str])

    def whole(self) -> dict[str, Any]:
        text = "".join(self.text)
        if self.type != "tool-call":
            return {"type": self.type, "text": text}
        return {"type": self.type, "id": self.id, "name": self.name, "arguments": text}


class ChatReply:
    """One reply: a block of reasoning, a block of text and a block for each call, in the order they began.

    A chat message has one text and one reasoning however its pieces alternate, so there is one block of each, and no
    block is whole before the reply is.
    """

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._texts: dict[str, _Block] = {}
        self._calls: dict[int, _Block] = {}
        self._usage: dict[str, int] | None = None
        self._finish: str | None = None

    def take(self, piece: Piece) -> Iterator[StreamChunk]:
        """Yield what ``piece`` adds."""
        if piece.usage is not None:
            self._usage = _usage(piece.usage)
        for choice in piece.choices or ():
            if choice.index == 0:
                yield from self._take_delta(choice.delta or Delta())
                self._finish = choice.finish_reason or self._finish

    def end(self) -> Iterator[StreamChunk]:
        """Yield what closes the reply once the stream has ended, its ``Finish`` last."""
        failure = self._failure()
        if failure is None:
            for block in self._blocks:
                if block.type != "tool-call" or self._finish != "length":  # a cut reply may end inside a call
                    yield BlockEnd(index=block.index, block=block.whole())
        if self._usage is not None:
            yield Usage(usage=self._usage)
        yield Finish(
            reason={"kind": self._kind()} if failure is None else {"kind": "error", "failure": failure.to_log()}
        )

    def _take_delta(self, delta: Delta) -> Iterator[StreamChunk]:
        if delta.reasoning_content:
            block = yield from self._text_block("reasoning")
            block.text.append(delta.reasoning_content)
            yield ReasoningDelta(index=block.index, text=delta.reasoning_content)
        if delta.content:
            block = yield from self._text_block("text")
            block.text.append(delta.content)
            yield TextDelta(index=block.index, text=delta.content)
        for call in delta.tool_calls or ():
            yield from self._take_call(call)

    def _text_block(self, type: str) -> Generator[StreamChunk, None, _Block]:
        if type not in self._texts:
            self._texts[type] = yield from self._open(type)
        return self._texts[type]

    def _take_call(self, delta: CallDelta) -> Iterator[StreamChunk]:
        block = self._calls.get(delta.index)
        # Some servers give every call the same index; a second id is a second call all the same.
        if block is None or (delta.id and block.id and delta.id != block.id):
            block = self._calls[delta.index] = yield from self._open("tool-call")
        function = delta.function or FunctionDelta()
        block.id = block.id or delta.id or ""
        block.name += function.name or ""
        if function.arguments:  # until the arguments begin, more of the name may come
            block.text.append(function.arguments)
            yield ToolCallDelta(
                index=block.index, id=block.id, name=block.name or None, arguments_delta=function.arguments
            )

    def _open(self, type: str) -> Generator[StreamChunk, None, _Block]:
        block = _Block(index=len(self._blocks), type=type)
        self._blocks.append(block)
        yield BlockStart(index=block.index, block_type=type)
        return block

    def _kind(self) -> str:
        """Return the finish as it is: servers report a stop after calls, and calls where there are none."""
        if self._finish == "length":
            return "max-tokens"
        return "tool-calls" if any(block.type == "tool-call" for block in self._blocks) else "stop"

    def _failure(self) -> Failure | None:
        """Return why the reply does not count, if it does not."""
        if self._finish is None:
            return Failure(code="TRANSPORT", message="the model's reply ended before it was finished; ask again")
        if self._finish in _FAILURES:
            code, message = _FAILURES[self._finish]
            return Failure(code=code, message=message)
        if self._finish not in _FINISHES:
            return _malformed(f"the reply ended for {self._finish!r}, which is no known reason")
        return None if self._finish == "length" else self._content_failure()

    def _content_failure(self) -> Failure | None:
        if not self._blocks:
            return Failure(code="EMPTY_RESPONSE", message="the model returned no content; ask again")
        if any(block.type == "tool-call" and not (block.id and block.name) for block in self._blocks):
            return _malformed("the reply holds a tool call without an id or a name")
        return None


def _malformed(what: str) -> Failure:
    return Failure(
        code="MALFORMED_RESPONSE", message=f"{what}; the server may not speak chat completions as OpenAI does"
    )


def _usage(counts: TokenCounts) -> dict[str, int]:
    """Return disjoint counts, as the log keeps them; reasoning alone is a part of the output (GENERATIONS §9)."""
    prompt, output = counts.prompt_tokens or 0, counts.completion_tokens or 0
    details = counts.prompt_tokens_details or PromptDetails()
    cached = counts.prompt_cache_hit_tokens if details.cached_tokens is None else details.cached_tokens
    reasoning = (counts.completion_tokens_details or CompletionDetails()).reasoning_tokens
    usage = {"inputTokens": max(0, prompt - (cached or 0)), "outputTokens": output}
    if cached is not None:
        usage["cacheReadTokens"] = cached
    if reasoning is not None:
        usage["reasoningTokens"] = reasoning
    return {**usage, "totalTokens": usage["inputTokens"] + output + (cached or 0)}
