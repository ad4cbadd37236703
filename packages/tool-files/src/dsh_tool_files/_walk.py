"""The files of a tree that a pattern means, in the order of their names."""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import dataclass

from ._names import shown
from ._pattern import GlobPattern, State
from ._stop import Stop

PASSED_OVER = frozenset(
    (".git", ".hg", ".svn", ".jj", "node_modules", "__pycache__", ".venv", ".tox", ".nox", ".mypy_cache", ".ruff_cache")
)
"""Directories of programs rather than people. A walk enters them only where the pattern spells their name, or where it
begins inside. Other hidden names are as good as any."""
MAX_ENTRIES = 200_000
"""Names a walk looks at; some seconds on a cold disk."""
MAX_DEPTH = 64
"""Directories below each other, each of which costs a descriptor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file that is meant; its directory is open until the walk goes on."""

    path: str
    dir_fd: int
    name: str
    is_link: bool


FoundFiles = Generator[Found, None, None]
"""To be closed by whoever stops early: its directories are open until then."""


class Walk:
    """One walk. It follows no link, so it can neither leave the tree nor run in a circle."""

    def __init__(self, pattern: GlobPattern, stop: Stop, *, max_entries: int = MAX_ENTRIES) -> None:
        self._pattern = pattern
        self._stop = stop
        self._entries_left = max_entries
        self.notices: list[str] = []
        """What was not looked at, once the walk is over."""

    def files(self, directory_fd: int, prefix: str) -> FoundFiles:
        """Yield the files below an open directory whose path, with a slash at its end if it has any, is ``prefix``."""
        unreadable: list[str] = []
        yield from self._below(directory_fd, prefix, self._pattern.start, 0, unreadable)
        if unreadable:
            self.notices.append(f"{len(unreadable)} directories could not be read, such as {shown(unreadable[0])}")
        if self._entries_left <= 0:
            self.notices.append("there are too many names here and not all were looked at; name a directory in path")

    def _below(self, fd: int, prefix: str, state: State, depth: int, unreadable: list[str]) -> FoundFiles:
        for name, is_directory, is_link in self._entries(fd):
            self._stop.check()
            path = prefix + name
            after = self._pattern.step(state, name)
            if not is_directory:
                if self._pattern.is_match(after):
                    yield Found(path=path, dir_fd=fd, name=name, is_link=is_link)
                continue
            if not self._pattern.goes_on(after) or self._is_passed_over(name, state):
                continue
            below = None if depth == MAX_DEPTH else _open_directory(name, fd)
            if below is None:
                unreadable.append(path)
                continue
            try:
                yield from self._below(below, f"{path}/", after, depth + 1, unreadable)
            finally:
                os.close(below)

    def _is_passed_over(self, name: str, state: State) -> bool:
        return name in PASSED_OVER and not self._pattern.names(state, name)

    def _entries(self, fd: int) -> list[tuple[str, bool, bool]]:
        """Return name, whether it is a directory, and whether it is a link, of what is neither pipe nor device."""
        entries: list[tuple[str, bool, bool]] = []
        with os.scandir(fd) as scan:
            for entry in scan:
                if self._entries_left <= 0:
                    break
                self._entries_left -= 1
                is_directory, is_link = entry.is_dir(follow_symlinks=False), entry.is_symlink()
                if is_directory or is_link or entry.is_file(follow_symlinks=False):
                    entries.append((entry.name, is_directory, is_link))
        return sorted(entries)


def _open_directory(name: str, dir_fd: int) -> int | None:
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=dir_fd)
    except OSError:  # forbidden, or no directory any more
        return None
