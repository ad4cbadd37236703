"""A store in memory: the model of what a store does, and everybody's test double."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from dsh_session import EncodedBatch, EventRun, SessionEvent, SessionHeader

from ._resend import unwritten
from ._seam import (
    Capabilities,
    ListedSession,
    LogTail,
    LogWriter,
    Receipt,
    Repair,
    SessionLocation,
    StoredPrefix,
)
from .errors import ForeignChange, SeqConflict, SessionAlreadyStored, SessionBusy, SessionNotFound


@dataclass(slots=True)
class _Log:
    header: SessionHeader
    events: list[SessionEvent] = field(default_factory=list)
    revision: int = 0


class MemoryLogStore:
    """Logs that live as long as this object. Claims hold within the process."""

    name = "memory"

    def __init__(self, *, group_commit: bool = False) -> None:
        """``group_commit`` declares that batches of several sessions come in one call."""
        self.capabilities = Capabilities(
            has_artifacts=False, cross_process_claim=False, durable=False, group_commit=group_commit
        )
        self._lock = threading.Lock()
        self._logs: dict[str, _Log] = {}
        self._claimed: set[str] = set()

    def locate(self, header: SessionHeader) -> SessionLocation | None:  # noqa: ARG002  # the seam's signature
        """Return None: nothing of a session lies in a file."""
        return None

    def create(self, header: SessionHeader) -> MemoryLogWriter:
        """Return a writer for a new log; it claims with its first append."""
        return MemoryLogWriter(self, header, stored=None)

    def open(self, session_id: str) -> MemoryLogWriter:
        """Claim an existing log."""
        self.claim(session_id)
        try:
            stored = self.read(session_id)
        except SessionNotFound:
            self.release(session_id)
            raise
        return MemoryLogWriter(self, stored.header, stored=stored)

    def read(self, ref: str | SessionLocation, *, from_seq: int = 0) -> StoredPrefix:
        """Return a copy of the stored log."""
        session_id = ref if isinstance(ref, str) else ref.path
        with self._lock:
            log = self._logs.get(session_id)
            if log is None:
                raise SessionNotFound(session_id, "memory")
            return StoredPrefix(
                header=log.header,
                generation=log.header.version,
                events=EventRun(log.events[from_seq:], first_seq=min(from_seq, len(log.events))),
                cut=log.header.seed_length or 0,
                torn=None,
                salvaged=0,
                protected=True,
                revision=str(log.revision),
                source="memory",
            )

    def scan(self, ref: str | SessionLocation) -> Iterator[SessionEvent]:
        """Yield every stored event."""
        return iter(self.read(ref).events)

    def tail(self, ref: str | SessionLocation, cursor: Mapping[str, int] | None = None) -> LogTail:
        """Return all events after ``cursor``."""
        after = 0 if cursor is None else cursor.get("seq", -1)
        stored = self.read(ref, from_seq=max(after, 0))
        if not 0 <= after <= stored.next_seq:
            raise ForeignChange("memory", "the log is not the one that the cursor followed")
        return LogTail(events=stored.events, cursor={"seq": stored.next_seq})

    def list(self) -> Iterator[ListedSession]:
        """Yield every stored session."""
        with self._lock:
            logs = [(log.header, str(log.revision)) for log in self._logs.values()]
        for header, revision in logs:
            location = SessionLocation(kind="memory", path=header.id)
            yield ListedSession(location=location, header=header, revision=revision)

    def append_group(self, items: Sequence[tuple[LogWriter, EncodedBatch]]) -> Sequence[Receipt | Exception]:
        """Append each batch; what one of them raises stands in its place."""
        answers: list[Receipt | Exception] = []
        for writer, batch in items:
            try:
                answers.append(writer.append(batch))
            except Exception as error:  # noqa: BLE001  # handed to the one whom it concerns
                answers.append(error)
        return answers

    def close(self) -> None:
        """Do nothing: the logs stay readable."""

    def claim(self, session_id: str) -> None:
        """Take the claim on an id. Raises ``SessionBusy``."""
        with self._lock:
            if session_id in self._claimed:
                raise SessionBusy(session_id, "another writer of this process")
            self._claimed.add(session_id)

    def release(self, session_id: str) -> None:
        """Give the claim up."""
        with self._lock:
            self._claimed.discard(session_id)

    def publish(self, header: SessionHeader) -> None:
        """Make room for a new log, whose id the caller has claimed. Raises ``SessionAlreadyStored``."""
        with self._lock:
            if header.id in self._logs:
                raise SessionAlreadyStored(header.id, "memory")
            self._logs[header.id] = _Log(header)

    def extend(self, session_id: str, batch: EncodedBatch) -> None:
        """Store a batch whose place the caller has checked."""
        with self._lock:
            log = self._logs[session_id]
            log.events.extend(batch.events)
            log.revision += 1


class MemoryLogWriter:
    """The claim on one log in memory."""

    def __init__(self, store: MemoryLogStore, header: SessionHeader, *, stored: StoredPrefix | None) -> None:
        self._store = store
        self._header = header
        self._claimed = stored is not None
        self._closed = False
        self.stored = stored
        self.next_seq = 0 if stored is None else stored.next_seq

    def append(self, batch: EncodedBatch) -> Receipt:
        """Store a batch."""
        self._require_open()
        if batch.first_seq != self.next_seq:
            raise SeqConflict(self._header.id, expected=self.next_seq, found=batch.first_seq)
        if batch.events:
            self._claim_new()
            self._store.extend(self._header.id, batch)
        self.next_seq = batch.next_seq
        return Receipt(next_seq=self.next_seq, digest=_digest(batch))

    def resend(self, batch: EncodedBatch) -> Receipt:
        """Store what is not there yet of a batch."""
        if batch.first_seq >= self.next_seq:
            return self.append(batch)
        self._require_open()
        stored = self._store.read(self._header.id, from_seq=batch.first_seq)
        rest = unwritten(self._header.id, batch, stored)
        if rest.events:
            self.append(rest)
        return Receipt(next_seq=batch.next_seq, digest=_digest(batch))

    def repair(self) -> Repair | None:
        """Return None: memory has no torn tails."""
        return None

    def checkpoint(self) -> None:
        """Do nothing: memory has nothing beside its logs."""

    def close(self) -> None:
        """Give up the claim."""
        self._closed = True
        if self._claimed:
            self._store.release(self._header.id)
            self._claimed = False

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

    def _claim_new(self) -> None:
        if self._claimed:
            return
        self._store.claim(self._header.id)
        try:
            self._store.publish(self._header)
        except SessionAlreadyStored:
            self._store.release(self._header.id)
            raise
        self._claimed = True


def _digest(batch: EncodedBatch) -> bytes:
    return hashlib.blake2b(b"".join(event.encoded for event in batch.events), digest_size=16).digest()
