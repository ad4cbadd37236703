"""Sessions copied from one store to another, whatever keeps them; the source is only read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from dsh_session import EncodedBatch, SessionEvent, SessionHeader

from ._seam import ListedSession, LogStore, LogWriter, SessionLocation, TornTail
from .errors import (
    ForeignChange,
    FormatNotSupported,
    PersistenceError,
    RowTooLarge,
    SeqConflict,
    SessionAlreadyStored,
    SessionBusy,
    SessionCorrupt,
    SessionIdCollision,
    SessionIdTooLong,
    SessionNotFound,
)

_BATCH_BYTES = 1 << 20
"""About how much is written at once. A JSONL store makes a frame of it, which readers decode whole."""

_BEYOND = 2**53 - 1
"""A seq that no log reaches."""
_FIELDS = [field.name for field in dataclasses.fields(SessionHeader)]
_DERIVED = ("sandbox_mode", "approval_policy")
"""Facts of a header that a store may take from the events, and does not know before it has these."""

Outcome = Literal["copied", "continued", "present", "empty", "live", "unreadable", "differs", "busy", "refused"]


@runtime_checkable
class ShowsHolder(Protocol):
    """What a ``LogStore`` offers besides that can tell, without a claim, whether somebody has one."""

    def holder(self, ref: str | SessionLocation) -> str | None:
        """Return who holds a session for writing, for people; None when nobody does or it cannot be told."""
        ...


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one session.

    ==========  ========================================================================
    copied      all of it has been written and read back
    continued   the rest of it has been written, and all of it read back
    present     all of it was there already, and has been read back
    empty       it has no events; a store keeps a session from its first event on
    live        somebody writes it in the source
    unreadable  the source cannot read it
    differs     the other store has another log of that id, and keeps it
    busy        somebody writes it in the other store
    refused     the other store does not take it, or cannot read what it has of it
    ==========  ========================================================================
    """

    session_id: str | None
    """None where the source cannot tell."""
    location: SessionLocation
    """Where it lies in the source, as its listing says."""
    outcome: Outcome
    events: int = 0
    """How many events the source holds, as far as it was asked."""
    written: int = 0
    """How many of them have been written now."""
    reason: str | None = None
    """Why the other store does not have all of it; None when it has."""

    @property
    def whole(self) -> bool:
        """Whether the other store holds the session, equal to the source's in every event."""
        return self.reason is None


def copy_sessions(
    source: LogStore,
    into: LogStore,
    *,
    batch_bytes: int = _BATCH_BYTES,
    progress: Callable[[str, int], None] | None = None,
) -> Iterator[Copied]:
    """Copy every session of ``source``, and yield what became of each.

    Headers, envelopes and data bytes arrive as they are; an open turn stays open. What ``into`` has already of a
    session is kept and continued, so that copying again after an interruption completes it; what differs is left
    alone. Every session is read back and compared, event by event, before it counts as copied. ``source`` is only
    read, without a claim; of a session that is live there nothing is copied, as far as ``source`` is a ``ShowsHolder``.

    Events stream in batches of about ``batch_bytes``; what a fork inherited is one, for a store of files reads no fork
    that ends inside it. ``progress`` is called with the session's id and how many of its
    events have arrived. What keeps ``into`` from being written at all (``StoreUnusable``, ``OutcomeUnknown``,
    ``OSError``) is raised; copying again goes on from there.
    """
    for entry in list(source.list()):  # no listing stays open while the sessions are copied
        yield _Copy(source, into, entry, batch_bytes, progress).run()


