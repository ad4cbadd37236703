"""A file is replaced whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ._stop import Stop
from ._workspace import Place
from .errors import FileChanged, explained

_NEW_MODE = 0o666
"""Of a new file, less the user's umask, as every other program makes one: usually 0644. The files of a workspace are
for the user's compilers, servers and other accounts to read; who wants them private has said so in the umask."""


def replace_file(place: Place, data: bytes, before: os.stat_result | None, stop: Stop) -> None:
    """Put a file of ``data`` at ``place``, durable when this returns; a reader sees the old file or the new one.

    ``before`` is the file that was there, whose permissions and owner stay, or None for a new one. Raises
    ``FileChanged`` when something else is there by now: a change between that last look and the rename, microseconds
    later, would still be lost. Other failures leave what was there.
    """
    with explained(place.path), _temporary(place.dir_fd, 0o600 if before else _NEW_MODE) as (fd, name):
        _write_all(fd, data)
        if before is not None:
            _take_over(fd, before)
        os.fsync(fd)
        stop.check()
        if not is_same(_status(place), before):
            raise FileChanged(place.path)
        os.rename(name, place.name, src_dir_fd=place.dir_fd, dst_dir_fd=place.dir_fd)
        os.fsync(place.dir_fd)


def is_same(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    """Tell whether both are the same file with, as far as the system can tell, the same content."""
    return _identity(one) == _identity(other)


def _identity(status: os.stat_result | None) -> tuple[int, ...] | None:
    if status is None:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _status(place: Place) -> os.stat_result | None:
    try:
        return os.stat(place.name, dir_fd=place.dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


@contextmanager
def _temporary(dir_fd: int, mode: int) -> Iterator[tuple[int, str]]:
    """Open a new file in the directory; it goes again unless it was renamed."""
    name = f".dsh-{secrets.token_hex(8)}.tmp"
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=dir_fd)
    try:
        yield fd, name
    finally:
        os.close(fd)
        with suppress(OSError):
            os.unlink(name, dir_fd=dir_fd)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _take_over(fd: int, before: os.stat_result) -> None:
    """Give the new file the owner and the permissions of the old one."""
    now = os.fstat(fd)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        os.fchown(fd, before.st_uid, before.st_gid)
    os.fchmod(fd, before.st_mode & 0o777)  # new content does not inherit the privilege of set-id bits
