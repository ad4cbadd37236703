"""The one who makes a log longer (DURABILITY §3).

Nothing is acknowledged before it is synced. After any failed write or sync the old descriptor is never trusted again:
the log is cut back to what was acknowledged through a new one, and the batch is written afresh.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from dsh_persistence import (
    ForeignChange,
    Receipt,
    Repair,
    SeqConflict,
    SessionAlreadyStored,
    StoredPrefix,
    StoreUnusable,
)
from dsh_session import EncodedBatch, SessionHeader, encode_header

from ._disk import make_folders, sync_folder, write_all, write_new
from ._frames import compress_frame
from ._layout import Encoding, logs_in
from ._lease import Lease
from ._rows import encode_row

if TYPE_CHECKING:
    from ._store import JsonlLogStore


class JsonlLogWriter:
    """The claim on one session's log."""

    def __init__(
        self,
        store: JsonlLogStore,
        header: SessionHeader,
        path: Path,
        encoding: Encoding,
        *,
        lease: Lease | None = None,
        stored: StoredPrefix | None = None,
        end: int = 0,
    ) -> None:
        """With a ``lease`` it writes an existing log, found as ``stored``, whose intact part ends at ``end``."""
        self.stored = stored
        self.next_seq = 0 if stored is None else stored.next_seq - stored.salvaged
        self._store = store
        self._header = header
        self._path = path
        self._encoding: Encoding = encoding
        self._lease = lease
        self._end = end
        self._fd: int | None = None
        self._published = stored is not None
        self._checked_new = False
        self._linked = False
        self._unrepaired = stored is not None and stored.torn is not None
        self._closed = False

    def append(self, batch: EncodedBatch) -> Receipt:
        """Write a batch; durable when it returns. See ``LogWriter.append`` for the errors."""
        if self._unrepaired:
            self.repair()
        if batch.first_seq != self.next_seq:
            raise SeqConflict(self._header.id, expected=self.next_seq, found=batch.first_seq)
        encoded = self._frame(b"".join(map(encode_row, batch.events)))
        if self._published:
            self._extend(encoded)
        else:
            self._publish(encoded)
        self.next_seq = batch.next_seq
        return Receipt(next_seq=self.next_seq, digest=hashlib.blake2b(encoded, digest_size=16).digest())

    def repair(self) -> Repair | None:
        """Save and cut the torn tail, then append again what was salvaged from it. Idempotent."""
        if self.stored is None or self.stored.torn is None or not self._unrepaired:
            return None
        torn, salvaged = self.stored.torn, self.stored.salvaged
        saved_as = self._save_tail(torn.offset)
        self._heal()
        self._unrepaired = False
        if salvaged:
            events = tuple(self.stored.events[len(self.stored.events) - salvaged :])
            self.append(EncodedBatch(first_seq=self.next_seq, events=events))
        return Repair(cut=torn, saved_as=saved_as, salvaged=salvaged)

    def close(self) -> None:
        """Give up the claim."""
        self._forget_descriptor()
        if self._lease is not None:
            self._lease.close()
            self._lease = None
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _frame(self, plain: bytes) -> bytes:
        return compress_frame(plain) if self._encoding == "zstd" else plain

    def _publish(self, encoded: bytes) -> None:
        """Make the log appear with its header and first batch at once, or not at all."""
        self._claim_new()
        self._retract()
        content = self._frame(encode_header(self._header)) + encoded
        staged = self._path.with_name(f"{self._path.name}.{secrets.token_hex(6)}.tmp")
        try:
            write_new(staged, content)
            os.link(staged, self._path)  # fails where the name exists: two creators cannot replace each other
            self._linked = True
            staged.unlink()
            sync_folder(self._path.parent)
        except OSError:
            staged.unlink(missing_ok=True)
            self._retract()
            raise
        self._end = len(content)
        self._published = True

    def _retract(self) -> None:
        """Take back a name that a failed publication left: under the lease, and never acknowledged, it is ours."""
        if self._linked:
            self._path.unlink(missing_ok=True)
            self._linked = False

    def _claim_new(self) -> None:
        if self._checked_new:
            return
        self._store.check_new(self._header, self._encoding)
        folder = self._path.parent
        try:
            make_folders(folder, root=self._store.root)
            if self._lease is None:
                self._lease = Lease(folder, self._header.id)
        except (PermissionError, NotADirectoryError) as error:
            raise StoreUnusable(error.filename or str(folder), f"cannot be written: {error.strerror}") from error
        if existing := logs_in(folder):
            self._lease.close()
            self._lease = None
            raise SessionAlreadyStored(self._header.id, str(existing[0].path))
        self._checked_new = True

    def _extend(self, encoded: bytes) -> None:
        fd = self._trusted_descriptor()
        self._require_unchanged(fd)
        try:
            write_all(fd, encoded, self._end)
            os.fdatasync(fd)
        except OSError:
            self._forget_descriptor()
            raise
        self._end += len(encoded)

    def _trusted_descriptor(self) -> int:
        """Return a descriptor on which nothing has failed, opening and healing the log where there is none."""
        if self._fd is None:
            return self._heal()
        return self._fd

    def _heal(self) -> int:
        """Open the log anew, cut it back to what was acknowledged, and make that durable."""
        fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            size = os.fstat(fd).st_size
            if size < self._end:
                raise ForeignChange(str(self._path), f"it was cut to {size} bytes, {self._end} are acknowledged")
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.ftruncate(fd, self._end)
            os.fsync(fd)
            sync_folder(self._path.parent)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        return fd

    def _require_unchanged(self, fd: int) -> None:
        held = os.fstat(fd)
        if held.st_size != self._end:
            raise ForeignChange(str(self._path), f"it has {held.st_size} bytes where this writer left {self._end}")
        try:
            named = self._path.lstat()
        except FileNotFoundError:
            raise ForeignChange(str(self._path), "it was removed") from None
        if (held.st_dev, held.st_ino) != (named.st_dev, named.st_ino):
            raise ForeignChange(str(self._path), "another file has taken its place")

    def _forget_descriptor(self) -> None:
        # Linux frees the number even when close reports an error, so it is forgotten first and closed once.
        fd, self._fd = self._fd, None
        if fd is not None:
            with contextlib.suppress(OSError):  # what was acknowledged is synced already
                os.close(fd)

    def _save_tail(self, offset: int) -> str | None:
        """Keep the bytes that are about to be cut, unless they are only zeros."""
        tail = self._path.read_bytes()[offset:]
        if not tail.strip(b"\0"):
            return None
        digest = hashlib.sha256(tail).hexdigest()[:12]
        saved = self._path.with_name(f"{self._path.name}.torn-{offset}-{digest}")
        if not saved.exists():
            write_new(saved, tail)
            sync_folder(saved.parent)
        return str(saved)
