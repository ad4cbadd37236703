"""What is text, and how bytes of it are shown."""

from __future__ import annotations

import codecs

BOM = codecs.BOM_UTF8
PROBE_BYTES = 8192
"""How much of a file's beginning decides whether it is text, as in git and grep."""

_KINDS = (
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"\x7fELF", "an ELF program"),
    (b"SQLite format 3\0", "a SQLite database"),
    (codecs.BOM_UTF16_LE, "UTF-16 text"),
    (codecs.BOM_UTF16_BE, "UTF-16 text"),
)


def binary_kind(head: bytes) -> str | None:
    """Return what a file with this beginning is when it is no text, or None."""
    for magic, kind in _KINDS:
        if head.startswith(magic):
            return kind
    return "binary data" if b"\0" in head else None


def decode(data: bytes, *, is_cut: bool = False) -> tuple[str, bool]:
    """Return ``data`` as text, and whether it was all UTF-8; what was not is U+FFFD.

    ``is_cut`` says that more followed, so that a character in two halves is no fault. A NUL is replaced too: it means
    nothing in text, and not everybody who handles a message takes one.
    """
    for errors in ("strict", "replace"):
        try:
            text = codecs.getincrementaldecoder("utf-8")(errors).decode(data, final=not is_cut)
        except UnicodeDecodeError:
            continue
        clean = text.replace("\0", "\ufffd")
        return clean, errors == "strict" and clean == text
    raise AssertionError("unreachable: replacing never fails")
