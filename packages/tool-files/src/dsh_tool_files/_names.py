"""Paths as text: what a call may name, and how a name from the disk is shown."""

from __future__ import annotations

import os

from .errors import PathRefused

MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 4096
"""Linux's own limits. Going down by descriptors would reach beyond the second one; no other program could follow."""


def split(path: str) -> list[str]:
    """Return the names in ``path``; ``..`` is kept."""
    return [name for name in path.split("/") if name not in ("", ".")]


def check_path(path: str) -> None:
    """Raise ``PathRefused`` for a path that no call may name, whatever lies on the disk."""
    if not path:
        raise PathRefused(path, "is no path; give one relative to the workspace")
    if "\0" in path:
        raise PathRefused(path, "contains a NUL; no file can have that name")
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        raise PathRefused(path, "contains half a surrogate pair; use bash for files with such names") from None
    if len(encoded) > MAX_PATH_BYTES:
        raise PathRefused(f"{path[:40]}…", f"is longer than {MAX_PATH_BYTES} bytes; choose a shorter path")
    names = split(path)
    if ".." in names:
        raise PathRefused(path, "contains '..'; name the file from the workspace down")
    for name in names:
        if len(name.encode()) > MAX_NAME_BYTES:
            raise PathRefused(f"{name[:40]}…", f"is longer than {MAX_NAME_BYTES} bytes; choose a shorter name")


def shown(path: str) -> str:
    """Return a path from the disk as text that stays on one line.

    A file can be named anything: bytes that are not UTF-8 would be no valid text in a log or a request, and a line
    break would let a name pose as further lines of a result.
    """
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
