"""Where a session's files lie below a root (FORMAT §2.2, GENERATIONS §1)."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from dsh_persistence import StoreUnusable
from dsh_persistence.files import require_passing, usable
from dsh_session import SessionHeader, generations

Encoding = Literal["zstd", "raw"]
"""``zstd`` frames in ``.jsonl.zstd``, or ``raw`` lines in ``.jsonl``."""

SUFFIXES: dict[Encoding, str] = {"zstd": ".jsonl.zstd", "raw": ".jsonl"}
LOCK_NAME = "session.lock"

_PLAIN = re.compile(r"[A-Za-z0-9._-]")
_PLAIN_ID = re.compile(r"[A-Za-z0-9._-]+")
_SEPARATORS = {"/", "\\", ":"}
# No leading zero and a lower-case v; anything else in a session's folder is no log.
_LOG_NAME = re.compile(r"session(?:\.v([1-9][0-9]*))?\.jsonl(\.zstd)?")
_SLUG_UNITS = 251
NAME_BYTES = 255
"""The longest name that file systems take."""


class LogFile(NamedTuple):
    """One log found below a root. A tuple, and strings in it: a listing makes one for each of many sessions."""

    folder: str
    name: str
    generation: int
    encoding: Encoding

    @property
    def path(self) -> str:
        """The log's absolute path."""
        return f"{self.folder}/{self.name}"


@lru_cache(maxsize=1024)
def project_segment(cwd: str | None) -> str:
    """Return the folder name of a working directory; lossy, several directories may share one."""
    if cwd is None:
        return "_no-cwd"
    slug: list[str] = []
    in_run = False
    for unit in _units(cwd):
        separator = unit in _SEPARATORS
        if separator and not in_run:
            slug.append("-")
        elif not separator:
            slug.append(_escape(unit))
        in_run = separator
    return f"--{''.join(slug).lstrip('-')[:_SLUG_UNITS] or 'root'}--"


def session_segment(session_id: str) -> str:
    """Return the folder name of a session id; injective. Raises ``ValueError`` for an empty id."""
    if not session_id:
        msg = "a session id is empty; it names a folder"
        raise ValueError(msg)
    if session_id in (".", ".."):
        return "~002E" * len(session_id)
    if _PLAIN_ID.fullmatch(session_id):
        return session_id
    return "".join(_escape(unit) for unit in _units(session_id))


def log_name(encoding: Encoding) -> str:
    """Return the file name of a log of the current generation."""
    return f"session.v{generations.CURRENT}{SUFFIXES[encoding]}"


def log_path(root: Path, header: SessionHeader, encoding: Encoding) -> Path:
    """Return where the log of a session is or will be; pure."""
    return root / project_segment(header.cwd) / session_segment(header.id) / log_name(encoding)


def session_folders(root: str) -> Iterator[str]:
    """Yield every folder below ``root`` that may be a session's, in name order; none for an absent root."""
    for project in subfolders(root):
        yield from subfolders(project)


def folders_of(root: str, session_id: str) -> list[str]:
    """Return the folders of one id, one for each project that has it; more than one is damage.

    Raises ``StoreUnusable`` when there is none, but a project that cannot be searched.
    """
    segment = session_segment(session_id)
    found: list[str] = []
    problem: StoreUnusable | None = None
    for project in subfolders(root) if len(segment) <= NAME_BYTES else ():
        folder = f"{project}/{segment}"
        try:
            with usable(project):
                if stat.S_ISDIR(os.lstat(folder).st_mode):
                    found.append(folder)
        except FileNotFoundError:
            continue
        except StoreUnusable as error:
            problem = error
    if problem is not None and not found:
        raise problem
    return found


def logs_in(folder: str) -> list[LogFile]:
    """Return the logs of a session's folder, highest generation first; lock files and others are passed over.

    Raises ``StoreUnusable`` when the folder cannot be read.
    """
    try:
        names = os.listdir(folder)  # noqa: PTH208  # a Path for each name would double the cost of a listing
    except FileNotFoundError:
        return []
    except OSError as error:
        require_passing(error, folder)
        raise
    found = [
        LogFile(folder, name, int(match[1] or 0), "zstd" if match[2] else "raw")
        for name in names
        if (match := _LOG_NAME.fullmatch(name))
    ]
    return found if len(found) < 2 else sorted(found, key=lambda log: (-log.generation, log.encoding))


def subfolders(folder: str) -> list[str]:
    """Return the folders in ``folder``, in name order; none where it is absent. Raises ``StoreUnusable``."""
    try:
        with usable(folder), os.scandir(folder) as entries:
            # The kind of an entry comes with its name, so this asks nothing of each; links are no folders here.
            return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []


def _units(text: str) -> Iterator[str]:
    """Yield UTF-16 code units, which is what the folder names escape."""
    encoded = text.encode("utf-16-le", "surrogatepass")
    for position in range(0, len(encoded), 2):
        yield chr(encoded[position] | encoded[position + 1] << 8)


def _escape(unit: str) -> str:
    return unit if _PLAIN.fullmatch(unit) else f"~{ord(unit):04X}"


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that a writer left when it died; only who holds the lease makes any."""
    for name in os.listdir(folder):  # noqa: PTH208  # names are enough
        if name.startswith("session.") and name.endswith(".tmp"):
            with contextlib.suppress(OSError):  # they are in nobody's way
                (folder / name).unlink(missing_ok=True)
