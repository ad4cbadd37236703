"""The harness home: explicit setting, then ``$DSH_HOME``, then ``~/.dsh`` (BEHAVIOUR §1.1)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import DshHomeInvalid, UserHomeUnknown

if TYPE_CHECKING:
    from collections.abc import Mapping

DSH_HOME_ENV = "DSH_HOME"
"""The variable that moves the home (rule 1.1)."""

_DIRECTORY = ".dsh"
_DISPLAY = "~/.dsh"


def default_dsh_home() -> str:
    """Return ``.dsh`` in the user's home (rule 1.2).

    Raises ``UserHomeUnknown`` when neither the environment nor the user database names that home.
    """
    return _join(_user_home(), _DIRECTORY)


def expand_home_path(path: str | os.PathLike[str]) -> str:
    r"""Replace a leading ``~``, ``~/`` or ``~\`` by the user's home; return anything else unchanged (rules 1.3 to 1.5).

    Both separators count on every platform, so that one configuration file serves all of them.
    """
    text = os.fspath(path)
    if text == "~":
        return _user_home()
    if text.startswith(("~/", "~\\")):
        return _join(_user_home(), text[2:])
    return text


def resolve_dsh_home(configured: str | os.PathLike[str] | None = None, *, env: Mapping[str, str] | None = None) -> str:
    """Return the absolute home: ``configured``, else a non-blank ``$DSH_HOME``, else the default (rules 1.6 to 1.11).

    ``env`` stands in for the process environment where ``DSH_HOME`` is looked up; ``~`` always means the home of the
    user who runs the process. A relative value is taken from the working directory at the time of the call. ``..`` and
    doubled separators are folded as text and links are kept, so the disk is never asked.

    Raises ``DshHomeInvalid`` for a blank ``configured``; a blank ``$DSH_HOME`` counts as unset. A padded value is used
    as it stands, since a directory name may begin with a space.
    """
    if configured is not None:
        chosen = os.fspath(configured)
        if not chosen.strip():
            raise DshHomeInvalid(chosen)
    else:
        ambient = (os.environ if env is None else env).get(DSH_HOME_ENV, "")
        chosen = ambient if ambient.strip() else default_dsh_home()
    return _absolute(expand_home_path(chosen))


def dsh_home_path(*segments: str) -> str:
    """Return a path under the home of the process, read anew at each call; without segments the home (rule 1.12)."""
    return _join(resolve_dsh_home(), *segments)


def dsh_home_display(resolved: str) -> str:
    """Return ``~/.dsh`` for the default home and ``$DSH_HOME`` for any other, never an absolute path (rule 1.13)."""
    try:
        default = _absolute(default_dsh_home())
    except UserHomeUnknown:  # then no home is the default one
        default = None
    return _DISPLAY if resolved == default else f"${DSH_HOME_ENV}"


def _user_home() -> str:
    # An empty $HOME counts as unset: taken literally it would put the harness into the working directory.
    if sys.platform == "win32":
        home, variable = os.environ.get("USERPROFILE", ""), "USERPROFILE"
    else:
        home, variable = os.environ.get("HOME", "") or _passwd_home(), "HOME"
    if not home:
        raise UserHomeUnknown(variable)
    return home


def _passwd_home() -> str:
    if sys.platform == "win32":
        return ""
    import pwd  # noqa: PLC0415 - absent on Windows, and needed only without $HOME

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a container may run under a uid that no user entry names
        return ""


def _join(first: str, *rest: str) -> str:
    # A segment that begins with a separator stays below what precedes it; os.path.join would jump to the root.
    return _normal(os.sep.join((first, *rest)))


def _absolute(path: str) -> str:
    # An absolute path needs no working directory, so a deleted one does no harm.
    return _normal(str(Path(path).absolute()))


def _normal(path: str) -> str:
    folded = os.path.normpath(path)
    # POSIX lets exactly two leading slashes mean something else, and normpath keeps them; a home never means it.
    return folded[1:] if os.sep == "/" and folded.startswith("//") else folded
