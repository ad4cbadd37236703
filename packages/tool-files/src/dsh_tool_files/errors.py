"""What the file tools refuse. Every refusal is a ``ToolError``: the model reads it and goes on.

::

    FilesError               path
    ├── ArgumentRefused      an argument that means nothing, such as an offset of 0
    ├── NoWorkspace          nobody's call, or a session without a directory that can be opened
    ├── PathRefused          a path that leads out of the workspace, or that no file can have
    ├── NotThere             nothing has that name
    ├── WrongKind            kind: something has that name, and the tool is not for it
    ├── NotText              kind, size_bytes: a file that is not UTF-8 text
    ├── TooLarge             limit_bytes
    ├── FileChanged          somebody else changed it meanwhile; nothing was written
    ├── TextNotFound         the text to replace is not there
    ├── TextNotUnique        lines: it is there more than once
    ├── PatternInvalid       pattern: no glob pattern, or no regular expression
    ├── SearchStopped        a search that took too long, or whose process ended
    └── SystemRefused        errno: what the operating system said
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from dsh_agent import ToolError


class FilesError(ToolError):
    """The root of this package's errors; ``name`` is the class, ``code`` the same for programs."""

    _CODE: ClassVar[str]

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message, name=type(self).__name__, code=self._CODE)
        self.path = path
        """What it is about, as the call named it."""


class ArgumentRefused(FilesError):
    """An argument has a value that means nothing."""

    _CODE = "ARGUMENT_REFUSED"


class NoWorkspace(FilesError):
    """There is no directory to work in."""

    _CODE = "NO_WORKSPACE"


class PathRefused(FilesError):
    """The path leads out of the workspace, or no file can have it."""

    _CODE = "PATH_REFUSED"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, f"{path!r} {reason}")


class NotThere(FilesError):
    """Nothing has that name."""

    _CODE = "NOT_FOUND"

    def __init__(self, path: str, missing: str) -> None:
        detail = "" if missing == path else f" (there is no {missing})"
        super().__init__(path, f"{path} does not exist{detail}; find out with glob what does")


class WrongKind(FilesError):
    """Something else has that name: a directory, a pipe, a device."""

    _CODE = "WRONG_KIND"

    def __init__(self, path: str, kind: str, advice: str) -> None:
        super().__init__(path, f"{path} is a {kind}; {advice}")
        self.kind = kind


class NotText(FilesError):
    """The file is not UTF-8 text."""

    _CODE = "NOT_TEXT"

    def __init__(self, path: str, *, kind: str, size_bytes: int) -> None:
        advice = "use bash with a program that knows this kind of file, or convert it to UTF-8 first"
        super().__init__(path, f"{path} is not UTF-8 text: {kind}, {size_bytes} bytes; {advice}")
        self.kind = kind
        self.size_bytes = size_bytes


class TooLarge(FilesError):
    """The file is larger than the tool reaches."""

    _CODE = "TOO_LARGE"

    def __init__(self, path: str, limit_bytes: int, advice: str) -> None:
        super().__init__(path, f"{path} is too large: this tool reaches {limit_bytes} bytes; {advice}")
        self.limit_bytes = limit_bytes


class FileChanged(FilesError):
    """Somebody else changed what the tool was at work on; nothing was written."""

    _CODE = "FILE_CHANGED"

    def __init__(self, path: str) -> None:
        super().__init__(path, f"{path} was changed by somebody else meanwhile, nothing was written; read it again")


class TextNotFound(FilesError):
    """The text to replace is not in the file."""

    _CODE = "TEXT_NOT_FOUND"

    def __init__(self, path: str, hint: str) -> None:
        super().__init__(path, f"old_string is not in {path}, nothing was changed; {hint}")


class TextNotUnique(FilesError):
    """The text to replace is in the file more than once."""

    _CODE = "TEXT_NOT_UNIQUE"

    def __init__(self, path: str, lines: Sequence[int]) -> None:
        where = ", ".join(map(str, lines))
        advice = "give more of the text around the place, or set replace_all"
        super().__init__(path, f"old_string is in {path} more than once (lines {where}), nothing was changed; {advice}")
        self.lines = tuple(lines)
        """Where it begins, the first few."""


class PatternInvalid(FilesError):
    """A pattern that is none."""

    _CODE = "PATTERN_INVALID"

    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__("", f"invalid pattern {pattern!r}: {reason}")
        self.pattern = pattern


class SearchStopped(FilesError):
    """A search did not come to its end."""

    _CODE = "SEARCH_STOPPED"


class SystemRefused(FilesError):
    """The operating system did not do it."""

    _CODE = "SYSTEM_REFUSED"

    def __init__(self, path: str, number: int) -> None:
        advice = _ADVICE.get(number, "try again, or use bash to find out more")
        super().__init__(path, f"{path}: {os.strerror(number)}; {advice}")
        self.errno = number


_ADVICE = {
    errno.EACCES: "ask the user for access, or work elsewhere in the workspace",
    errno.EPERM: "ask the user for access, or work elsewhere in the workspace",
    errno.EROFS: "write elsewhere in the workspace",
    errno.ENOSPC: "nothing was changed; make room first",
    errno.EDQUOT: "nothing was changed; make room first",
    errno.EMFILE: "too much is open at once; try again later",
    errno.ENFILE: "too much is open at once; try again later",
}
_SWAPPED = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO)
"""What opening or renaming says when a name, checked a moment ago, has become something else."""


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn an ``OSError`` about ``path`` into the ``FilesError`` that says what to do next."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotThere(path, path) from error
    except OSError as error:
        number = error.errno or 0
        if number in _SWAPPED:
            raise FileChanged(path) from error
        if number == errno.ENAMETOOLONG:
            raise PathRefused(path, "has a name too long for this file system; choose a shorter one") from error
        raise SystemRefused(path, number) from error
