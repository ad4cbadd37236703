"""Reading small files that may be anything: a pipe, a folder, a disk of zeros."""

from __future__ import annotations

import os
import stat

MAX_FILE_BYTES = 1 << 20


def read_regular(path: str, *, follows: bool) -> bytes:
    """Return what a file holds, be it a link where ``follows`` says so. Never waits for a writer.

    Raises ``OSError``, also for what is no file or larger than ``MAX_FILE_BYTES``.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follows else os.O_NOFOLLOW))
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(0, "it is no regular file")
        with open(fd, "rb", closefd=False) as file:
            data = file.read(MAX_FILE_BYTES + 1)
    finally:
        os.close(fd)
    if len(data) > MAX_FILE_BYTES:
        raise OSError(0, f"it is larger than {MAX_FILE_BYTES} bytes")
    return data
