"""Exit codes, and which error means which."""

from __future__ import annotations

from enum import IntEnum

from dsh_agent import AgentError
from dsh_paths import DshPathsError
from dsh_persistence import PersistenceError, SessionCorrupt, SessionNotFound
from dsh_session import SessionError


class ExitCode(IntEnum):
    """What a script may rely on."""

    OK = 0
    FAULT = 1
    """Damage was found, or a turn failed."""
    USAGE = 2
    NOT_FOUND = 3
    """No such session, or several."""
    UNREADABLE = 4
    """Something is there and cannot be used: busy, another format, no permission."""


class Ambiguous(Exception):
    """A selector fits several sessions."""


def exit_code_of(error: Exception) -> ExitCode | None:
    """Return the code of an error a person can act on; None for a defect, which deserves its traceback."""
    match error:
        case SessionNotFound() | Ambiguous():
            return ExitCode.NOT_FOUND
        case SessionCorrupt():
            return ExitCode.FAULT
        case PersistenceError():
            return ExitCode.UNREADABLE
        case DshPathsError() | AgentError() | SessionError():
            return ExitCode.USAGE
        case ExceptionGroup() if all(isinstance(part, PersistenceError) for part in error.exceptions):
            return ExitCode.UNREADABLE
        case _:
            return None
