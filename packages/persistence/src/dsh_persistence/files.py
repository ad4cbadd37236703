"""For stores that keep files: the steps whose order makes a file durable, and the lease on one (DURABILITY §3)."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from .errors import SessionBusy, StoreUnusable

# Errors that say what a place is, rather than what went wrong there once.
_LASTING = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
NO_FILE = frozenset({errno.EINVAL, errno.ELOOP, errno.EISDIR, errno.ENXIO})
"""Errors of ``open_regular`` that say that the name leads to something else than a file."""

_TRIES = 3
_LOCKS = Path("/proc/locks")
_LOCK_FIELDS = 8


@contextmanager
def usable(place: str | os.PathLike[str]) -> Generator[None]:
    """Turn errors that will not pass by themselves into ``StoreUnusable``; ``place`` is named where they name none."""
    try:
        yield
    except OSError as error:
        require_passing(error, place)
        raise


def require_passing(error: OSError, place: str | os.PathLike[str]) -> None:
    """Raise ``StoreUnusable`` for an error that will not pass by itself."""
    if error.errno in _LASTING:
        raise StoreUnusable(str(error.filename or place), f"cannot be used: {error.strerror}") from error


def open_regular(path: str) -> tuple[int, os.stat_result]:
    """Open a file for reading, and tell its state. Follows no link, and no pipe in its place holds it up."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", path)
    except OSError:
        os.close(fd)
        raise
    return fd, status


def sync_content(fd: int) -> None:
    """Make a file's bytes and size durable."""
    if sys.platform == "darwin":
        sync_file(fd)
    else:
        os.fdatasync(fd)


def sync_file(fd: int) -> None:
    """Make a file durable."""
    if sys.platform == "darwin":
        import fcntl  # noqa: PLC0415  # absent on Windows

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # fsync stops at the drive's cache there
    else:
        os.fsync(fd)


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


def read_all(fd: int, size: int, begin: int = 0) -> bytes:
    """Return ``size`` bytes from ``begin`` on, or as many as there are; what a live writer adds is left out."""
    content = os.pread(fd, size, begin)
    if len(content) == size:
        return content  # as nearly always; one copy of a large log is enough
    parts = [content]
    while part := os.pread(fd, size - sum(map(len, parts)), begin + sum(map(len, parts))):
        parts.append(part)
    return b"".join(parts)


def write_new(path: Path, data: bytes) -> os.stat_result:
    """Create ``path``, private, and make its content durable; its name is not synced. Never follows or replaces."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        write_all(fd, data, 0)
        sync_file(fd)
        return os.fstat(fd)
    finally:
        os.close(fd)


class Lease:
    """An exclusive ``flock`` on the session's lock file, held until closed or until this process dies.

    ``flock`` and not a POSIX lock, which vanishes when any descriptor of the file closes. A file that was
    removed or replaced meanwhile is no lease: it is taken anew.
    """

    def __init__(self, path: Path, session_id: str) -> None:
        """Take the lease through the lock file at ``path``. Raises ``SessionBusy`` at once when somebody holds it."""
        try:
            import fcntl  # noqa: PLC0415  # absent on Windows, where logs can be read all the same
        except ImportError:
            raise StoreUnusable(str(path), "writing needs flock, which this platform does not have") from None
        self._path = path
        for _ in range(_TRIES):
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is(self._fd, path):
                    return
            except BlockingIOError:
                _close(self._fd)
                raise SessionBusy(session_id, f"{holder_of(path) or 'another writer'} (lock {path})") from None
            except BaseException:
                _close(self._fd)
                raise
            _close(self._fd)
        raise SessionBusy(session_id, f"somebody who replaces {path}")

    def close(self) -> None:
        """Release the lease."""
        _close(self._fd)

    def discard(self) -> None:
        """Remove the lock file, for which nothing but this lease has a use, and release the lease."""
        with contextlib.suppress(OSError):  # whoever comes next takes the lease of what is left
            self._path.unlink()
        self.close()


def holder_of(lock: Path) -> str | None:
    """Return who holds the lock of a session, for people; None when nobody does or it cannot be known.

    Takes no lock itself, so that it stands in nobody's way.
    """
    try:
        status = lock.lstat()
        held = _LOCKS.read_text()
    except OSError:
        return None
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in held.splitlines():
        # 7: FLOCK  ADVISORY  WRITE 4711 fe:00:393276 0 EOF
        fields = line.split()
        if len(fields) == _LOCK_FIELDS and fields[1] == "FLOCK" and fields[5] == place:
            return _process(int(fields[4]))
    return None


def _process(pid: int) -> str:
    if pid <= 0:
        return "a process out of sight"
    if pid == os.getpid():
        return "another writer of this process"
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return f"process {pid}"
    return f"process {pid} ({name})"


def _close(fd: int) -> None:
    with contextlib.suppress(OSError):  # Linux lets go of the file, and so of the lock, all the same
        os.close(fd)


def _is(fd: int, path: Path) -> bool:
    """Tell whether the name still leads to the locked file."""
    try:
        named = path.lstat()
    except FileNotFoundError:
        return False
    held = os.fstat(fd)
    return (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)
