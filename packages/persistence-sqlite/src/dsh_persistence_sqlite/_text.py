"""Text as the bytes that are stored: UTF-8, with lone surrogates passed through."""

from __future__ import annotations


def to_bytes(text: str) -> bytes:
    """Return the stored form."""
    return text.encode("utf-8", "surrogatepass")


def from_bytes(stored: bytes) -> str:
    """Return the text. Raises ``UnicodeDecodeError``, a ``ValueError``."""
    return stored.decode("utf-8", "surrogatepass")
