"""The claim on a session between processes: the same lock that ``dsh`` itself takes (GENERATIONS §1)."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from dsh_persistence import SessionBusy, StoreUnusable

from ._layout import LOCK_NAME

_TRIES = 3
_LOCKS = Path("/proc/locks")
_LOCK_FIELDS = 8


class Lease:
    """An exclusive ``flock`` on the session's lock file, held until closed or until this process dies.

    ``flock`` and not a POSIX lock, which vanishes when any descriptor of the file closes. The file is never deleted.
    """

    def __init__(self, folder: Path, session_id: str) -> None:
        """Take the lease. Raises ``SessionBusy`` at once when somebody holds it."""
        try:
            import fcntl  # noqa: PLC0415  # absent on Windows, where logs can be read all the same
        except ImportError:
            raise StoreUnusable(str(folder), "writing needs flock, which this platform does not have") from None
        path = folder / LOCK_NAME
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
