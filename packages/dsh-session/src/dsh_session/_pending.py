"""A tool call that waits for its result."""

from __future__ import annotations

import msgspec

# A wire string: harnesses accept no other for a call that never started.
NOT_STARTED_TEXT = (
    "The tool call was interrupted before the Harness recorded it as started. Retry it if it is still needed."
)


class PendingCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that an assistant message announced and no result has settled."""

    call_id: str
    name: str
    arguments: str
    """The model's own text, which need not be valid JSON; what else a log may hold here can never start."""
    turn: int
    step: int
    started_seq: int | None = None
    """The seq of its ``tool/call``; None while it has not been started."""
