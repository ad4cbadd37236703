"""The log that a reference names, also where reading it is refused."""

from __future__ import annotations

import os
import re
from pathlib import Path

from dsh_persistence import FormatNotSupported, SessionCorrupt, SessionLocation, SessionNotFound
from dsh_session import generations

from ._layout import LogFile, folders_of, logs_in

_ESCAPE = re.compile(r"~([0-9A-F]{4})")


def id_of(folder: str) -> str:
    """Return the session id that a session's folder is named after."""
    units = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), Path(folder).name)
    return units.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def log_of(root: Path, ref: str | SessionLocation) -> LogFile:
    """Return the log of a session, by its id that of the highest generation, by its place that very one.

    Raises ``SessionNotFound``, and ``SessionCorrupt`` for an id that lies in several places.
    """
    if isinstance(ref, str):
        folders = [folder for folder in folders_of(str(root), ref) if logs_in(folder)] if ref else []
        if len(folders) > 1:
            reason = f"session {ref!r} lies in {folders[1]} as well; name the log by its path"
            raise SessionCorrupt(folders[0], reason)
        if folders:
            return logs_in(folders[0])[0]
        raise SessionNotFound(ref, str(root))
    folder, name = os.path.split(ref.path)
    for log in logs_in(folder):
        if log.name == name:
            return log
    raise SessionNotFound(Path(folder).name, folder)


def require_current(log: LogFile) -> None:
    """Raise ``FormatNotSupported`` for a log of another generation."""
    if log.generation != generations.CURRENT:
        reason = f"generation v{log.generation}: this build reads v{generations.CURRENT}"
        raise FormatNotSupported(log.path, log.generation, reason)
