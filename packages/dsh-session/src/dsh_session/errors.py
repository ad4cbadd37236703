"""What can go wrong with a session in memory.

::

    SessionError
    ├── HeaderInvalid        a header that breaks a rule; ``field`` names it
    ├── FormatUnsupported    a log of a generation this build does not read; ``version``
    ├── SessionExists        the id is already live; ``session_id``
    ├── LogIncomplete        a question that a log without its beginning cannot answer; ``first_seq``
    ├── StreamInvalid        a stream record that is none; ``position``
    └── EventRefused         an event that would make the log unreadable; ``type``, ``seq``, ``reason``
        ├── DataNotLossless  data that would not come back as it went in; ``path``
        └── EventTooLarge    an event that is longer than a row of a log may be; ``size_bytes``, ``limit_bytes``
"""

from __future__ import annotations


class SessionError(Exception):
    """The root of this package's errors."""


class HeaderInvalid(SessionError):
    """A header breaks a rule of FORMAT §1.2 or GENERATIONS §1.1."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"session header: {field} {reason}")
        self.field = field
        self.reason = reason


class FormatUnsupported(SessionError):
    """A log of another generation. ``newer`` tells whether an upgrade of this package may help."""

    def __init__(self, version: int, *, current: int) -> None:
        self.version = version
        self.newer = version > current
        advice = (
            "it was written by a newer harness: upgrade dsh-py to open it"
            if self.newer
            else "this build reads only that generation: open it with the harness that wrote it"
        )
        super().__init__(f"the log has format v{version}, and v{current} is supported; {advice}")


class SessionExists(SessionError):
    """A live session already has this id."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {session_id!r} is already live in this process; use it, or create one with another id"
        )
        self.session_id = session_id


class LogIncomplete(SessionError):
    """A log that was read from some event on was asked for what only the whole log tells."""

    def __init__(self, first_seq: int, what: str) -> None:
        super().__init__(f"the log begins at seq {first_seq}, so {what} is unknown; read it from seq 0")
        self.first_seq = first_seq


class StreamInvalid(SessionError):
    """A record of an assistant message's stream lacks or distorts something; ``position`` counts from 0."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"stream record {position} {reason}")
        self.position = position
        self.reason = reason


class EventRefused(SessionError):
    """An event that the log's own rules forbid here; nothing was stored."""

    def __init__(self, type: str, reason: str, *, seq: int | None = None) -> None:
        where = "" if seq is None else f" at seq {seq}"
        super().__init__(f"event {type!r}{where} refused: {reason}")
        self.type = type
        self.reason = reason
        self.seq = seq


class DataNotLossless(EventRefused):
    """Data that JSON cannot carry there and back unchanged; ``path`` says where, as in ``$.args[0]``."""

    def __init__(self, type: str, path: str, reason: str) -> None:
        super().__init__(type, f"data at {path} {reason}")
        self.path = path


class EventTooLarge(EventRefused):
    """An event that no store would write, and that would keep all later ones from being written."""

    def __init__(self, type: str, *, seq: int, size_bytes: int, limit_bytes: int) -> None:
        reason = f"it takes {size_bytes} bytes of {limit_bytes}; keep large content in a file and log where it lies"
        super().__init__(type, reason, seq=seq)
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
