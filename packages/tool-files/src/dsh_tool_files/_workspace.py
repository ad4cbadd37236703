"""The workspace, held by a descriptor: nothing outside is reached, whoever swaps names meanwhile."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader, FileIO
from pathlib import Path
from types import TracebackType
from typing import Self

from ._descent import Descent
from ._names import check_path, split
from .errors import NotThere, NoWorkspace, PathRefused, WrongKind, explained

_BUFFER_BYTES = 65_536
"""With Python's own 8 KiB, passing over a long line takes four times as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A name in a directory that is held open: where a path of the workspace ends, links resolved."""

    path: str
    """As the call named it, from the workspace down; ``.`` is the workspace itself."""
    dir_fd: int
    name: str
    status: os.stat_result | None
    """What has the name, links not followed; None when nothing does."""

    @contextmanager
    def open_file(self, *, for_change: bool = False) -> Iterator[BufferedReader]:
        """Open the regular file here for reading, waiting for nothing.

        ``for_change`` asks for the permission to write as well: replacing a file by renaming would ask nobody. Raises
        ``NotThere``, ``WrongKind``, ``FileChanged`` when it was swapped, and ``SystemRefused``.
        """
        if self.status is None:
            raise NotThere(self.path, self.path)
        _require_file(self.path, self.status.st_mode)
        access = os.O_RDWR if for_change else os.O_RDONLY
        with explained(self.path):
            file = open_regular(self.path, self.name, self.dir_fd, access)
        with file:
            yield file

    @contextmanager
    def open_directory(self) -> Iterator[int]:
        """Open the directory here. Raises like ``open_file``."""
        if self.status is None:
            raise NotThere(self.path, self.path)
        if not stat.S_ISDIR(self.status.st_mode):
            raise WrongKind(self.path, kind_of(self.status.st_mode), "name a directory")
        with explained(self.path):
            fd = os.open(self.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self.dir_fd)
        try:
            yield fd
        finally:
            os.close(fd)


class Workspace:
    """One session's directory, open for one call; a context manager."""

    def __init__(self, root: str | None) -> None:
        """Raises ``NoWorkspace``."""
        if root is None:
            raise NoWorkspace("", "this session has no workspace; start one with a directory (cwd) to work on files")
        if not Path(root).is_absolute():
            raise NoWorkspace(root, f"the workspace {root!r} is a path of another system; start a session on this one")
        if os.open not in os.supports_dir_fd:
            raise NoWorkspace(root, "this system cannot open files relative to a directory; use bash instead")
        try:
            self._fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            message = f"the workspace {root!r} cannot be opened: {reason}; restore it, or start a session elsewhere"
            raise NoWorkspace(root, message) from error
        # Both spellings of the root count as inside, for a session may have been opened through a link.
        self._bases = (split(os.path.normpath(root)), split(os.path.realpath(root)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    @contextmanager
    def locate(self, path: str, *, make_parents: bool = False) -> Iterator[Place]:
        """Find where ``path`` ends; with ``make_parents``, missing directories before its last name are made.

        Raises ``PathRefused``, ``NotThere`` for a missing parent, ``WrongKind`` for one that is no directory, and
        what ``explained`` makes of the system's errors.
        """
        check_path(path)
        names = self._from_here(split(path)) if path.startswith("/") else split(path)
        if names is None:
            raise PathRefused(path, "is outside the workspace; only files inside can be reached")
        here = "/".join(names) or "."
        with explained(here):
            descent = Descent(self._fd, here, from_root=self._from_here, make_parents=make_parents)
        try:
            with explained(here):
                name, status = descent.go(names)
            yield Place(path=here, dir_fd=descent.dir_fd, name=name, status=status)
        finally:
            descent.close()

    def _from_here(self, names: list[str]) -> list[str] | None:
        """Return an absolute path's names from the workspace down; None when it does not begin with the workspace."""
        for base in self._bases:
            if names[: len(base)] == base:
                return names[len(base) :]
        return None


def open_regular(path: str, name: str, dir_fd: int, access: int = os.O_RDONLY) -> BufferedReader:
    """Open a regular file in a directory that is open; ``path`` is for the errors.

    What has been put in its place is neither followed nor waited for. Raises ``OSError`` and ``WrongKind``.
    """
    fd = os.open(name, access | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=dir_fd)
    try:
        _require_file(path, os.fstat(fd).st_mode)
    except BaseException:
        os.close(fd)
        raise
    return BufferedReader(FileIO(fd), _BUFFER_BYTES)


def kind_of(mode: int) -> str:
    """Return what something is called that is no regular file."""
    for test, kind in (
        (stat.S_ISDIR, "directory"),
        (stat.S_ISREG, "file"),
        (stat.S_ISFIFO, "pipe"),
        (stat.S_ISSOCK, "socket"),
        (stat.S_ISCHR, "device"),
        (stat.S_ISBLK, "device"),
    ):
        if test(mode):
            return kind
    return "special file"


def _require_file(path: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise WrongKind(path, "directory", "name a file in it; glob lists them")
    if not stat.S_ISREG(mode):
        raise WrongKind(path, kind_of(mode), "only regular files can be read and written")
