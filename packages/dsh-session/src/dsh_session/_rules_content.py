"""Messages and content blocks: the shapes without which the whole log is refused (FORMAT §4.4, GENERATIONS §5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._event import SessionEvent
from ._rules_check import count, is_record, items, members, record, refuse, text

_TOOL_CHANGES = ("tool-addition", "tool-removal")
_MEDIA_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")


def check_message(
    event: SessionEvent, message: object, *, role: str, source: str | None = None
) -> tuple[dict[str, Any], list[Any]]:
    """Check what all messages share and return the message and its content; ``source`` is the one kind allowed."""
    found = record(event, message, "message")
    if found.get("role") != role:
        refuse(event, f"its role is {found.get('role')!r}, not {role!r}")
    text(event, found.get("id"), "message id")
    content = items(event, found.get("content"), "content")
    if None in content:
        refuse(event, "its content holds null, which no harness survives")
    check_content(event, content, developer=role == "developer")
    kind = source_kind(event, found)
    if source is not None and kind != source:
        refuse(event, f"its source kind is {kind!r}, not {source!r}")
    if role == "assistant":
        for key in ("provider", "model"):
            text(event, found["source"].get(key), f"source's {key}")
    return found, content


def source_kind(event: SessionEvent, message: Mapping[str, Any]) -> str:
    """Return who produced the message."""
    kind = record(event, message.get("source"), "source").get("kind")
    if not isinstance(kind, str) or not kind or kind == "plugin":
        refuse(event, f"its source kind is {kind!r}; a producer names itself, plugins as plugin:<name>")
    return kind


def check_content(event: SessionEvent, content: object, *, developer: bool = False) -> None:
    """Refuse blocks out of place: wrapped tool results anywhere, tool changes outside developer messages."""
    for block in members(content):
        check_block(event, block, developer=developer)


def check_block(event: SessionEvent, block: object, *, developer: bool = False) -> None:
    """Check one block as ``check_content`` does."""
    if not is_record(block):
        return
    type = block.get("type")
    if type == "tool-result":
        refuse(event, "its content holds a tool-result block; a result is a message of its own")
    if type in _TOOL_CHANGES:
        if not developer:
            refuse(event, f"its content holds a {type} block, which only developer messages may")
        text(event, block.get("toolName"), "toolName")
        if type == "tool-addition" and "tool" in block:
            refuse(event, "its tool-addition holds a definition; name the tool and the request header instead")


def check_carried(event: SessionEvent, data: Mapping[str, Any]) -> None:
    """Check messages that an event carries without being one: spliced input, what a title was asked with."""
    key = "inserted" if event.type == "agent/inbox/spliced" else "messages"
    for message in items(event, data.get(key), key):
        source_kind(event, record(event, message, "message"))
        if message.get("role") == "developer":
            refuse(event, "it carries a developer message")
        check_content(event, message.get("content"))


def check_stream(event: SessionEvent, stream: object) -> None:
    """Check the stream an assistant message or attempt keeps: a list without null and without retired blocks.

    Harnesses resume a log whose records are wrong otherwise; ``expand_stream`` checks them whole.
    """
    for entry in items(event, stream, "stream"):
        if entry is None:
            refuse(event, "its stream holds null, which no harness survives")
        if not is_record(entry) or entry.get("type") != "chunk":
            continue
        chunk = entry.get("chunk")
        if not is_record(chunk):
            continue
        if chunk.get("type") == "block-end":
            check_block(event, chunk.get("block"))
        elif chunk.get("type") == "block-start" and chunk.get("blockType") in ("tool-result", *_TOOL_CHANGES):
            refuse(event, f"its stream starts a {chunk['blockType']} block")


def check_system_content(event: SessionEvent, content: list[Any]) -> None:
    """Check every block of a system message; in no other message do harnesses look so closely."""
    for value in content:
        block = record(event, value, "content block")
        type = text(event, block.get("type"), "block's type")
        if type in ("text", "reasoning"):
            _require_text(event, block, "text")
        elif type == "tool-call":
            text(event, block.get("id"), "tool call's id")
            text(event, block.get("name"), "tool call's name")
            _require_text(event, block, "arguments")
        elif type == "image":
            _check_image(event, record(event, block.get("attachment"), "image attachment"))


def _require_text(event: SessionEvent, block: Mapping[str, Any], key: str) -> None:
    if not isinstance(block.get(key), str):
        refuse(event, f"its block's {key} is no string")


def _check_image(event: SessionEvent, attachment: Mapping[str, Any]) -> None:
    text(event, attachment.get("attachmentId"), "attachmentId")
    if attachment.get("mediaType") not in _MEDIA_TYPES:
        refuse(event, f"its image is of type {attachment.get('mediaType')!r}")
    count(event, attachment.get("bytes"), "image bytes")
    sizes = [attachment]
    if "name" in attachment:
        _require_text(event, attachment, "name")
    if "originalDimensions" in attachment:
        sizes.append(record(event, attachment["originalDimensions"], "originalDimensions"))
    for size in sizes:
        for key in ("width", "height"):
            count(event, size.get(key), f"image {key}", least=1)
