"""How much may wait to be written, over all sessions of one coordinator."""

from __future__ import annotations

SHARES = 64
"""A session's own share of the limit is one of so many."""


class Backlog:
    """The bytes that wait, and their limit.

    The limit is one for all sessions, because it is one process's memory that they fill. But a session whose log cannot
    be written must not silence the others: each may always have a small share of the limit waiting, and, when nothing
    of its own waits, one event of any size.
    """

    __slots__ = ("limit_bytes", "queued_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.queued_bytes = 0

    def refuses(self, more_bytes: int, own_bytes: int) -> bool:
        """Tell whether a session of which ``own_bytes`` wait may not add ``more_bytes``."""
        return (
            self.queued_bytes + more_bytes > self.limit_bytes
            and own_bytes > 0
            and own_bytes + more_bytes > self.limit_bytes // SHARES
        )
