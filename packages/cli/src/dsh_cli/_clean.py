"""``dshpy env --clean``: a command as if no harness had ever been around it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from dsh_subprocess import FOREIGN_HARNESS_MARKERS, EnvPolicy, EnvRule, child_env

from ._exit import ExitCode
from ._text import say

_CLEAN = EnvPolicy(name="clean", rules=(EnvRule(name="other harness", names=FOREIGN_HARNESS_MARKERS),))
"""Every policy drops managed names. Credentials stay: it is the user's own command."""


def exec_clean(command: tuple[str, ...]) -> ExitCode:
    """Become ``command``, without managed names and marks of other harnesses; return only when that fails."""
    env = child_env({"LC_CTYPE": None} if _python_chose_the_locale() else {}, policy=_CLEAN)
    _restore_signals()
    try:
        os.execvpe(command[0], command, env)  # noqa: S606  # no shell is what is wanted
    except (FileNotFoundError, NotADirectoryError):
        where = "does not exist" if "/" in command[0] else "was not found on PATH"
        say(f"{command[0]} {where}, or the interpreter that its first line names is missing")
        return ExitCode.COMMAND_MISSING
    except OSError as error:
        advice = "name a program, or a script that is executable and has a #! line"
        say(f"{command[0]} cannot be run: {error.strerror}; {advice}")
        return ExitCode.COMMAND_REFUSED


def _python_chose_the_locale() -> bool:
    """Return whether Python, which was started in the C locale, has set ``LC_CTYPE`` for itself (PEP 538)."""
    try:
        started_with = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:  # a system without it, where nobody can tell
        return False
    return not any(entry.startswith(b"LC_CTYPE=") for entry in started_with)


def _restore_signals() -> None:
    """Undo what Python changed for itself: what is ignored stays so through exec, and ``yes | head`` would complain."""
    for name in ("SIGPIPE", "SIGXFSZ"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