class _Stop(Exception):
    """A session that is not copied, or not whole."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome: Outcome = outcome
        self.reason = reason


class _Log(NamedTuple):
    """What a stored log is, besides its events: these are streamed."""

    header: SessionHeader
    cut: int
    next_seq: int
    torn: TornTail | None
    revision: str


class _Copy:
    """One session on its way."""

    def __init__(
        self,
        source: LogStore,
        into: LogStore,
        entry: ListedSession,
        batch_bytes: int,
        progress: Callable[[str, int], None] | None,
    ) -> None:
        self._source = source
        self._into = into
        self._entry = entry
        self._batch_bytes = batch_bytes
        self._progress = progress
        self._events = 0
        self._written = 0

    def run(self) -> Copied:
        """Copy it."""
        try:
            outcome, reason = self._copy(), None
        except _Stop as stop:
            outcome, reason = stop.outcome, stop.reason
        return Copied(
            session_id=None if self._entry.header is None else self._entry.header.id,
            location=self._entry.location,
            outcome=outcome,
            events=self._events,
            written=self._written,
            reason=reason,
        )

    def _copy(self) -> Outcome:
        log = self._read_source()
        self._events = log.next_seq
        if log.next_seq == 0:
            raise _Stop("empty", "it has no events, and a store keeps a session from its first event on")
        there = self._read_copy(log.header.id)
        self._compare(log, there)  # reads the whole source, so that damage shows before anything is written
        if there is not None and there.next_seq == log.next_seq and there.torn is None:
            return "present"
        self._write(log, there)
        self._verify(log)
        return "copied" if there is None else "continued"

    def _read_source(self) -> _Log:
        if self._entry.problem is not None:
            raise _Stop("unreadable", str(self._entry.problem))
        place = self._entry.location
        try:
            holder = self._source.holder(place) if isinstance(self._source, ShowsHolder) else None
            if holder is None:
                return _describe(self._source, place)
        except (PersistenceError, OSError) as error:
            raise _Stop("unreadable", str(error)) from error
        raise _Stop("live", f"{holder} has it in the source; copy again when it has been let go")

    def _events_of_source(self) -> Iterator[SessionEvent]:
        try:
            yield from self._source.scan(self._entry.location)
        except (PersistenceError, OSError) as error:
            raise _Stop("unreadable", str(error)) from error

    def _read_copy(self, session_id: str) -> _Log | None:
        try:
            return _describe(self._into, session_id)
        except SessionNotFound:
            return None
        except (SessionCorrupt, FormatNotSupported, RowTooLarge) as error:
            raise _Stop("refused", f"what the other store has of it cannot be read: {error}") from error

    def _compare(self, log: _Log, there: _Log | None) -> None:
        """Read all of the source beside what the other store has, which has to be the beginning of it."""
        events = self._events_of_source()
        if there is not None:
            self._require_same_header(log, there)
            if there.next_seq > log.next_seq:
                more = there.next_seq - log.next_seq
                raise _Stop("differs", f"the other store has {more} more event(s) of it; it keeps what it has")
            self._require_same_events(events, there)
        seen = (0 if there is None else there.next_seq) + sum(1 for _ in events)
        if seen < log.next_seq:
            raise _Stop("live", f"{log.next_seq - seen} event(s) of it went while it was read; copy again")

    def _require_same_header(self, log: _Log, there: _Log) -> None:
        mine, theirs = log.header, there.header
        odd = [name for name in _FIELDS if getattr(mine, name) != getattr(theirs, name)]
        if there.next_seq < log.next_seq:  # its store may not know yet what later events say
            odd = [name for name in odd if name not in _DERIVED or getattr(theirs, name) is not None]
        if there.next_seq == log.next_seq and there.cut != log.cut:
            odd.append("cut")
        if odd:
            raise _Stop("differs", f"the other store has it with another {' and '.join(odd)}; it keeps what it has")

    def _require_same_events(self, events: Iterator[SessionEvent], there: _Log) -> None:
        """Compare what the other store has with as many events of the source."""
        seen = 0
        # The copies come first, and to their end, where a store may still find that something is missing.
        for seen, (copy, event) in enumerate(zip(self._copies(there.header.id), events, strict=False), 1):
            if copy != event:
                raise _Stop("differs", f"its event {seen - 1} is another in the other store, which keeps what it has")
        if seen != there.next_seq:
            raise _Stop("busy", f"it had {there.next_seq} event(s) in the other store, and then {seen}; copy again")

    def _copies(self, session_id: str) -> Iterator[SessionEvent]:
        try:
            yield from self._into.scan(session_id)
        except (SessionCorrupt, FormatNotSupported, RowTooLarge) as error:
            raise _Stop("refused", f"what the other store has of it cannot be read: {error}") from error

    def _write(self, log: _Log, there: _Log | None) -> None:
        try:
            if there is None:
                with self._into.create(log.header) as writer:
                    self._append(log, writer)
                return
            with self._into.open(log.header.id) as writer:
                found = writer.stored
                if found is None or (found.revision, found.next_seq) != (there.revision, there.next_seq):
                    raise _Stop("busy", "somebody wrote it in the other store meanwhile; copy again")
                writer.repair()
                self._append(log, writer)
        except (SessionBusy, SessionAlreadyStored, SessionNotFound, ForeignChange, SeqConflict) as error:
            raise _Stop("busy", f"somebody else writes it in the other store: {error}") from error
        except (SessionCorrupt, RowTooLarge, SessionIdTooLong, SessionIdCollision) as error:
            raise _Stop("refused", str(error)) from error

    def _append(self, log: _Log, writer: LogWriter) -> None:
        rest = islice(self._events_of_source(), writer.next_seq, log.next_seq)
        inherited = log.cut + 1 if log.header.is_seeded else 0  # with the event that marks its end
        for batch in _batches(rest, writer.next_seq, self._batch_bytes, inherited):
            writer.append(batch)
            self._written += len(batch.events)
            if self._progress is not None:
                self._progress(log.header.id, writer.next_seq)

    def _verify(self, log: _Log) -> None:
        """Read the copy and the source again and compare them."""
        again = self._read_source()
        if again.revision != log.revision:
            raise _Stop("live", "it was written in the source while it was copied; copy again")
        there = self._read_copy(log.header.id)
        if there is None or there.next_seq != log.next_seq:
            raise _Stop("busy", "somebody else writes it in the other store; copy again")
        self._require_same_header(log, there)
        self._require_same_events(self._events_of_source(), there)


def _describe(store: LogStore, ref: str | SessionLocation) -> _Log:
    stored = store.read(ref, from_seq=_BEYOND)  # the events are streamed, and checked then
    return _Log(stored.header, stored.cut, stored.next_seq, stored.torn, stored.revision)


def _batches(events: Iterable[SessionEvent], first_seq: int, limit: int, whole: int) -> Iterator[EncodedBatch]:
    """Join events into batches of at most ``limit`` bytes, or of one event; those before ``whole`` stay together."""
    held: list[SessionEvent] = []
    size = 0
    for event in events:
        if held and size + event.size_bytes > limit and event.seq >= whole:
            yield EncodedBatch(first_seq=first_seq, events=tuple(held))
            first_seq += len(held)
            held, size = [], 0
        held.append(event)
        size += event.size_bytes
    if held:
        yield EncodedBatch(first_seq=first_seq, events=tuple(held))
