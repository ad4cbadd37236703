"""What a model may receive of a log: messages derived from the surface (FORMAT §6, GENERATIONS §7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from . import generations
from ._event import SessionEvent
from ._surface import Surface
from .errors import EventRefused

Offloads = dict[int, set[int]]
"""By the seq of a message, the indexes among its own image blocks of those that live outside the request now."""


def fold_surface(events: Iterable[SessionEvent]) -> tuple[list[SessionEvent], Offloads]:
    """Return the surface in position order, and the images offloaded from it.

    ``events`` are those of the surface types and of ``image/offload``, from the beginning, in log order; only the
    latter are decoded. Raises ``EventRefused`` for a surface operation that does not fit.
    """
    surface, offloads = Surface(), Offloads()
    held: dict[int, SessionEvent] = {}
    for event in events:
        if event.type in generations.SURFACE_TYPES:
            held[event.seq] = event
            for seq in surface.take(event):
                del held[seq]
                offloads.pop(seq, None)
        else:
            try:
                add_offloads(offloads, event.data)
            except (KeyError, TypeError, ValueError) as error:
                raise EventRefused(event.type, f"its data lacks or distorts {error}", seq=event.seq) from None
    return [held[seq] for seq in surface], offloads


def add_offloads(offloads: Offloads, data: Mapping[str, Any]) -> None:
    """Take the targets of an ``image/offload`` in."""
    for target in data["targets"]:
        offloads.setdefault(target["seq"], set()).update(target["imageIndexes"])


def derive_messages(nodes: Iterable[SessionEvent], offloads: Mapping[int, set[int]]) -> Iterator[Mapping[str, Any]]:
    """Yield the message of each node: verbatim, nothing merged, empty prompts and replies left out."""
    for node in nodes:
        message = message_of(node)
        if message["content"] or node.type in ("user/message", "tool/result"):
            yield _offload(message, offloads[node.seq]) if node.seq in offloads else message


def message_of(event: SessionEvent) -> Mapping[str, Any]:
    """Return the message a surface event holds. Raises ``EventRefused`` when it holds none."""
    try:
        data = event.data
        message = data if event.type == "user/message" else data["message"]
        if isinstance(message, dict) and isinstance(message["content"], list):
            return cast("dict[str, Any]", message)
    except (KeyError, TypeError, ValueError):
        pass
    raise EventRefused(event.type, "its data holds no message", seq=event.seq)


def _offload(message: Mapping[str, Any], indexes: set[int]) -> Mapping[str, Any]:
    content: list[Any] = []
    images = 0
    for block in message["content"]:
        if isinstance(block, dict) and cast("dict[str, Any]", block).get("type") == "image":
            content.append({**block, "offloaded": True} if images in indexes else block)
            images += 1
        else:
            content.append(block)
    return {**message, "content": content}
