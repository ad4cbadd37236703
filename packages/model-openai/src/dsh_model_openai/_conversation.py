"""From the log's messages to those of chat completions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dsh_agent import ModelRequest

Message = Mapping[str, Any]

_UNSPOKEN = frozenset({"reasoning", "tool-call", "tool-addition", "tool-removal"})
"""Blocks that are no part of a message's text: they travel in fields of their own, or with the tools."""


def request_body(request: ModelRequest, *, demands_reasoning: bool) -> dict[str, Any]:
    """Return the body of a streaming request. See ``OpenAIModel`` for ``demands_reasoning``."""
    turns = _turns(request.messages)
    messages = [chat for turn in turns for chat in _chat_turn(turn, request.route.provider, demands_reasoning)]
    body: dict[str, Any] = {
        "model": request.route.model,
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [_chat_tool(tool) for tool in request.tools]
    return body


def _turns(messages: Iterable[Message]) -> list[list[Message]]:
    """Split the conversation before each user message, which is what a provider takes for a turn."""
    turns: list[list[Message]] = [[]]
    for message in messages:
        if message["role"] == "user":
            turns.append([])
        turns[-1].append(message)
    return turns


def _chat_turn(turn: Sequence[Message], provider: str, demands_reasoning: bool) -> Iterator[dict[str, Any]]:  # noqa: FBT001
    """Yield a turn's messages.

    Reasoning goes back only within turns that called tools, where the model goes on from it: to a provider that refuses
    such turns without it, with every reply, be it empty; to another one where it is that provider's own.
    """
    has_calls = any(_blocks(message, "tool-call") for message in turn)
    for message in turn:
        if message["role"] != "assistant":
            yield from _chat_message(message)
            continue
        reasoning = "".join(block["text"] for block in _blocks(message, "reasoning"))
        is_own = bool(reasoning) and message["source"]["provider"] == provider
        sends = has_calls and (demands_reasoning or is_own)
        yield from _chat_reply(message, reasoning if sends else None)


def _chat_message(message: Message) -> Iterator[dict[str, Any]]:
    text = _text(message)
    match message["role"]:
        case "tool":
            yield {"role": "tool", "tool_call_id": message["toolCallId"], "content": text}
        case "user":
            yield {"role": "user", "content": text}
        case _:
            # A developer message that only adds or removes tools says what the request's tools say already.
            if text:
                yield {"role": "system", "content": text}


def _chat_reply(message: Message, reasoning: str | None) -> Iterator[dict[str, Any]]:
    text = _text(message)
    calls = [_chat_call(block) for block in _blocks(message, "tool-call")]
    if not text and not calls:  # an interrupted reply that got no further than its reasoning
        return
    chat: dict[str, Any] = {"role": "assistant", "content": text}
    if reasoning is not None:
        chat["reasoning_content"] = _encodable(reasoning)
    if calls:
        chat["tool_calls"] = calls
    yield chat


def _chat_call(block: Message) -> dict[str, Any]:
    # No text means no arguments; servers that parse it want an object.
    function = {"name": block["name"], "arguments": _encodable(block["arguments"]) or "{}"}
    return {"id": block["id"], "type": "function", "function": function}


def _chat_tool(tool: Message) -> dict[str, Any]:
    function = {key: tool[key] for key in ("name", "description", "parameters") if key in tool}
    return {"type": "function", "function": function}


def _blocks(message: Message, type: str) -> list[Message]:
    return [block for block in message["content"] if block["type"] == type]


def _text(message: Message) -> str:
    told = (_told(block) for block in message["content"] if block["type"] not in _UNSPOKEN)
    return _encodable("\n".join(told))


def _told(block: Message) -> str:
    """Return a block's text; what is none is named, so that the model knows what it does not see."""
    text: str = (
        block["text"] if block["type"] == "text" else f"[{block['type']} not shown: this model is sent text only]"
    )
    return text


def _encodable(text: str) -> str:
    """Return ``text`` as UTF-8 can carry it. Logs may hold halves of characters; each becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
