"""Deliberately broken stores: each breaks a promise and fails its test, or the contract would prove nothing.

``BROKEN`` names the promise of each. All are opened over a folder, as ``run_contract`` does it.
"""

# What an overridden method does wrong is what its class says.
# ruff: noqa: D102

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from dsh_session import EncodedBatch, EventRun, SessionEvent, SessionHeader

from .._memory import MemoryLogStore, MemoryLogWriter  # noqa: TID252  # imports inside a package are relative
from .._seam import (  # noqa: TID252  # as above
    ListedSession,
    LogStore,
    LogTail,
    LogWriter,
    Receipt,
    Repair,
    SessionLocation,
    StoredPrefix,
)
from ..errors import PersistenceError, SessionNotFound  # noqa: TID252  # as above
from ._toy import ToyLogStore, ToyLogWriter


class DropsTheLastEvent(MemoryLogStore):
    """Reads a log without its last event."""

    def read(self, ref: str | SessionLocation, *, from_seq: int = 0) -> StoredPrefix:
        stored = super().read(ref, from_seq=from_seq)
        return replace(stored, events=EventRun(stored.events[:-1], first_seq=stored.events.first_seq))


class Reorders(MemoryLogStore):
    """Stores the events of a batch in another order."""

    def extend(self, session_id: str, batch: EncodedBatch) -> None:
        events = tuple(replace(event, seq=seq) for seq, event in enumerate(batch.events[::-1], batch.first_seq))
        super().extend(session_id, EncodedBatch(first_seq=batch.first_seq, events=events))


class SortsKeys(MemoryLogStore):
    """Encodes data again: equal values, other bytes."""

    def extend(self, session_id: str, batch: EncodedBatch) -> None:
        again = [replace(event, encoded=json.dumps(event.data, sort_keys=True).encode()) for event in batch.events]
        super().extend(session_id, EncodedBatch(first_seq=batch.first_seq, events=tuple(again)))


class AcceptsGaps(MemoryLogStore):
    """Takes any batch, wherever it begins."""

    def create(self, header: SessionHeader) -> MemoryLogWriter:
        writer = super().create(header)
        append = writer.append

        def careless(batch: EncodedBatch) -> Receipt:
            writer.next_seq = batch.first_seq
            return append(batch)

        writer.append = careless  # type: ignore[method-assign]
        return writer


class IgnoresTheClaim(MemoryLogStore):
    """Lets several write one session."""

    def claim(self, session_id: str) -> None:
        self._claimed.add(session_id)


class KeepsTheClaim(MemoryLogStore):
    """Never frees a session."""

    def release(self, session_id: str) -> None:
        pass


class ReplacesWhatIsStored(MemoryLogStore):
    """Lets a new log take the place of a stored one."""

    def publish(self, header: SessionHeader) -> None:
        self._logs.pop(header.id, None)
        super().publish(header)


class CreatesAtOnce(MemoryLogStore):
    """Makes a log before it has an event."""

    def create(self, header: SessionHeader) -> MemoryLogWriter:
        self.publish(header)
        return super().create(header)


class NeverChangesItsRevision(MemoryLogStore):
    """Calls every state of a log the same."""

    def read(self, ref: str | SessionLocation, *, from_seq: int = 0) -> StoredPrefix:
        return replace(super().read(ref, from_seq=from_seq), revision="1")

    def list(self) -> Iterator[ListedSession]:
        return (replace(entry, revision="1") for entry in super().list())


class ForgetsTheSeed(MemoryLogStore):
    """Does not know what a fork inherited."""

    def read(self, ref: str | SessionLocation, *, from_seq: int = 0) -> StoredPrefix:
        return replace(super().read(ref, from_seq=from_seq), cut=0)


class ListsNothing(MemoryLogStore):
    """Has sessions and does not say so."""

    def list(self) -> Iterator[ListedSession]:
        return iter(())


class StreamsOutOfOrder(MemoryLogStore):
    """Streams what it reads in another order."""

    def scan(self, ref: str | SessionLocation) -> Iterator[SessionEvent]:
        return iter(sorted(super().scan(ref), key=lambda event: event.encoded))


