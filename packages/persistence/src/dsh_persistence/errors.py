"""What can go wrong between a session and its store.

::

    PersistenceError
    ├── SessionNotFound     no log of that id
    ├── SessionAlreadyStored  a log of that id exists; resume it instead of creating it
    ├── SessionBusy         another writer, or a load under way, holds the session
    ├── SessionCorrupt      acknowledged bytes are damaged; ``path``, ``offset``, ``line``
    ├── RowTooLarge         a row beyond what a reader or a writer takes; ``path``, ``offset``, ``seq``
    ├── FormatNotSupported  a log of another generation; ``path``, ``version``
    ├── StoreUnusable       the store's own place cannot be used; ``path``
    ├── SessionIdTooLong    an id that the store has no room for; ``size_bytes``, ``limit_bytes``
    ├── SessionIdCollision  an id that the file system takes for another one; ``path``
    ├── SeqConflict         events that do not continue the log; ``expected``, ``found``
    ├── ForeignChange       the log changed under its writer; ``path``
    ├── OutcomeUnknown      whether the batch is durable cannot be told; ``resend`` settles it
    ├── LiveTurnOpen        the session is live and inside a turn
    ├── WriteFailed         events could not be written; they are kept and tried again
    ├── QueueFull           too much waits to be written; ``queued_bytes``, ``limit_bytes``, ``last_error``
    └── PersistenceClosed   the service has been closed
"""

from __future__ import annotations


class PersistenceError(Exception):
    """The root of this package's errors."""


class SessionNotFound(PersistenceError):
    """No log of that id."""

    def __init__(self, session_id: str, where: str) -> None:
        super().__init__(f"session {session_id!r} was not found in {where}; list the sessions to see what is there")
        self.session_id = session_id


class SessionAlreadyStored(PersistenceError):
    """A log of that id exists, possibly under another working directory; ids are unique in a store."""

    def __init__(self, session_id: str, where: str, *, difference: str | None = None) -> None:
        told = "" if difference is None else f", and {difference}"
        super().__init__(
            f"session {session_id!r} already has a log at {where}{told}; resume it, or create one with another id"
        )
        self.session_id = session_id
        self.where = where
        self.difference = difference
        """Why a live session of that id cannot go on with the log; None when nobody compared them."""


class SessionBusy(PersistenceError):
    """Somebody else holds the session for writing."""

    def __init__(self, session_id: str, holder: str) -> None:
        super().__init__(f"session {session_id!r} is held by {holder}; reading it works, writing waits for the holder")
        self.session_id = session_id
        self.holder = holder


class SessionCorrupt(PersistenceError):
    """Stored bytes that break the format where a crash cannot have broken them."""

    def __init__(self, path: str, reason: str, *, offset: int | None = None, line: int | None = None) -> None:
        place = "" if offset is None else f" at byte {offset}"
        if line is not None:
            place += f", line {line}"
        super().__init__(f"{path}{place}: {reason}; the log is left as it is")
        self.path = path
        self.reason = reason
        self.offset = offset
        """Byte offset in the stored file of the frame or line that is at fault."""
        self.line = line
        """1-based line of the decoded text; the header is line 1."""


class RowTooLarge(PersistenceError):
    """A row is longer than a reader takes, so that no file can exhaust its memory, or than a writer may make it.

    A stored row has an ``offset``, one that was to be written a ``seq``.
    """

    def __init__(self, path: str, *, limit_bytes: int, offset: int | None = None, seq: int | None = None) -> None:
        place = f"{path} at byte {offset}: a row" if seq is None else f"{path}: the row of event {seq}"
        super().__init__(f"{place} is longer than {limit_bytes} bytes; the log is left as it is")
        self.path = path
        self.offset = offset
        self.seq = seq
        self.limit_bytes = limit_bytes


class FormatNotSupported(PersistenceError):
    """A log of a generation this build does not read."""

    def __init__(self, path: str, version: int, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.version = version


class StoreUnusable(PersistenceError):
    """The place of a store cannot be used as one."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class SessionIdTooLong(PersistenceError):
    """An id that a store has no room for; ids are never cut or merged."""

    def __init__(self, session_id: str, *, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"session {session_id!r}: its name in the store takes {size_bytes} bytes of {limit_bytes}; create it with a"
            " shorter id"
        )
        self.session_id = session_id
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class SessionIdCollision(PersistenceError):
    """An id that the file system takes for another one, as when it does not tell upper from lower case."""

    def __init__(self, session_id: str, path: str) -> None:
        super().__init__(
            f"session {session_id!r}: {path} is another session's folder on this file system; create it with another id"
        )
        self.session_id = session_id
        self.path = path


class SeqConflict(PersistenceError):
    """Events that are not the ones the log waits for; nothing was written."""

    def __init__(self, session_id: str, *, expected: int, found: int) -> None:
        super().__init__(f"session {session_id!r}: the log waits for seq {expected}, and was given {found}")
        self.session_id = session_id
        self.expected = expected
        self.found = found


class ForeignChange(PersistenceError):
    """The log is no longer what its writer left; nothing was written."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path}: {what}; nothing was written, open the session again to see what is there")
        self.path = path
        self.what = what


class OutcomeUnknown(PersistenceError):
    """A write failed in a way that leaves open whether it became durable."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}; whether the batch is durable is unknown, resend settles it")
        self.path = path


class LiveTurnOpen(PersistenceError):
    """A live session cannot be loaded inside a turn."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} is live and inside a turn; use it, or wait until the turn has closed")
        self.session_id = session_id


class WriteFailed(PersistenceError):
    """Events that could not be written; ``__cause__`` is the store's error."""

    def __init__(self, session_id: str, *, queued: int, reason: str) -> None:
        super().__init__(f"session {session_id!r}: {queued} event(s) are not durable and are kept: {reason}")
        self.session_id = session_id
        self.queued = queued


class QueueFull(PersistenceError):
    """An event that was not taken, because too much waits to be written; the session is as it was."""

    def __init__(
        self, session_id: str, *, queued_bytes: int, limit_bytes: int, last_error: BaseException | None
    ) -> None:
        why = "" if last_error is None else f" (the last write failed: {last_error})"
        super().__init__(
            f"session {session_id!r}: no event was added, {queued_bytes} bytes wait to be written and the limit is"
            f" {limit_bytes}{why}; await flush, or room, and append again"
        )
        self.session_id = session_id
        self.queued_bytes = queued_bytes
        """What waits over all sessions of the service."""
        self.limit_bytes = limit_bytes
        self.last_error = last_error
        """Why the session's last write failed; None when it did not."""


class PersistenceClosed(PersistenceError):
    """The service was used after ``close``."""

    def __init__(self) -> None:
        super().__init__("the persistence service is closed")
