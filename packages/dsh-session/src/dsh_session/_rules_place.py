"""How an event takes its place on the surface, and what is remembered of it there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._event import SessionEvent
from ._rules_check import is_record

if TYPE_CHECKING:
    from ._log_state import LogState


def place(state: LogState, event: SessionEvent, content: list[Any] | None = None) -> None:
    """Apply the event's surface operation; ``content`` is given where images may leave it later.

    Raises ``EventRefused`` before anything changes.
    """
    facts = state.facts
    for seq in state.surface.take(event):
        facts.results.pop(seq, None)
        facts.images.pop(seq, None)
        state.offloads.pop(seq, None)
    images = [block for block in content or () if is_record(block) and block.get("type") == "image"]
    if images:
        facts.images[event.seq] = {index for index, image in enumerate(images) if image.get("offloaded") is not True}
