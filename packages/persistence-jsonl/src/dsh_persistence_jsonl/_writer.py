"""The one who makes a log longer (DURABILITY §3).

Nothing is acknowledged before it is synced. After any failed write or sync the old descriptor is never trusted again:
the log is cut back to what was acknowledged through a new one, and the batch is written afresh.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias, TypeVar

from dsh_persistence import (
    ForeignChange,
    OutcomeUnknown,
    Receipt,
    Repair,
    RowTooLarge,
    SeqConflict,
    SessionAlreadyStored,
    SessionCorrupt,
    SessionIdCollision,
    SessionLocation,
    StoredPrefix,
    unwritten,
)
from dsh_persistence.files import (
    Lease,
    make_folders,
    require_passing,
    sync_content,
    sync_file,
    sync_folder,
    usable,
    write_all,
    write_new,
)
from dsh_session import EncodedBatch, SessionHeader, encode_header

from ._frames import FrameEncoder
from ._index import IndexWriter
from ._layout import LOCK_NAME, Encoding, LogFile, logs_in, remove_leftovers
from ._mark import DIGEST_BYTES, Mark, MarkWriter, digest_of, read_mark
from ._read import opened, read_whole
from ._rows import encode_row

FRAME_BYTES = 64 << 20
"""The most text that goes into one frame, but for a longer row."""
ROW_BYTES = 16 << 20
"""The longest row a writer makes."""

T = TypeVar("T")

Syncs: TypeAlias = Generator[int, None, T]
"""Work that yields each descriptor whose content has to be durable before it goes on.

