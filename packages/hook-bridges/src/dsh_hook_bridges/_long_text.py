"""Texts too long for a conversation: the whole lies in a file, and its beginning says where."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Final

MAX_CHARACTERS: Final = 10_000
"""What Claude Code lets one text have; four characters a token make it Codex's limit as well."""
PREVIEW_CHARACTERS: Final = 2_000


def shorten(text: str, folder: str) -> str:
    """Return ``text``, or where it is too long its beginning and the path of a private file with all of it."""
    if len(text) <= MAX_CHARACTERS:
        return text
    preview = text[:PREVIEW_CHARACTERS]
    try:
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        path = os.path.join(folder, f"{uuid.uuid4()}.txt")
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        return f"{preview}\n[cut: {len(text)} characters, which could not be saved: {error.strerror}]"
    return f"{preview}\n[cut: all {len(text)} characters are in {path}]"
