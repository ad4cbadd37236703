"""Where a session's files lie below a root (FORMAT §2.2, GENERATIONS §1)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dsh_persistence import StoreUnusable
from dsh_session import SessionHeader, generations

from ._disk import usable

Encoding = Literal["zstd", "raw"]
"""``zstd`` frames in ``.jsonl.zstd``, or ``raw`` lines in ``.jsonl``."""

SUFFIXES: dict[Encoding, str] = {"zstd": ".jsonl.zstd", "raw": ".jsonl"}
LOCK_NAME = "session.lock"

_PLAIN = re.compile(r"[A-Za-z0-9._-]")
_SEPARATORS = {"/", "\\", ":"}
# No leading zero and a lower-case v; anything else in a session's folder is no log.
_LOG_NAME = re.compile(r"session(?:\.v([1-9][0-9]*))?\.jsonl(\.zstd)?")
_SLUG_UNITS = 251
NAME_BYTES = 255
"""The longest name that file systems take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """One log found below a root."""

    path: Path
    generation: int
    encoding: Encoding


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
    return "".join(_escape(unit) for unit in _units(session_id))


def log_name(encoding: Encoding) -> str:
    """Return the file name of a log of the current generation."""
    return f"session.v{generations.CURRENT}{SUFFIXES[encoding]}"


def log_path(root: Path, header: SessionHeader, encoding: Encoding) -> Path:
    """Return where the log of a session is or will be; pure."""
    return root / project_segment(header.cwd) / session_segment(header.id) / log_name(encoding)


def session_folders(root: Path) -> Iterator[Path]:
    """Yield every folder below ``root`` that may be a session's, in name order; none for an absent root."""
    for project in subfolders(root):
        yield from subfolders(project)


def folders_of(root: Path, session_id: str) -> list[Path]:
    """Return the folders of one id, one for each project that has it; more than one is damage.

    Raises ``StoreUnusable`` when there is none, but a project that cannot be searched.
    """
    segment = session_segment(session_id)
    found: list[Path] = []
    problem: StoreUnusable | None = None
    for project in subfolders(root) if len(segment) <= NAME_BYTES else ():
        try:
            with usable(project):
                if _is_folder(project / segment):
                    found.append(project / segment)
        except StoreUnusable as error:
            problem = error
    if problem is not None and not found:
        raise problem
    return found


def logs_in(folder: Path) -> list[LogFile]:
    """Return the logs of a session's folder, highest generation first; lock files and others are passed over."""
    found = [
        LogFile(path=path, generation=int(match[1] or 0), encoding="zstd" if match[2] else "raw")
        for path in _children(folder)
        if (match := _LOG_NAME.fullmatch(path.name))
    ]
    return sorted(found, key=lambda log: (-log.generation, log.encoding))


def subfolders(folder: Path) -> list[Path]:
    """Return the folders in ``folder``, in name order; none where it is absent. Raises ``StoreUnusable``."""
    with usable(folder):
        return sorted(path for path in _children(folder) if _is_folder(path))


def _children(folder: Path) -> list[Path]:
    try:
        with usable(folder):
            return list(folder.iterdir())
    except FileNotFoundError:
        return []


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _units(text: str) -> Iterator[str]:
    """Yield UTF-16 code units, which is what the folder names escape."""
    encoded = text.encode("utf-16-le", "surrogatepass")
    for position in range(0, len(encoded), 2):
        yield chr(encoded[position] | encoded[position + 1] << 8)


def _escape(unit: str) -> str:
    return unit if _PLAIN.fullmatch(unit) else f"~{ord(unit):04X}"
