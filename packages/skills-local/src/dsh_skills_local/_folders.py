"""Reading folders that others may have filled: bounded, and never by a link that leads out of them."""

from __future__ import annotations

import heapq
import os
import stat
from collections import deque

from .errors import SkillInvalid

MAX_SKILL_BYTES = 131_072
"""Of a SKILL.md: some thirty thousand tokens, more than any model should load at once."""
MAX_SKILLS = 500
"""Folders that are looked at below one root."""
MAX_FILES = 100
"""Files beside a SKILL.md that are named."""

_MAX_SUBFOLDERS = 50
_SKILL_FILE = "SKILL.md"
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def list_folders(path: str) -> tuple[list[str], bool]:
    """Return the names of the folders in ``path``, sorted, hidden ones left out, and whether the list was cut.

    Raises ``OSError``.
    """
    with os.scandir(path) as entries:
        names = (entry.name for entry in entries if not entry.name.startswith(".") and _may_be_folder(entry))
        smallest = heapq.nsmallest(MAX_SKILLS + 1, names)
    return smallest[:MAX_SKILLS], len(smallest) > MAX_SKILLS


def read_skill_file(folder: str, boundary: str) -> tuple[str, bytes]:
    """Return the real path of a folder's SKILL.md, and what it holds. Raises ``SkillInvalid``."""
    real = resolve_inside(os.path.join(resolve_inside(folder, boundary), _SKILL_FILE), boundary)
    try:
        return real, _read(real)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SkillInvalid(folder, f"holds no {_SKILL_FILE}; add one, or move the folder away") from error
    except OSError as error:
        raise SkillInvalid(real, f"cannot be read: {error.strerror}; make it a file you may read") from error


def resolve_inside(path: str, boundary: str) -> str:
    """Return ``path`` with its links resolved. Raises ``SkillInvalid`` when it is not below ``boundary``."""
    real = os.path.realpath(path)
    if real != boundary and not real.startswith(boundary.rstrip(os.sep) + os.sep):
        raise SkillInvalid(path, f"is a link that leads out of {boundary}; put a copy in its place")
    return real


def files_beside(folder: str) -> tuple[tuple[str, ...], bool]:
    """Return the files of a skill's folder, its SKILL.md left out, and whether some were left out for their number.

    The nearest come first into the list. Links are not followed and not named, nor is what is hidden or unreadable.
    """
    files: list[str] = []
    pending = deque([""])
    for _ in range(_MAX_SUBFOLDERS):
        if not pending or len(files) > MAX_FILES:
            break
        below = pending.popleft()
        names, subfolders = _entries(os.path.join(folder, below))
        files += [below + name for name in names if below or name != _SKILL_FILE]
        pending += [f"{below}{name}/" for name in subfolders]
    return tuple(sorted(files[:MAX_FILES])), bool(pending) or len(files) > MAX_FILES


def _entries(path: str) -> tuple[list[str], list[str]]:
    """Return the files and the folders of a folder, sorted and bounded."""
    kinds: tuple[list[str], list[str]] = ([], [])
    try:
        with os.scandir(path) as found:
            visible = (entry for entry in found if not entry.name.startswith("."))
            entries = heapq.nsmallest(2 * MAX_FILES, visible, key=lambda entry: entry.name)
    except OSError:
        return kinds
    for entry in entries:
        if entry.is_file(follow_symlinks=False):
            kinds[0].append(entry.name)
        elif entry.is_dir(follow_symlinks=False):
            kinds[1].append(entry.name)
    return kinds


def _may_be_folder(entry: os.DirEntry[str]) -> bool:
    """Tell whether to look into it; a link that leads nowhere is looked at, so that it is told of."""
    try:
        return entry.is_dir() or (entry.is_symlink() and not entry.is_file())
    except OSError:
        return True


def _read(path: str) -> bytes:
    # Never through a link that took the file's place, and never waiting for the other end of a pipe.
    descriptor = os.open(path, _FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise SkillInvalid(path, "is no regular file; put a file in its place")
        data = b""
        while len(data) <= MAX_SKILL_BYTES and (more := os.read(descriptor, MAX_SKILL_BYTES + 1 - len(data))):
            data += more
    finally:
        os.close(descriptor)
    if len(data) > MAX_SKILL_BYTES:
        raise SkillInvalid(path, f"is larger than {MAX_SKILL_BYTES} bytes; move parts of it into files beside it")
    return data
