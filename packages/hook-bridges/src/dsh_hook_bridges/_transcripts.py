"""Where a session's log can be read, and that it is up to date when a hook looks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from dsh_persistence import SessionLocation, SessionPersistence
from dsh_session import Session

from ._mirror import TranscriptMirror


class Transcripts:
    """Answers from the persistence that is there at that moment; it may be replaced, or be none."""

    def __init__(self, persistence: Callable[[], SessionPersistence | None], mirror: TranscriptMirror | None) -> None:
        self._persistence = persistence
        self._mirror = mirror
        self._mirroring = threading.Lock()
        """A child's hooks refresh its parent's lines as well; each line is written once."""

    def path(self, session: Session) -> str | None:
        """Return what ``transcript_path`` says, None without a file. Touches no disk: the file may not exist yet."""
        location = self._location(session)
        if self._mirror is not None and not _is_plain(location):
            with suppress(OSError):  # no file can have its name, as ``refresh`` says
                return self._mirror.path(session.id)
        return None if location is None else location.path

    def log_path(self, session: Session) -> str | None:
        """Return what ``DSH_SESSION_JSONL`` says: the log itself, where it is a file of rows, compressed or not."""
        location = self._location(session)
        return location.path if location is not None and location.kind == "jsonl" else None

    async def refresh(self, session: Session) -> None:
        """Make what has happened readable there: a checkpoint, and where there is a mirror its new lines.

        What hooks leave in the log is nothing that a hook looks for: no sync is waited for on its account. Raises what
        the flush raises, and ``OSError``.
        """
        persistence = self._persistence()
        if persistence is not None and _has_news(persistence, session):
            await persistence.flush(session.id)
        if self._mirror is not None and not _is_plain(self._location(session)):
            await asyncio.to_thread(self._update, self._mirror, session)

    def forget(self, session_id: str) -> None:
        """The session is let go."""
        if self._mirror is not None:
            self._mirror.forget(session_id)

    def _update(self, mirror: TranscriptMirror, session: Session) -> None:
        with self._mirroring:  # not of the loop: who is cancelled leaves the thread writing
            mirror.update(session)

    def _location(self, session: Session) -> SessionLocation | None:
        persistence = self._persistence()
        return None if persistence is None else persistence.locate(session.header)


def _has_news(persistence: SessionPersistence, session: Session) -> bool:
    durable = persistence.health(session.id).last_durable_seq
    return any(not event.type.startswith("hook/") for event in session.events[durable + 1 :])


def _is_plain(location: SessionLocation | None) -> bool:
    return location is not None and location.path.endswith(".jsonl")