class FollowsPastTheEnd(MemoryLogStore):
    """Its cursor skips an event that is still to come."""

    def tail(self, ref: str | SessionLocation, cursor: Mapping[str, int] | None = None) -> LogTail:
        tail = super().tail(ref, cursor if cursor is None else {"seq": min(cursor["seq"], self.read(ref).next_seq)})
        return LogTail(events=tail.events, cursor={"seq": tail.cursor["seq"] + 1})


class FollowsAnyLog(MemoryLogStore):
    """Goes on with a cursor in a log that it never belonged to."""

    def tail(self, ref: str | SessionLocation, cursor: Mapping[str, int] | None = None) -> LogTail:
        stored = self.read(ref, from_seq=0 if cursor is None else cursor["seq"])
        return LogTail(events=stored.events, cursor={"seq": stored.next_seq})


class _WithWriters(MemoryLogStore):
    """Gives out writers of a class of its own."""

    writer: type[MemoryLogWriter]

    def create(self, header: SessionHeader) -> MemoryLogWriter:
        return self.writer(self, header, stored=None)

    def open(self, session_id: str) -> MemoryLogWriter:
        self.claim(session_id)
        try:
            stored = self.read(session_id)
        except SessionNotFound:
            self.release(session_id)
            raise
        return self.writer(self, stored.header, stored=stored)


class _TwiceWriter(MemoryLogWriter):
    def resend(self, batch: EncodedBatch) -> Receipt:
        events = tuple(replace(event, seq=seq) for seq, event in enumerate(batch.events, self.next_seq))
        return self.append(EncodedBatch(first_seq=self.next_seq, events=events))


class ResendsTwice(_WithWriters):
    """Writes again what is resent, behind what is stored."""

    writer = _TwiceWriter


class _PartWriter(MemoryLogWriter):
    def resend(self, batch: EncodedBatch) -> Receipt:
        if batch.first_seq >= self.next_seq:
            return self.append(batch)
        receipt = super().resend(EncodedBatch(first_seq=batch.first_seq, events=batch.events[:1]))
        return replace(receipt, next_seq=batch.next_seq)


class AdoptsAPart(_WithWriters):
    """Takes a resent batch to be stored whole as soon as its first event is."""

    writer = _PartWriter


class _AnythingWriter(MemoryLogWriter):
    def resend(self, batch: EncodedBatch) -> Receipt:
        if batch.first_seq >= self.next_seq:
            return self.append(batch)
        return super().resend(EncodedBatch(first_seq=self.next_seq, events=()))


class AdoptsAnything(_WithWriters):
    """Takes whatever lies there for what is resent."""

    writer = _AnythingWriter


class _ConstantWriter(MemoryLogWriter):
    def append(self, batch: EncodedBatch) -> Receipt:
        return replace(super().append(batch), digest=b"fine")


class DigestsNothing(_WithWriters):
    """Gives every batch the same digest."""

    writer = _ConstantWriter


class _EagerWriter(MemoryLogWriter):
    def checkpoint(self) -> None:
        self._claim_new()


class ListsALazySession(_WithWriters):
    """Shows a session without an event, once it was checkpointed."""

    writer = _EagerWriter


class _ShyWriter(MemoryLogWriter):
    def append(self, batch: EncodedBatch) -> Receipt:
        try:
            return super().append(batch)
        except PersistenceError:
            self._store.release(self._header.id)
            raise


class LetsGoAfterAnError(_WithWriters):
    """Gives up its claim when an append is refused."""

    writer = _ShyWriter


class AnswersOutOfOrder(MemoryLogStore):
    """Gives the answers of a group in another order."""

    def __init__(self) -> None:
        super().__init__(group_commit=True)

    def append_group(self, items: Sequence[tuple[LogWriter, EncodedBatch]]) -> Sequence[Receipt | Exception]:
        return super().append_group(items)[::-1]


class StopsAtAFailure(MemoryLogStore):
    """Leaves out of a group what comes after a failure."""

    def __init__(self) -> None:
        super().__init__(group_commit=True)

    def append_group(self, items: Sequence[tuple[LogWriter, EncodedBatch]]) -> Sequence[Receipt | Exception]:
        answers: list[Receipt | Exception] = []
        for item in items:
            failed = answers and isinstance(answers[-1], Exception)
            answers.append(answers[-1] if failed else super().append_group([item])[0])
        return answers


class TouchesWhatItReads(ToyLogStore):
    """Notes when a log was read, in its time of change."""

    def read(self, ref: str | SessionLocation, *, from_seq: int = 0) -> StoredPrefix:
        stored = super().read(ref, from_seq=from_seq)
        os.utime(stored.source)
        return stored


