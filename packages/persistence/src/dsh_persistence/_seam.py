"""What a backend author writes: a store of logs, and a writer for one log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self

import msgspec

from dsh_session import EncodedBatch, EventLog, SessionEvent, SessionHeader

from .errors import PersistenceError


# Structs for the same reason as events: one is built for each session of a listing.
class SessionLocation(msgspec.Struct, frozen=True, kw_only=True):
    """Where one session's own artifact lies, or will lie: a hint, neither a credential nor a promise of freshness."""

    kind: str
    """What the artifact is, for example ``jsonl``."""
    path: str
    """Absolute path; it may not exist yet."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a store declares of itself; nobody guesses."""

    has_artifacts: bool
    """Whether ``locate`` gives a file of the session's own."""
    cross_process_claim: bool
    """Whether the claim on a session holds between processes."""
    durable: bool = True
    """Whether what was acknowledged outlives the process."""
    group_commit: bool = False
    """Whether the store is a ``GroupCommit``: it makes the batches of several sessions durable in one go."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """Proof that a batch is durable."""

    next_seq: int
    """The seq that follows the batch."""
    digest: bytes
    """A digest of the batch; the same for the same batch, whether it was written or found to be there."""


class TornTail(msgspec.Struct, frozen=True, kw_only=True):
    """What an unclean end left after the last intact row: it was never acknowledged."""

    offset: int
    """Byte offset in the stored file where it begins."""
    size_bytes: int


class StoredPrefix(msgspec.Struct, frozen=True, kw_only=True):
    """A log as it is stored: everything valid, from the asked seq on."""

    header: SessionHeader
    generation: int
    """The generation of the file; the events are in the current one's terms."""
    events: EventLog
    cut: int
    """How many leading events were inherited from the parent; 0 for a session of its own."""
    torn: TornTail | None
    salvaged: int
    """How many of ``events`` stand in the torn tail as whole rows; a repair appends them again."""
    protected: bool
    """Whether checksums guard the stored bytes."""
    revision: str
    """Opaque; equal exactly while the stored log is unchanged, within what the store documents."""
    source: str
    """Where it was read from, for people."""

    @property
    def next_seq(self) -> int:
        """The seq that follows the last stored event."""
        return self.events.first_seq + len(self.events)


class LogTail(msgspec.Struct, frozen=True, kw_only=True):
    """What came after a cursor."""

    events: Sequence[SessionEvent]
    cursor: Mapping[str, int]
    """Where to go on; plain JSON, opaque but to the store that made it."""


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """What a repair did."""

    cut: TornTail
    saved_as: str | None
    """Where the cut bytes are kept; None when they held nothing but zeros."""
    salvaged: int
    """How many events of the torn tail were appended again."""


class ListedSession(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a listing: a session, or a place that should hold one and is damaged."""

    location: SessionLocation
    header: SessionHeader | None
    revision: str | None
    problem: PersistenceError | None = None
    """Why this one cannot be read; the others are listed all the same."""


class LogWriter(Protocol):
    """The claim on one session's log, and the only way to make it longer. One thread at a time."""

    @property
    def stored(self) -> StoredPrefix | None:
        """The log as found under the claim; None for a new one."""
        ...

    @property
    def next_seq(self) -> int:
        """The seq the next batch begins with."""
        ...

    def append(self, batch: EncodedBatch) -> Receipt:
        """Write a batch; it is durable, whole, when this returns, and not there when it raises.

        An empty batch writes nothing. Raises ``SeqConflict``, ``ForeignChange``, ``SessionBusy``,
        ``SessionAlreadyStored``, ``SessionIdTooLong``, ``SessionIdCollision``, ``RowTooLarge``, ``StoreUnusable``, or
        ``OSError`` from the medium, and the same batch may be tried again; ``OutcomeUnknown`` when it cannot be told
        whether the batch is there, and then ``resend`` is owed; ``ValueError`` after ``close``.
        """
        ...

    def resend(self, batch: EncodedBatch) -> Receipt:
        """Settle an unknown outcome, also one of an earlier writer of the log: the batch is durable, once.

        Of what lies there from ``batch.first_seq`` on, what equals the batch is adopted and the rest of the batch
        written. Raises ``SeqConflict`` when something else lies there, and as ``append``.
        """
        ...

    def repair(self) -> Repair | None:
        """Save and cut a torn tail and append its whole rows again. Idempotent; None when there was nothing to do."""
        ...

    def checkpoint(self) -> None:
        """Make durable what only helps a later reader, such as how far the log was acknowledged. Never raises."""
        ...

    def close(self) -> None:
        """Checkpoint, and give up the claim. Idempotent; never raises."""
        ...

    def __enter__(self) -> Self:
        """Return the writer itself."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""


class LogStore(Protocol):
    """A place that keeps logs. Synchronous; any thread may call it."""

    @property
    def name(self) -> str:
        """A word for messages, for example ``jsonl``."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do."""
        ...

    def locate(self, header: SessionHeader) -> SessionLocation | None:
        """Return where the session's own artifact is or will be; None when there is none. Pure: touches no disk."""
        ...

    def create(self, header: SessionHeader) -> LogWriter:
        """Return a writer for a new log. Touches nothing: the first append claims, checks and publishes."""
        ...

    def open(self, session_id: str) -> LogWriter:
        """Claim an existing log and read it under the claim.

        Raises ``SessionNotFound``, ``SessionBusy``, ``SessionCorrupt``, ``FormatNotSupported``, ``StoreUnusable``.
        """
        ...

    def read(self, ref: str | SessionLocation, *, from_seq: int = 0) -> StoredPrefix:
        """Return the stored log without a claim and without changing anything, also beside a live writer.

        ``ref`` is a session id or a location. Raises as ``open`` does, ``SessionBusy`` excepted.
        """
        ...

    def scan(self, ref: str | SessionLocation) -> Iterator[SessionEvent]:
        """Yield every stored event in order, keeping nothing. Raises as ``read`` does, when it gets there."""
        ...

    def tail(self, ref: str | SessionLocation, cursor: Mapping[str, int] | None = None) -> LogTail:
        """Return events that came after ``cursor``, in order, not necessarily all of them; none when there are none.

        Without a cursor it begins with the first event. Follows a growing log: what is damaged raises and is never
        passed over; what is half-written waits. Raises ``ForeignChange`` when the log is no longer the same one.
        """
        ...

    def list(self) -> Iterator[ListedSession]:
        """Yield every session with its header and revision; damage is an entry, never an exception."""
        ...

    def close(self) -> None:
        """Release what the store holds. Idempotent."""
        ...


class GroupCommit(Protocol):
    """What a ``LogStore`` that declares ``group_commit`` offers besides."""

    def append_group(self, items: Sequence[tuple[LogWriter, EncodedBatch]]) -> Sequence[Receipt | Exception]:
        """Append to several logs and make all of it durable at once, one writer of this store at most once.

        Returns, in the same order, what each ``append`` would have returned or raised; one that fails does not hold
        the others up. Runs in one thread, in which it may use all these writers.
        """
        ...