Where that fails the ``OSError`` is thrown into it.
"""

if TYPE_CHECKING:
    from ._store import JsonlLogStore


class Found(NamedTuple):
    """An existing log as it was found under the claim."""

    stored: StoredPrefix
    end: int
    """Where its intact part ends."""
    status: os.stat_result
    lease: Lease
    known: list[tuple[int, int]]
    """The (first seq, offset) of each of its stretches."""


class JsonlLogWriter:
    """The claim on one session's log."""

    def __init__(
        self, store: JsonlLogStore, header: SessionHeader, path: Path, encoding: Encoding, *, found: Found | None = None
    ) -> None:
        """With ``found`` it goes on with an existing log."""
        stored = self.stored = None if found is None else found.stored
        self.next_seq = 0 if stored is None else stored.next_seq - stored.salvaged
        self._store = store
        self._header = header
        self._path = path
        self._log = str(path)
        self._folder = path.parent
        self._encoder = FrameEncoder() if encoding == "zstd" else None
        self._encoding: Encoding = encoding
        self._lease = None if found is None else found.lease
        self._end = 0 if found is None else found.end
        self._digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
        """Of the first ``_end`` bytes of the log, once they are durable."""
        self._marked = found is None
        """Whether the mark of a log that was found says what this writer builds on."""
        self._surplus = 0 if found is None else found.status.st_size - found.end
        """How many bytes may lie beyond the end: a torn tail, or what a failed write of ours left."""
        self._status = None if found is None else found.status
        self._fd: int | None = None
        self._trusted = False
        """Whether everything up to the end is durable and nothing lies beyond it."""
        self._checked_new = False
        self._linked = False
        self._saved_as: str | None = None
        self._cut = False
        self._unrepaired = stored is not None and stored.torn is not None
        self._closed = False
        self._mark = MarkWriter(str(path))
        self._index = IndexWriter(str(path), () if found is None else found.known)

    @property
    def is_ready(self) -> bool:
        """Whether the log is published, durable and whole, so that appending only writes, syncs and acknowledges."""
        return self._trusted and not self._unrepaired

    def append(self, batch: EncodedBatch) -> Receipt:
        """Write a batch; durable when it returns. See ``LogWriter.append`` for the errors."""
        return _alone(self.appending(batch))

    def appending(self, batch: EncodedBatch) -> Syncs[Receipt]:
        """Append in steps, between which somebody else syncs the log."""
        self.repair()
        return (yield from self._appending(batch))

    def resend(self, batch: EncodedBatch) -> Receipt:
        """Settle an unknown outcome: adopt what lies there of a batch and write the rest.

        What this writer could not make sure of it writes again; only what was found when the log was opened, or
        acknowledged since, is adopted.
        """
        self.repair()
        if batch.first_seq >= self.next_seq:
            return self._append(batch)
        self._require_open()
        place = SessionLocation(kind="jsonl", path=self._log)
        rest = unwritten(self._header.id, batch, self._store.read(place, from_seq=batch.first_seq))
        with usable(self._folder):
            self._trusted_descriptor()
        if rest.events:
            self._append(rest)
        return Receipt(next_seq=batch.next_seq, digest=_digest(self._frames_of(batch)))

    def repair(self) -> Repair | None:
        """Save and cut the torn tail, then append again what was salvaged from it. Idempotent."""
        if self.stored is None or self.stored.torn is None or not self._unrepaired:
            return None
        self._require_open()
        torn, salvaged = self.stored.torn, self.stored.salvaged
        if not self._cut:
            with usable(self._folder):
                self._saved_as = self._save_tail(torn.offset) or self._saved_as
                self._trusted_descriptor()
            self._cut = True
        events = tuple(self.stored.events[len(self.stored.events) - salvaged :]) if salvaged else ()
        self._append(EncodedBatch(first_seq=self.next_seq, events=events))
        self._unrepaired = False
        return Repair(cut=torn, saved_as=self._saved_as, salvaged=salvaged)

    def checkpoint(self) -> None:
        """Make the mark durable, and bring the index up to date."""
        self._mark.checkpoint()
        self._index.flush()

    def close(self) -> None:
        """Give up the claim."""
        self._index.close()
        self._mark.close()
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

    def _require_open(self) -> None:
        if self._closed:
            msg = f"the writer of session {self._header.id!r} is closed"
            raise ValueError(msg)

    def _append(self, batch: EncodedBatch) -> Receipt:
        return _alone(self._appending(batch))

    def _appending(self, batch: EncodedBatch) -> Syncs[Receipt]:
        self._require_open()
        if batch.first_seq != self.next_seq:
            raise SeqConflict(self._header.id, expected=self.next_seq, found=batch.first_seq)
        frames = self._frames_of(batch)
        begin = self._end
        try:  # the context manager ``usable`` would cost as much as a system call at every append
            if frames and self._status is None:
                begin = self._publish(frames)
            elif frames:
                yield from self._extend(frames)
        except OSError as error:
            require_passing(error, self._folder)
            raise
        if frames:
            self._index.add(batch.first_seq, begin)
        self.next_seq = batch.next_seq
        return Receipt(next_seq=self.next_seq, digest=_digest(frames))

    def _frames_of(self, batch: EncodedBatch) -> list[bytes]:
        """Return what is written of a batch, as often as one likes the same: frames, or the text of raw rows."""
        rows = [encode_row(event) for event in batch.events]
        text = b"".join(rows)
        if len(text) > ROW_BYTES:
            for seq, row in enumerate(rows, batch.first_seq):
                if len(row) > ROW_BYTES:
                    raise RowTooLarge(self._log, seq=seq, limit_bytes=ROW_BYTES)
        texts = _in_frames(rows) if len(text) > FRAME_BYTES else [text] if text else []
        return [self._frame(text) for text in texts]

    def _frame(self, text: bytes) -> bytes:
        return text if self._encoder is None else self._encoder.encode(text)

    def _publish(self, frames: Sequence[bytes]) -> int:
        """Make the log appear, whole and durable, its header first; return where the batch begins in it."""
        self._claim_new()
        header = self._frame(encode_header(self._header))
        content = b"".join((header, *frames))
        staged = self._path.with_name(f"{self._path.name}.{os.urandom(6).hex()}.tmp")
        try:
            self._retract()
            status = write_new(staged, content)
            os.link(staged, self._path)  # fails where the name exists: two creators cannot replace each other
            self._linked = True
            staged.unlink()
            sync_folder(self._folder)
            # Only now, so that no crash leaves a mark without its log for somebody else's log to be judged by.
            digest = hashlib.blake2b(content, digest_size=DIGEST_BYTES)
            self._mark.establish(Mark(len(content), digest.digest()))
        except OSError as error:
            with contextlib.suppress(OSError):
                staged.unlink(missing_ok=True)  # or whoever claims the session next removes it
            if self._linked:
                self._require_settled(error, self._retract)
            elif isinstance(error, FileExistsError):  # somebody without the lease was faster
                raise SessionAlreadyStored(self._header.id, self._log) from None
            raise
        self._end, self._digest, self._status, self._trusted = len(content), digest, status, True
        return len(header)

    def _retract(self) -> None:
        """Take back what a failed publication left: under the lease, and never acknowledged, it is ours.

        A mark goes first and durably, also one that an earlier log of this name left behind.
        """
        self._mark.discard()
        if self._linked:
            self._path.unlink(missing_ok=True)
            sync_folder(self._folder)
            self._linked = False

    def _claim_new(self) -> None:
        if self._checked_new:
            return
        self._store.check_new(self._header, self._encoding)
        folder = self._folder
        make_folders(folder, root=self._store.root)
        if folder.name not in os.listdir(folder.parent):  # noqa: PTH208  # names, and a Path for each is no use
            raise SessionIdCollision(self._header.id, str(folder))
        if self._lease is None:
            self._lease = Lease(folder / LOCK_NAME, self._header.id)
        if existing := logs_in(str(folder)):
            self._lease.close()
            self._lease = None
            raise SessionAlreadyStored(self._header.id, str(existing[0].path))
        remove_leftovers(folder)
        self._checked_new = True

    def _extend(self, frames: Sequence[bytes]) -> Syncs[None]:
        fd = self._trusted_descriptor()
        self._require_unchanged()
        end, digest = self._end, self._digest.copy()
        self._trusted, self._surplus = False, sum(map(len, frames))
        try:
            for frame in frames:
                # One unsynced frame at most: a torn one that an intact one follows would be damage to any reader.
                write_all(fd, frame, end)
                yield fd
                digest.update(frame)
                end += len(frame)
        except OSError as error:
            self._require_settled(error, self._heal)
            raise
        self._end, self._digest, self._trusted, self._surplus = end, digest, True, 0
        self._mark.advance(Mark(end, digest.digest()))

    def _require_settled(self, error: OSError, undo: Callable[[], object]) -> None:
        """Undo what failed with ``error``. Raises ``OutcomeUnknown`` when that fails as well."""
        try:
            undo()
        except OSError as second:
            reason = f"a write failed ({error.strerror}), and so did taking it back ({second.strerror})"
            raise OutcomeUnknown(self._log, reason) from error

    def _trusted_descriptor(self) -> int:
        """Return a descriptor on which nothing has failed, of a log that is durable up to its end and ends there."""
        if not self._trusted:
            return self._heal()
        return self._open_log() if self._fd is None else self._fd

    def _open_log(self) -> int:
        self._forget_descriptor()
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ELOOP):
                raise
            what = "it was removed" if error.errno == errno.ENOENT else "a link has taken its place"
            raise ForeignChange(self._log, what) from None
        if self._status is None or not os.path.samestat(os.fstat(self._fd), self._status):
            self._forget_descriptor()
            raise ForeignChange(self._log, "another file has taken its place")
        return self._fd

    def _heal(self) -> int:
        """Open the log anew, cut it back to what was acknowledged or found, and make that durable."""
        fd = self._open_log()
        self._require_unchanged(surplus=self._surplus)
        if self._marked and hasattr(os, "posix_fadvise"):  # a sync of ours failed: its pages tell nothing
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if os.fstat(fd).st_size != self._end:
            os.ftruncate(fd, self._end)
        sync_file(fd)
        sync_folder(self._folder)
        if not self._marked:
            self._digest = digest_of(fd, self._end)
            self._mark.establish(Mark(self._end, self._digest.digest()))
        self._trusted, self._marked, self._surplus = True, True, 0
        return fd

    def _require_unchanged(self, *, surplus: int = 0) -> None:
        """Check that what has the log's name is the file that this writer knows and has open, and as it left it."""
        try:
            named = os.lstat(self._log)
        except FileNotFoundError:
            raise ForeignChange(self._log, "it was removed") from None
        known = self._status
        if known is None or named.st_ino != known.st_ino or named.st_dev != known.st_dev:
            raise ForeignChange(self._log, "another file has taken its place")
        if named.st_nlink != known.st_nlink:
            raise ForeignChange(self._log, f"it has {named.st_nlink} names where it had {known.st_nlink}")
        if not self._end <= named.st_size <= self._end + surplus:
            raise ForeignChange(self._log, f"it has {named.st_size} bytes where this writer left {self._end}")

    def _forget_descriptor(self) -> None:
        # Linux frees the number even when close reports an error, so it is forgotten first and closed once.
        fd, self._fd = self._fd, None
        if fd is not None:
            with contextlib.suppress(OSError):  # what was acknowledged is synced already
                os.close(fd)

    def _save_tail(self, offset: int) -> str | None:
        """Keep the bytes that are about to be cut, unless they are only zeros."""
        tail = self._path.read_bytes()[offset:]
        saved = saved_tail(self._path, offset, tail)
        if saved is None:
            return None
        if not saved.exists() or saved.read_bytes() != tail:  # an earlier run may have died while saving
            saved.unlink(missing_ok=True)
            write_new(saved, tail)
        sync_folder(saved.parent)
        return str(saved)