class ClaimsForItself(ToyLogStore):
    """Says that its claims hold between processes; they hold within one."""

    def lock_path(self, session_id: str) -> Path:
        return super().lock_path(session_id).with_suffix(f".{os.getpid()}")


class _LazyWriter(ToyLogWriter):
    held = b""

    def write(self, line: bytes) -> int:
        self.held += line
        return self.end + len(line)

    def close(self) -> None:
        if self.held:
            with self.path.open("ab") as file:
                file.write(self.held)
            self.held = b""
        super().close()


class LosesOnCrash(ToyLogStore):
    """Keeps what it acknowledges in its process until the writer is closed."""

    def writer(
        self, header: SessionHeader, stored: StoredPrefix | None = None, lock: int | None = None
    ) -> ToyLogWriter:
        return _LazyWriter(self, header, stored, lock)


class _TidyWriter(ToyLogWriter):
    def repair(self) -> Repair | None:
        repaired = super().repair()
        if repaired is not None:
            os.truncate(self.path, self.path.read_bytes()[:-1].rfind(b"\n") + 1)
        return repaired


class AltersOnRepair(ToyLogStore):
    """Cuts more than what is torn, to be on the safe side."""

    def writer(
        self, header: SessionHeader, stored: StoredPrefix | None = None, lock: int | None = None
    ) -> ToyLogWriter:
        return _TidyWriter(self, header, stored, lock)


class _StubbornWriter(ToyLogWriter):
    def sync(self, fd: int) -> None:
        try:
            os.fsync(fd)
        except OSError:
            os.fsync(fd)


class RetriesAFailedSync(ToyLogStore):
    """Believes a sync that comes after a failed one."""

    def writer(
        self, header: SessionHeader, stored: StoredPrefix | None = None, lock: int | None = None
    ) -> ToyLogWriter:
        return _StubbornWriter(self, header, stored, lock)


class _CarelessWriter(ToyLogWriter):
    def undo(self, error: OSError) -> None:
        pass


class KeepsWhatFailed(ToyLogStore):
    """Leaves a batch in place whose append has failed."""

    def writer(
        self, header: SessionHeader, stored: StoredPrefix | None = None, lock: int | None = None
    ) -> ToyLogWriter:
        return _CarelessWriter(self, header, stored, lock)


BROKEN: Mapping[Callable[..., LogStore], str] = {
    CreatesAtOnce: "P2",
    DropsTheLastEvent: "P3",
    Reorders: "P3",
    AcceptsGaps: "P5",
    IgnoresTheClaim: "P7",
    ReplacesWhatIsStored: "P8",
    KeepsTheClaim: "P9",
    ListsNothing: "P12",
    NeverChangesItsRevision: "P13",
    SortsKeys: "P15",
    ForgetsTheSeed: "P18",
    StreamsOutOfOrder: "P24",
    FollowsPastTheEnd: "P25",
    FollowsAnyLog: "P26",
    ResendsTwice: "P27",
    AdoptsAPart: "P28",
    AdoptsAnything: "P29",
    DigestsNothing: "P30",
    ListsALazySession: "P31",
    TouchesWhatItReads: "P32",
    AnswersOutOfOrder: "P33",
    StopsAtAFailure: "P34",
    ClaimsForItself: "P35",
    LosesOnCrash: "P36",
    AltersOnRepair: "P37",
    RetriesAFailedSync: "P38",
    KeepsWhatFailed: "P38",
    LetsGoAfterAnError: "P39",
}
"""The number of the promise that each of them breaks; it may break others with it."""


_OF_FILES = {TouchesWhatItReads, ClaimsForItself, LosesOnCrash, AltersOnRepair, RetriesAFailedSync, KeepsWhatFailed}


def shared(make: Callable[[], LogStore]) -> Callable[[Path], LogStore]:
    """Return a factory that gives the one store of a folder to all who open it there, for stores in memory."""
    made: dict[Path, LogStore] = {}
    return lambda place: made.setdefault(place, make())


def factory_of(kind: Callable[..., LogStore]) -> Callable[[Path], LogStore]:
    """Return the factory of a broken store, as ``run_contract`` takes it."""
    return kind if kind in _OF_FILES else shared(kind)
