"""The lock file of each session, beside the SQLite file: held by one writer, freed when its process dies."""

from __future__ import annotations

import os
import stat
from hashlib import blake2b
from pathlib import Path

from dsh_persistence import SessionBusy, StoreUnusable
from dsh_persistence.files import Lease, usable

from ._text import to_bytes


class FileClaim:
    """The claim on one session."""

    def __init__(self, lease: Lease, session_id: str) -> None:
        self._lease: Lease | None = lease
        self._session_id = session_id
        self._pid = os.getpid()

    def require(self) -> None:
        """Raise ``SessionBusy`` in a fork of the owner: the two of them would share the lock."""
        if self._pid != os.getpid():
            raise SessionBusy(self._session_id, f"process {self._pid}, of which this one is a fork")

    def release(self) -> None:
        """Remove the lock file; in a fork of its owner it stays, for it is still the owner's."""
        lease, self._lease = self._lease, None
        if lease is not None:
            if self._pid == os.getpid():
                lease.discard()
            else:
                lease.close()


def claim_file(folder: Path, session_id: str) -> FileClaim:
    """Claim a session by its lock file in ``folder``. Raises ``SessionBusy`` at once when somebody holds it."""
    with usable(folder):
        try:
            os.mkdir(folder, 0o700)  # noqa: PTH102  # so that a test which fails the calls of ``os`` reaches it
        except FileExistsError:
            if not stat.S_ISDIR(os.lstat(folder).st_mode):
                raise StoreUnusable(str(folder), "is no folder; the locks of the sessions lie there") from None
        return FileClaim(Lease(lock_file(folder, session_id), session_id), session_id)


def lock_file(folder: Path, session_id: str) -> Path:
    """Return the lock file of a session."""
    # Ids are longer than file names may be, and a file system may take two of them for one.
    return folder / f"{blake2b(to_bytes(session_id), digest_size=16).hexdigest()}.lock"
