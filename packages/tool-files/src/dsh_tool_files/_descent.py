"""The way from the workspace down to a name, one descriptor at a time.

Each name is opened relative to the descriptor of the directory before it and never through a link. Links are read and
walked by hand on a stack of descriptors: ``..`` pops it, and there is nothing below the workspace to pop. So a swapped
component can make a call fail, but cannot lead it out. ``openat2`` would do the same in the kernel, but only Linux has
it, some containers forbid it, and then it would need this all the same.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from ._names import shown, split
from .errors import FileChanged, NotThere, PathRefused, WrongKind

MAX_LINKS = 40
"""How many links one path may pass, as in Linux; more is a loop, or somebody who keeps swapping."""


class Descent:
    """Goes down once; ``dir_fd`` is then the directory of the last name, until ``close``."""

    def __init__(
        self,
        root_fd: int,
        path: str,
        *,
        from_root: Callable[[list[str]], list[str] | None],
        make_parents: bool,
    ) -> None:
        """``from_root`` tells where in the workspace an absolute link leads, or None; ``path`` is for the errors."""
        self._path = path
        self._from_root = from_root
        self._make_parents = make_parents
        self._links_left = MAX_LINKS
        self._todo: deque[str] = deque()
        self._fds = [os.dup(root_fd)]

    @property
    def dir_fd(self) -> int:
        """The directory that was reached."""
        return self._fds[-1]

    def close(self) -> None:
        """Close every descriptor of the way."""
        while self._fds:
            os.close(self._fds.pop())

    def go(self, names: Sequence[str]) -> tuple[str, os.stat_result | None]:
        """Go down; return the last name, ``.`` when there is none, and what has it, links resolved.

        Raises ``OSError`` beside this package's errors.
        """
        self._todo.extend(names)
        while self._todo:
            name = self._todo.popleft()
            if name == "..":
                self._go_up()
                continue
            status = self._look(name)
            if status is not None and stat.S_ISLNK(status.st_mode):
                self._follow(name)
            elif not self._todo:
                return name, status
            else:
                self._enter(name, status)
        return ".", os.fstat(self.dir_fd)

    def _look(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self.dir_fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _go_up(self) -> None:
        if len(self._fds) == 1:
            raise self._leads_out()
        os.close(self._fds.pop())

    def _follow(self, name: str) -> None:
        if self._links_left == 0:
            raise PathRefused(self._path, f"passes more than {MAX_LINKS} links; name the file itself")
        self._links_left -= 1
        try:
            target = os.readlink(name, dir_fd=self.dir_fd)
        except OSError as error:  # no link any more
            raise FileChanged(self._path) from error
        names = split(target)
        if target.startswith("/"):
            from_root = self._from_root(names)
            if from_root is None:
                raise self._leads_out()
            names = from_root
            while len(self._fds) > 1:
                os.close(self._fds.pop())
        self._todo.extendleft(reversed(names))

    def _enter(self, name: str, status: os.stat_result | None) -> None:
        if status is None:
            if not self._make_parents:
                raise NotThere(self._path, shown(name))
            with suppress(FileExistsError):  # by now; what it is, opening finds out
                os.mkdir(name, dir_fd=self.dir_fd)
        elif not stat.S_ISDIR(status.st_mode):
            raise WrongKind(self._path, "path through a file", f"{shown(name)} in it is no directory")
        self._fds.append(os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self.dir_fd))

    def _leads_out(self) -> PathRefused:
        return PathRefused(self._path, "leads through a link out of the workspace; only files inside can be reached")
