"""Files that hold the whole of a stream whose tail alone stays in memory."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import tempfile
from pathlib import Path


class SpillFolder:
    """A private temporary folder, made when the first file needs it (BEHAVIOUR 2.44).

    The files outlive the host on purpose: their paths are handed out, and whoever got one reads later.
    """

    def __init__(self, parent: str | None = None) -> None:
        self._parent = parent
        self._path: str | None = None
        self._numbers = itertools.count(1)

    def create(self, stream: str) -> SpillFile:
        """Open a new file for ``stream``, readable by this user alone. Raises ``OSError``."""
        if self._path is None or not Path(self._path).is_dir():
            self._path = tempfile.mkdtemp(prefix="dsh-subprocess-", dir=self._parent)
        name = f"dsh-subprocess-{os.getpid()}-{next(self._numbers)}-{secrets.token_hex(6)}-{stream}.log"
        path = os.path.join(self._path, name)
        return SpillFile(path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


class SpillFile:
    """One open file of a stream."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def write(self, data: bytes | bytearray) -> None:
        """Append all of ``data``. Raises ``OSError``."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def close(self) -> None:
        """Close once. Raises ``OSError`` when the system reports a late write failure."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def discard(self) -> None:
        """Close and delete, whatever state the file is in."""
        with contextlib.suppress(OSError):  # the content is unwanted, so is the report about it
            self.close()
        with contextlib.suppress(OSError):
            Path(self.path).unlink(missing_ok=True)
