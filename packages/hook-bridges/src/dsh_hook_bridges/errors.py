"""What can go wrong with hooks before any of them runs; what one of them does is no error.

::

    HookBridgesError
    └── TrustUnreadable    path: what is trusted cannot be told
"""

from __future__ import annotations


class HookBridgesError(Exception):
    """The root of this package's errors."""


class TrustUnreadable(HookBridgesError):
    """The file of trusted projects is none; nothing counts as trusted, and nothing was written over it."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path} does not say which projects are trusted: {problem}; mend it, or move it away")
        self.path = path
