"""Exit codes, and which error means which."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a script may rely on."""

    OK = 0
    FAULT = 1
    """Damage was found, a turn failed, or something is wrong with hooks."""
    USAGE = 2
    NOT_FOUND = 3
    """No such session, or several."""
    UNREADABLE = 4
    """Something is there and cannot be used: busy, another format, no permission."""
    MAX_TOKENS = 5
    """A turn ended where the model may not say more."""
    BLOCKED = 6
    """A turn was kept from being asked."""
    HUNG_UP = 129
    """A turn was cancelled by this signal; as shells count them, like the next ones."""
    INTERRUPTED = 130
    """Also what any other command ends with when Ctrl-C ends it."""
    OUTPUT_CLOSED = 141
    """A turn was cancelled since nobody read the output any more, as by SIGPIPE."""
    TERMINATED = 143
    COMMAND_REFUSED = 126
    """The command to run is there and may not run; as ``env`` and shells say it."""
    COMMAND_MISSING = 127


class SelectorFails(Exception):
    """A selector names no session, or several; the message says what to type instead."""


def exit_code_of(error: Exception) -> ExitCode | None:
    """Return the code of an error a person can act on; None for a defect, which deserves its traceback."""
    # Here, since `--help` and a command that succeeds need none of these packages.
    from dsh_agent import AgentError  # noqa: PLC0415
    from dsh_hook_bridges import HookBridgesError  # noqa: PLC0415
    from dsh_paths import DshPathsError  # noqa: PLC0415
    from dsh_persistence import PersistenceError, SessionCorrupt, SessionNotFound  # noqa: PLC0415
    from dsh_session import SessionError  # noqa: PLC0415

    match error:
        case SessionNotFound() | SelectorFails():
            return ExitCode.NOT_FOUND
        case SessionCorrupt():
            return ExitCode.FAULT
        case PersistenceError() | HookBridgesError() | OSError():
            return ExitCode.UNREADABLE
        case DshPathsError() | AgentError() | SessionError():
            return ExitCode.USAGE
        case ExceptionGroup() if all(isinstance(part, PersistenceError) for part in error.exceptions):
            return ExitCode.UNREADABLE
        case _:
            return None
