"""File-system steps whose order is the durability protocol (DURABILITY §3)."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_READ_BYTES = 1 << 20


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_folders(folder: Path, *, root: Path) -> None:
    """Make ``folder`` and whatever is missing above it, private and durable at every level.

    Below ``root`` a level that exists is synced as well: an earlier run may have died between making and syncing it.
    """
    if folder != root:
        make_folders(folder.parent, root=root)
    elif not folder.parent.is_dir():
        make_folders(folder.parent, root=folder.parent)
    try:
        folder.mkdir(0o700)
    except FileExistsError:
        if not folder.is_dir() or (folder != root and folder.is_symlink()):
            raise NotADirectoryError(errno.ENOTDIR, "a folder is needed here, and this is none", str(folder)) from None
        if folder == root:
            return
    sync_folder(folder.parent)


def write_all(fd: int, data: bytes, offset: int) -> None:
    """Write all of ``data`` at ``offset``, however many calls that takes."""
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view = view[written:]
        offset += written


def read_all(fd: int) -> bytes:
    """Return the file's bytes up to the size it has now; what a live writer adds meanwhile is left out."""
    size = os.fstat(fd).st_size
    parts: list[bytes] = []
    offset = 0
    while offset < size:
        part = os.pread(fd, min(_READ_BYTES, size - offset), offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def write_new(path: Path, data: bytes) -> None:
    """Create ``path``, private, and make its content durable; its name is not synced. Never follows or replaces."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        write_all(fd, data, 0)
        os.fsync(fd)
    finally:
        os.close(fd)
