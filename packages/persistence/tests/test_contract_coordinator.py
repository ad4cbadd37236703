"""The coordinator keeps its contract over the stores of this package, and broken ones do not."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path

import pytest

from dsh_persistence import (
    LogStore,
    MemoryLogStore,
    PersistenceError,
    SessionAlreadyStored,
    SessionBusy,
    SessionNotFound,
    SessionPersistence,
    StoredPrefix,
    WriteFailed,
    _opening,
)
from dsh_persistence.contract import PersistenceContract, broken
from dsh_persistence.contract._toy import ToyLogStore
from dsh_session import Session, SessionEvent, SessionHeader, repair_closers


class TestMemory(PersistenceContract):
    @pytest.fixture
    def new_location(self) -> Callable[[], MemoryLogStore]:
        store = MemoryLogStore()
        return lambda: store


class TestGroups(PersistenceContract):
    @pytest.fixture
    def new_location(self) -> Callable[[], MemoryLogStore]:
        store = MemoryLogStore(group_commit=True)
        return lambda: store


class TestToy(PersistenceContract):
    @pytest.fixture
    def new_location(self, tmp_path: Path) -> Callable[[], ToyLogStore]:
        return lambda: ToyLogStore(tmp_path / "toy")


class StoresAtOnce(SessionPersistence):
    def attach(self, session: Session) -> None:
        session.append("plugin:eager/note", {})
        super().attach(session)


class RepairsOnInspect(SessionPersistence):
    async def inspect(self, session_id: str) -> StoredPrefix:
        return await super().load(session_id)


class IgnoresCalls(SessionPersistence):
    """Closes the turn and not its calls, when it loads."""

    async def load(self, session_id: str) -> StoredPrefix:
        closers = _opening.repair_closers
        _opening.repair_closers = lambda _state: ()
        try:
            return await super().load(session_id)
        finally:
            _opening.repair_closers = closers


class ReadsOneBefore(SessionPersistence):
    async def read_from(self, session_id: str, seq: int) -> Sequence[SessionEvent]:
        return await super().read_from(session_id, seq if seq <= 0 else seq - 1)


class Renumbers(SessionPersistence):
    """Takes events wherever they say they belong."""

    def append(self, session_id: str, events: Sequence[SessionEvent]) -> Coroutine[object, object, None]:
        follower = self._followed.get(session_id)
        first = 0 if follower is None else follower.session.next_seq
        plain = [{name: getattr(event, name) for name in event.__struct_fields__} for event in events]
        renumbered = [SessionEvent(**(one | {"seq": seq})) for seq, one in enumerate(plain, first)]
        return super().append(session_id, renumbered)


class DropsWhatIsRefused(SessionPersistence):
    """Leaves out of a batch what it does not like, and takes the rest."""

    async def append(self, session_id: str, events: Sequence[SessionEvent]) -> None:  # type: ignore[override]
        for event in events:
            await super().append(session_id, [event])


class FollowsNewEventsOnly(SessionPersistence):
    def attach(self, session: Session) -> None:
        known = session.next_seq
        super().attach(session)
        if known:
            self._followed[session.id]._durable_seq = known


class LoadsOpenTurns(SessionPersistence):
    async def load(self, session_id: str) -> StoredPrefix:
        return await (self.inspect(session_id) if session_id in self._followed else super().load(session_id))


class ForgetsTheHeader(SessionPersistence):
    async def resume(self, session_id: str) -> Session:
        session = await super().resume(session_id)
        session.header = SessionHeader(id=session.id, created_at=session.header.created_at)
        return session


class CopiesLate(SessionPersistence):
    async def append(self, session_id: str, events: Sequence[SessionEvent]) -> None:  # type: ignore[override]
        await super().append(session_id, events)


class MarksTwice(SessionPersistence):
    async def resume(self, session_id: str) -> Session:
        session = await super().resume(session_id)
        session.append("session/end-seed", {})
        return session


class DetachesAtOnce(SessionPersistence):
    async def detach(self, session: Session) -> None:
        if session.id in self._followed:
            await self._drop(self._followed[session.id])


class ClosesTurnsItAdopts(SessionPersistence):
    def attach(self, session: Session) -> None:
        session.extend(repair_closers(session.state))
        super().attach(session)


class NeverGivesWay(SessionPersistence):
    def attach(self, session: Session) -> None:
        if session.id in self._followed and self._followed[session.id].session is not session:
            raise SessionBusy(session.id, "another one")
        super().attach(session)


class KnowsOnlyItsOwn(SessionPersistence):
    def append(self, session_id: str, events: Sequence[SessionEvent]) -> Coroutine[object, object, None]:
        if events and session_id not in self._followed:
            raise SessionNotFound(session_id, "what was created here")
        return super().append(session_id, events)


class FindsNothingEmpty(SessionPersistence):
    async def load(self, session_id: str) -> StoredPrefix:
        try:
            return await super().load(session_id)
        except SessionNotFound:
            return None  # type: ignore[return-value]


class CreatesTwice(SessionPersistence):
    async def create(self, header: SessionHeader) -> None:
        try:
            await super().create(header)
        except (SessionBusy, SessionAlreadyStored):
            return


class ReleasesAtOnce(SessionPersistence):
    async def resume(self, session_id: str) -> Session:
        session = await super().resume(session_id)
        await self._drop(self._followed[session_id])
        return session


class SwallowsFailures(SessionPersistence):
    async def flush(self, session_id: str | None = None) -> None:
        try:
            await super().flush(session_id)
        except WriteFailed:
            return


class FlushesOne(SessionPersistence):
    async def flush(self, session_id: str | None = None) -> None:
        await super().flush(session_id or next(iter(self._followed)))


class KeepsItsClaims(SessionPersistence):
    async def close(self) -> None:
        followed = list(self._followed)
        await super().close()
        for session_id in followed:
            self.store.open(session_id)


BROKEN: list[tuple[str, type[SessionPersistence], Callable[[], LogStore]]] = [
    ("S1", SessionPersistence, broken.Reorders),
    ("S2", StoresAtOnce, MemoryLogStore),
    ("S3", RepairsOnInspect, MemoryLogStore),
    ("S4", IgnoresCalls, MemoryLogStore),
    ("S5", ReadsOneBefore, MemoryLogStore),
    ("S6", SessionPersistence, broken.NeverChangesItsRevision),
    ("S7", Renumbers, MemoryLogStore),
    ("S8", DropsWhatIsRefused, MemoryLogStore),
    ("S9", FollowsNewEventsOnly, MemoryLogStore),
    ("S10", LoadsOpenTurns, MemoryLogStore),
    ("S11", ForgetsTheHeader, MemoryLogStore),
    ("S12", CopiesLate, MemoryLogStore),
    ("S13", MarksTwice, MemoryLogStore),
    ("S14", DetachesAtOnce, MemoryLogStore),
    ("S15", ClosesTurnsItAdopts, MemoryLogStore),
    ("S16", SessionPersistence, broken.ReplacesWhatIsStored),
    ("S17", NeverGivesWay, MemoryLogStore),
    ("S18", NeverGivesWay, MemoryLogStore),
    ("S19", KnowsOnlyItsOwn, MemoryLogStore),
    ("S20", FindsNothingEmpty, MemoryLogStore),
    ("S21", CreatesTwice, MemoryLogStore),
    ("S22", ReleasesAtOnce, MemoryLogStore),
    ("S23", SwallowsFailures, MemoryLogStore),
    ("S24", SessionPersistence, broken.ResendsTwice),
    ("S25", FlushesOne, MemoryLogStore),
    ("S26", KeepsItsClaims, MemoryLogStore),
]


def promise(number: str) -> str:
    (name,) = (name for name in dir(PersistenceContract) if name.startswith(f"test_s{int(number[1:]):02}_"))
    return name


@pytest.mark.parametrize(
    ("number", "coordinator", "store"), BROKEN, ids=[f"{one[0]}-{one[1].__name__}" for one in BROKEN]
)
def test_broken_coordinators_fail(
    number: str, coordinator: type[SessionPersistence], store: Callable[[], LogStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator, or a store below it, that breaks a promise fails the test of that promise."""
    monkeypatch.setattr(PersistenceContract, "coordinator", coordinator)
    one = store()
    with pytest.raises((AssertionError, PersistenceError, ExceptionGroup, pytest.fail.Exception)):
        getattr(PersistenceContract(), promise(number))(lambda: one)


def test_a_crash_that_loses_events_is_seen(tmp_path: Path) -> None:
    """S27 fails over a store that keeps what it acknowledged in its process."""
    with pytest.raises((AssertionError, SessionNotFound)):
        getattr(PersistenceContract(), promise("S27"))(lambda: broken.LosesOnCrash(tmp_path))


def test_every_promise_has_a_breaker() -> None:
    tests = [name for name in dir(PersistenceContract) if name.startswith("test_")]
    assert [number for number, *_ in BROKEN] + ["S27"] == [f"S{number}" for number in range(1, len(tests) + 1)]
