"""A session's log as plain lines, for scripts that open ``transcript_path`` themselves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from urllib.parse import quote

from dsh_session import Session, encode_event, encode_header

_NAME_BYTES: Final = 200


class TranscriptMirror:
    """Keeps one file for each session: the header's line, then a line for each event as ``dshpy cat`` prints it.

    It is a copy that can be made anew at any time, so nothing is synced, and a file that is there is written over.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._written: dict[str, int] = {}
        """The seq that each session's file goes on with."""

    def path(self, session_id: str) -> str:
        """Return where a session's lines are, or will be."""
        name = quote(session_id, safe="", errors="surrogatepass")
        if len(name) > _NAME_BYTES:
            raise OSError(0, f"the session's id is too long for a file's name: {name[:40]}…")
        return os.path.join(self._folder, f"{name}.jsonl")

    def update(self, session: Session) -> str:
        """Write what is new and return where it is. Raises ``OSError``."""
        path = self.path(session.id)
        from_seq = self._written.pop(session.id, 0)  # what fails half-way begins anew
        Path(self._folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(path, flags | (os.O_APPEND if from_seq else os.O_TRUNC), 0o600)
        events = session.events[from_seq:]
        with open(fd, "ab" if from_seq else "wb") as file:
            if not from_seq:
                file.write(encode_header(session.header))
            file.writelines(map(encode_event, events))
        self._written[session.id] = from_seq + len(events)
        return path

    def forget(self, session_id: str) -> None:
        """Begin the file anew when the session comes back."""
        self._written.pop(session_id, None)
