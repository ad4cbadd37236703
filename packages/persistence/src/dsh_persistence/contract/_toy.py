"""A small honest store of files: what a backend cannot do without, and what the broken ones are made from.

A session is one file, a line a batch, each with a checksum; the first line is the header. Everything is read anew each
time, so it is no store to use.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import zlib
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from dsh_session import EncodedBatch, EventRun, Replace, SessionEvent, SessionHeader

from .. import (  # noqa: TID252  # imports inside a package are relative
    Capabilities,
    ForeignChange,
    ListedSession,
    LogTail,
    OutcomeUnknown,
    Receipt,
    Repair,
    SeqConflict,
    SessionAlreadyStored,
    SessionBusy,
    SessionCorrupt,
    SessionLocation,
    SessionNotFound,
    StoredPrefix,
    TornTail,
    unwritten,
)


class ToyLogStore:
    """Logs in one folder. Claims hold between processes."""

    name = "toy"
    capabilities = Capabilities(has_artifacts=True, cross_process_claim=True)

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    def path(self, session_id: str) -> Path:
        """Return the file of a session."""
        digest = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()
        return self.root / f"{digest[:32]}.log"

    def lock_path(self, session_id: str) -> Path:
        """Return the file that is locked for a session."""
        return self.path(session_id).with_suffix(".lock")

    def locate(self, header: SessionHeader) -> SessionLocation | None:
        """Return the file."""
        return SessionLocation(kind="toy", path=str(self.path(header.id)))

    def create(self, header: SessionHeader) -> ToyLogWriter:
        """Return a writer that claims with its first append."""
        return self.writer(header)

    def open(self, session_id: str) -> ToyLogWriter:
        """Claim a log and read it."""
        if not self.path(session_id).exists():
            raise SessionNotFound(session_id, str(self.root))
        lock = self.claim(session_id)
        try:
            stored = self.read(session_id)
            return self.writer(stored.header, stored, lock)
        except BaseException:
            os.close(lock)
            raise

    def writer(
        self, header: SessionHeader, stored: StoredPrefix | None = None, lock: int | None = None
    ) -> ToyLogWriter:
        """Make a writer."""
        return ToyLogWriter(self, header, stored, lock)

    def claim(self, session_id: str) -> int:
        """Lock a session; return the descriptor that holds the lock."""
        import fcntl  # noqa: PLC0415  # absent on Windows, where this module can be imported all the same

        fd = os.open(self.lock_path(session_id), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise SessionBusy(session_id, "another writer") from None
        return fd

    def read(self, ref: str | SessionLocation, *, from_seq: int = 0) -> StoredPrefix:
        """Read a log whole."""
        path = self.path(ref) if isinstance(ref, str) else Path(ref.path)
        try:
            with path.open("rb") as file:
                content, status = file.read(), os.fstat(file.fileno())
        except FileNotFoundError:
            raise SessionNotFound(path.stem if isinstance(ref, SessionLocation) else ref, str(self.root)) from None
        header, events, end = _decode(path, content)
        return StoredPrefix(
            header=header,
            generation=header.version,
            events=EventRun(events[from_seq:], first_seq=min(from_seq, len(events))),
            cut=header.seed_length or 0,
            torn=TornTail(offset=end, size_bytes=len(content) - end) if end < len(content) else None,
            salvaged=0,
            protected=True,
            revision=f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}",
            source=str(path),
        )

    def scan(self, ref: str | SessionLocation) -> Iterator[SessionEvent]:
        """Yield every event."""
        return iter(self.read(ref).events)

    def tail(self, ref: str | SessionLocation, cursor: Mapping[str, int] | None = None) -> LogTail:
        """Return everything after the cursor."""
        after = 0 if cursor is None else cursor["seq"]
        stored = self.read(ref, from_seq=after)
        if after > stored.next_seq:
            raise ForeignChange(stored.source, "the log is shorter than the one that the cursor followed")
        return LogTail(events=stored.events, cursor={"seq": stored.next_seq})

    def list(self) -> Iterator[ListedSession]:
        """Yield every session."""
        for path in sorted(self.root.glob("*.log")):
            location = SessionLocation(kind="toy", path=str(path))
            try:
                stored = self.read(location)
            except SessionCorrupt as error:
                yield ListedSession(location=location, header=None, revision=None, problem=error)
            else:
                yield ListedSession(location=location, header=stored.header, revision=stored.revision)

    def close(self) -> None:
        """Do nothing: the store holds nothing."""


class ToyLogWriter:
    """The claim on one log."""

    def __init__(
        self, store: ToyLogStore, header: SessionHeader, stored: StoredPrefix | None = None, lock: int | None = None
    ) -> None:
        self.stored = stored
        self.next_seq = 0 if stored is None else stored.next_seq
        self._store = store
        self._header = header
        self._lock = lock
        self.path = store.path(header.id)
        self.end = 0
        """How many bytes are acknowledged; 0 while there is no log."""
        if stored is not None:
            self.end = self.path.stat().st_size if stored.torn is None else stored.torn.offset
        self._healed = stored is None
        """Whether the file is known to be durable and to end where it should."""
        self._repaired = False
        self._closed = False

    def append(self, batch: EncodedBatch) -> Receipt:
        """Write one line, and sync it."""
        self._require_open()
        if batch.first_seq != self.next_seq:
            raise SeqConflict(self._header.id, expected=self.next_seq, found=batch.first_seq)
        line = _encode_batch(batch)
        if batch.events:
            self._claim_new()
            self._prepare()
            self._healed = False
            try:
                self.end = self.write(line) if self.end else self._publish(line)
            except OSError as error:
                self.undo(error)
                raise
            self._healed = True
        self.next_seq = batch.next_seq
        return Receipt(next_seq=self.next_seq, digest=hashlib.sha256(line).digest())

    def resend(self, batch: EncodedBatch) -> Receipt:
        """Write what is missing of a batch."""
        if batch.first_seq >= self.next_seq:
            return self.append(batch)
        self._require_open()
        self._prepare()
        stored = self._store.read(self._header.id, from_seq=batch.first_seq)
        rest = unwritten(self._header.id, batch, stored)
        if rest.events:
            self.append(rest)
        return Receipt(next_seq=batch.next_seq, digest=hashlib.sha256(_encode_batch(batch)).digest())

    def repair(self) -> Repair | None:
        """Save what is torn, and cut it."""
        if self.stored is None or self.stored.torn is None or self._repaired:
            return None
        torn, saved = self.stored.torn, self.path.with_suffix(f".torn-{self.end}")
        if not saved.exists():
            _write_new(saved, self.path.read_bytes()[self.end :])
        self.heal()
        self._repaired = True
        return Repair(cut=torn, saved_as=str(saved), salvaged=0)

    def checkpoint(self) -> None:
        """Do nothing: there is nothing beside the log."""

    def close(self) -> None:
        """Give up the claim."""
        self._closed = True
        if self._lock is not None:
            lock, self._lock = self._lock, None
            with contextlib.suppress(OSError):  # the descriptor is gone all the same
                os.close(lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_open(self) -> None:
        if self._closed:
            raise ValueError(f"the writer of session {self._header.id!r} is closed")

    def write(self, line: bytes) -> int:
        """Write at the acknowledged end and sync; return the new end."""
        with _opened(self.path, os.O_WRONLY) as fd:
            _write_all(fd, line, self.end)
            self.sync(fd)
        return self.end + len(line)

    def sync(self, fd: int) -> None:
        """Make durable what was written through a descriptor."""
        os.fsync(fd)

    def heal(self) -> None:
        """Bring the file back to what was acknowledged, or found, durably."""
        if self.end:
            with _opened(self.path, os.O_WRONLY) as fd:
                if os.fstat(fd).st_size != self.end:
                    os.ftruncate(fd, self.end)
                os.fsync(fd)
        else:
            self.path.unlink(missing_ok=True)  # claimed and never acknowledged: what is there is this writer's own
        if self.path.parent.exists():
            _sync_folder(self.path.parent)
        self._healed = True

    def _prepare(self) -> None:
        if not self._healed and self.repair() is None:
            self.heal()

    def undo(self, error: OSError) -> None:
        """Take a failed write back."""
        try:
            self.heal()
        except OSError:
            raise OutcomeUnknown(str(self.path), f"a write failed and cannot be undone ({error})") from error

    def _claim_new(self) -> None:
        if self._lock is not None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = self._store.claim(self._header.id)
        try:
            if self.path.exists():
                raise SessionAlreadyStored(self._header.id, str(self.path))
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock

    def _publish(self, line: bytes) -> int:
        """Make header and first batch appear at once."""
        content = _line([dataclasses.asdict(self._header)]) + line
        staged = self.path.with_suffix(".tmp")
        staged.unlink(missing_ok=True)
        _write_new(staged, content)
        os.link(staged, self.path)
        staged.unlink()
        _sync_folder(self.path.parent)
        return len(content)


def _encode_batch(batch: EncodedBatch) -> bytes:
    return _line([_plain(event) for event in batch.events])


def _plain(event: SessionEvent) -> dict[str, Any]:
    op = event.surface_op
    place = [op.start_seq, op.end_seq] if isinstance(op, Replace) else op
    return msgspec.structs.asdict(event) | {"encoded": event.encoded.decode(), "surface_op": place}


def _event(plain: dict[str, Any]) -> SessionEvent:
    sources, place = plain["source_event_seqs"], plain["surface_op"]
    changed: dict[str, Any] = {
        "encoded": plain["encoded"].encode(),
        "source_event_seqs": None if sources is None else tuple(sources),
        "surface_op": Replace(place[0], place[1]) if place not in (None, "append") else place,
    }
    return SessionEvent(**(plain | changed))


def _line(rows: list[Any]) -> bytes:
    payload = json.dumps(rows, separators=(",", ":")).encode()
    return b"%08x %b\n" % (zlib.crc32(payload), payload)


def _decode(path: Path, content: bytes) -> tuple[SessionHeader, list[SessionEvent], int]:
    """Return header, events, and where the intact lines end."""
    rows: list[Any] = []
    end = 0
    while (stop := content.find(b"\n", end)) >= 0:
        checksum, payload = content[end : end + 9], content[end + 9 : stop]
        if checksum != b"%08x " % zlib.crc32(payload):
            raise SessionCorrupt(str(path), "the checksum of a line does not fit", offset=end)
        rows += json.loads(payload)
        end = stop + 1
    if not rows:
        raise SessionCorrupt(str(path), "there is no header", offset=0)
    return SessionHeader(**rows[0]), [_event(row) for row in rows[1:]], end


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Generator[int]:
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        yield fd
    finally:
        with contextlib.suppress(OSError):  # what counts has been synced
            os.close(fd)


def _write_new(path: Path, content: bytes) -> None:
    with _opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as fd:
        _write_all(fd, content, 0)
        os.fsync(fd)


def _write_all(fd: int, content: bytes, offset: int) -> None:
    while content:
        written = os.pwrite(fd, content, offset)
        content, offset = content[written:], offset + written


def _sync_folder(folder: Path) -> None:
    with _opened(folder, os.O_RDONLY | os.O_DIRECTORY) as fd:
        os.fsync(fd)