def saved_tail(log: Path, offset: int, tail: bytes) -> Path | None:
    """Return where a torn tail is kept; None for one that is only zeros."""
    digest = hashlib.sha256(tail).hexdigest()[:12]
    return log.with_name(f"{log.name}.torn-{offset}-{digest}") if tail.strip(b"\0") else None


def lower_mark(log: LogFile) -> tuple[int, int]:
    """Let the mark of an intact log vouch for no more than is there; return what it said before and says now.

    The caller holds the lease. Raises ``ValueError`` when the mark is not ahead, and ``SessionCorrupt`` for a log that
    is not whole to its last byte: what made it shorter was no copying then.
    """
    mark = read_mark(log.path)
    scan, _, _ = read_whole(log, fresh=True, trusting=True)
    if mark is not None and scan.torn is not None and mark.length > scan.end:
        reason = f"{mark.length} bytes were acknowledged, {scan.end} are intact, and other bytes follow them"
        raise SessionCorrupt(log.path, reason, offset=scan.end)
    if mark is None or mark.length <= scan.end:
        msg = f"{log.path} is not shorter than what was acknowledged; there is nothing to accept"
        raise ValueError(msg)
    with opened(log) as (fd, _):
        digest = digest_of(fd, scan.end)
    writer = MarkWriter(log.path)
    writer.discard()
    try:
        writer.establish(Mark(scan.end, digest.digest()))
    finally:
        writer.close()
    return mark.length, scan.end


def _alone(steps: Syncs[T]) -> T:
    """Take all steps, with the syncs between them."""
    try:
        fd = next(steps)
        while True:
            try:
                sync_content(fd)
            except OSError as error:
                fd = steps.throw(error)
            else:
                fd = next(steps)
    except StopIteration as done:
        result: T = done.value
        return result


def _digest(frames: Iterable[bytes]) -> bytes:
    return hashlib.blake2b(b"".join(frames), digest_size=16).digest()


def _in_frames(rows: Iterable[bytes]) -> Iterator[bytes]:
    """Join rows into the texts of frames: one for a batch, unless that is too much for one."""
    held: list[bytes] = []
    size = 0
    for row in rows:
        if held and size + len(row) > FRAME_BYTES:
            yield b"".join(held)
            held, size = [], 0
        held.append(row)
        size += len(row)
    if held:
        yield b"".join(held)
