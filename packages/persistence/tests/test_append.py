"""Sessions in which nobody lives: created, appended to, loaded and released by id (BEHAVIOUR §9.2, §9.7)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dsh_persistence import (
    MemoryLogStore,
    PersistenceClosed,
    SeqConflict,
    SessionAlreadyStored,
    SessionBusy,
    SessionNotFound,
    SessionPersistence,
    WriteFailed,
)
from dsh_session import (
    EncodedBatch,
    EventRefused,
    Session,
    SessionEvent,
    SessionHeader,
    encode_data,
    fork_seed,
)

Start = Callable[..., SessionPersistence]
Until = Callable[[Callable[[], object]], Awaitable[None]]
HEADER = SessionHeader(id="session-1", created_at=1, cwd="/w", parent_session="p", delegation_depth=2)
FULL = OSError(28, "No space left on device")


def event(seq: int, type: str = "plugin:test/note", data: object = None) -> SessionEvent:
    encoded = encode_data(type, {"n": seq} if data is None else data)
    return SessionEvent(type=type, seq=seq, time=seq, encoded=encoded, ignorable=type.startswith("plugin:"))


def notes(*seqs: int) -> list[SessionEvent]:
    return [event(seq) for seq in seqs]


def open_turn(seq: int) -> list[SessionEvent]:
    return [event(seq, "turn/start", {"turn": 1}), event(seq + 1, "step/start", {"turn": 1, "step": 1})]


async def test_create_append_load(start: Start) -> None:
    """CT 86, CC 228: what was appended by id is loaded, header and events equal."""
    service, events = start(), notes(0, 1, 2)
    await service.create(HEADER)
    await service.append(HEADER.id, events[:2])
    await service.append(HEADER.id, events[2:])
    for stored in (await service.load(HEADER.id), await service.inspect(HEADER.id)):
        assert (stored.header, list(stored.events)) == (HEADER, events)


async def test_nothing_is_stored_before_the_first_event(start: Start, memory: MemoryLogStore, faults: Any) -> None:
    """CT 268, CC 1278, CC 313: creating, and appending nothing, stores nothing, lists nothing and claims nothing."""
    service = start()
    await service.append("nobody", [])
    await service.create(HEADER)
    await service.append(HEADER.id, [])
    await service.flush()
    assert (await service.list(), faults.batches) == ([], [])
    for call in (service.load(HEADER.id), service.inspect(HEADER.id), service.append("nobody", notes(0))):
        with pytest.raises(SessionNotFound):
            await call
    with memory.create(HEADER) as writer:
        writer.append(EncodedBatch(first_seq=0, events=tuple(notes(0))))


async def test_duplicate_create(start: Start, memory: MemoryLogStore) -> None:
    """CC 1304: an id that is registered, lives, or is stored is refused, and what is there stays as it is."""
    service = start()
    await service.create(HEADER)
    with pytest.raises(SessionBusy, match="release it first"):
        await service.create(HEADER)
    await service.append(HEADER.id, notes(0))
    with pytest.raises(SessionBusy):
        await service.create(HEADER)
    with pytest.raises(SessionBusy):
        await service.resume(HEADER.id)
    await service.release(HEADER.id)
    with pytest.raises(SessionAlreadyStored):
        await service.create(HEADER)
    service.attach(Session(SessionHeader(id="live", created_at=0)))
    with pytest.raises(SessionBusy, match="a live session"):
        await service.create(SessionHeader(id="live", created_at=0))
    assert list(memory.read(HEADER.id).events) == notes(0)


@pytest.mark.parametrize(("seqs", "expected", "found"), [([0], 2, 0), ([3], 2, 3), ([2, 3, 5], 4, 5), ([2, 2], 3, 2)])
async def test_seqs_continue_the_log(start: Start, seqs: list[int], expected: int, found: int) -> None:
    """CT 359, 373: each seq is the one the log waits for; of a batch with a gap nothing is taken."""
    service = start()
    await service.create(HEADER)
    await service.append(HEADER.id, notes(0, 1))
    with pytest.raises(SeqConflict) as caught:
        await service.append(HEADER.id, notes(*seqs))
    assert (caught.value.expected, caught.value.found) == (expected, found)
    await service.append(HEADER.id, notes(2))
    assert list((await service.load(HEADER.id)).events) == notes(0, 1, 2)


@pytest.mark.parametrize(
    "bad",
    [
        SessionEvent(type="plugin:x/y", seq=2, time=0, encoded=b"{", ignorable=True),
        SessionEvent(type="plugin:x/y", seq=2, time=0, encoded=b'{"n":NaN}', ignorable=True),
        SessionEvent(type="plugin:x/y", seq=2, time=0, encoded=b'{\n"n":1}', ignorable=True),
        SessionEvent(type="plugin:x/y", seq=2, time=0, encoded=b'"%s"' % (b"x" * (16 << 20)), ignorable=True),
        event(2, "acme/unknown"),
        event(2, "turn/start", {"turn": 7}),
    ],
    ids=["no JSON", "NaN", "line break", "too large", "unknown type", "broken rule"],
)
async def test_refused_events_leave_nothing_behind(start: Start, bad: SessionEvent) -> None:
    """CT 388, CC 1360: a batch with one event that may not be there is refused whole, and the log goes on."""
    service = start()
    await service.create(HEADER)
    with pytest.raises(EventRefused):
        await service.append(HEADER.id, [*open_turn(0), bad])
    with pytest.raises(SessionNotFound):
        await service.inspect(HEADER.id)
    await service.append(HEADER.id, [*open_turn(0), event(2)])
    assert len((await service.inspect(HEADER.id)).events) == 3


async def test_events_are_copied_at_the_call(start: Start) -> None:
    """CC 745: changing the list after the call has no effect, however late the append begins."""
    service, given = start(), notes(0, 1)
    await service.create(HEADER)
    append = service.append(HEADER.id, given)
    given.clear()
    await append
    assert list((await service.load(HEADER.id)).events) == notes(0, 1)


async def test_appends_keep_the_order_of_their_calls(start: Start, memory: MemoryLogStore, until: Until) -> None:
    """Spec 865: appends that were begun together follow each other, also when the first has to open the log."""
    service = start()
    await service.create(HEADER)
    await service.append(HEADER.id, notes(0))
    await service.release(HEADER.id)
    await asyncio.gather(*(service.append(HEADER.id, notes(seq)) for seq in range(1, 20)))
    assert list(memory.read(HEADER.id).events) == notes(*range(20))


async def test_an_unknown_id_is_opened_and_kept(start: Start, memory: MemoryLogStore, faults: Any) -> None:
    """CC 1249, 1427: a fresh service claims the stored log, repairs it as load does, goes on, and keeps the claim."""
    with memory.create(HEADER) as writer:
        writer.append(EncodedBatch(first_seq=0, events=tuple(open_turn(0))))
    service = start()
    with pytest.raises(SeqConflict) as caught:
        await service.append(HEADER.id, notes(2))
    assert (caught.value.expected, faults.repaired) == (4, [HEADER.id])
    await service.append(HEADER.id, notes(4, 5))
    types = ["turn/start", "step/start", "step/end", "turn/end", "plugin:test/note", "plugin:test/note"]
    assert [one.type for one in memory.read(HEADER.id).events] == types
    with pytest.raises(SessionBusy):
        memory.open(HEADER.id)
    await service.release(HEADER.id)
    await service.release(HEADER.id)
    memory.open(HEADER.id).close()


async def test_load_closes_what_nobody_works_on(start: Start, memory: MemoryLogStore) -> None:
    """CT 118: inspecting leaves an open turn and the revision; loading closes it durably, and the log goes on."""
    service = start()
    await service.create(HEADER)
    await service.append(HEADER.id, open_turn(0))
    inspected = await service.inspect(HEADER.id)
    assert (len(inspected.events), inspected.revision) == (2, memory.read(HEADER.id).revision)
    loaded = await service.load(HEADER.id)
    assert [one.type for one in loaded.events] == ["turn/start", "step/start", "step/end", "turn/end"]
    assert loaded.revision == memory.read(HEADER.id).revision != inspected.revision
    assert (await service.load(HEADER.id)).revision == loaded.revision
    await service.append(HEADER.id, notes(4))
    assert len(memory.read(HEADER.id).events) == 5


async def test_a_live_session_is_not_appended_to(start: Start, memory: MemoryLogStore) -> None:
    """Whoever holds the live session appends to it; by id nothing is added, and releasing is not detaching."""
    service, session = start(), Session(HEADER)
    service.attach(session)
    with pytest.raises(SessionBusy, match="append to that"):
        await service.append(HEADER.id, notes(0))
    with pytest.raises(SessionBusy, match="detach"):
        await service.release(HEADER.id)
    assert session.next_seq == 0
    service.health(HEADER.id)


async def test_append_during_a_resume(start: Start, memory: MemoryLogStore, faults: Any, until: Until) -> None:
    """Spec 1166: while the id is reserved an append by id is refused, at once."""
    with memory.create(HEADER) as writer:
        writer.append(EncodedBatch(first_seq=0, events=tuple(notes(0))))
    service = start()
    faults.opening.clear()
    resume = asyncio.create_task(service.resume(HEADER.id))
    await until(faults.reached.is_set)
    with pytest.raises(SessionBusy, match="a resume under way"):
        await service.append(HEADER.id, notes(1))
    faults.opening.set()
    assert (await resume).next_seq == 2


@pytest.mark.usefixtures("slow_retries")
async def test_a_failed_append_may_be_repeated(start: Start, memory: MemoryLogStore, faults: Any) -> None:
    """G10: a failed append raises and keeps its events; handed over again, or with more, they are stored once."""
    service = start()
    await service.create(HEADER)
    faults.failures = [None, FULL, FULL, FULL]
    await service.append(HEADER.id, notes(0))
    for _ in range(3):
        with pytest.raises(WriteFailed) as caught:
            await service.append(HEADER.id, notes(1, 2))
        assert (caught.value.queued, caught.value.__cause__) == (2, FULL)
    with pytest.raises(SeqConflict):
        await service.append(HEADER.id, [event(1, data="another"), event(2)])
    with pytest.raises(SeqConflict):  # of what was durable before nothing is handed over again
        await service.append(HEADER.id, notes(0, 1, 2))
    await service.append(HEADER.id, notes(1, 2, 3))
    assert list(memory.read(HEADER.id).events) == notes(0, 1, 2, 3)
    with pytest.raises(SeqConflict):  # what is durable does not come again
        await service.append(HEADER.id, notes(3))


@pytest.mark.usefixtures("slow_retries")
async def test_a_failed_release_keeps_the_claim(start: Start, memory: MemoryLogStore, faults: Any) -> None:
    """Nothing is let go of while something is unwritten."""
    service = start()
    await service.create(HEADER)
    faults.failures = [FULL, FULL]
    with pytest.raises(WriteFailed):
        await service.append(HEADER.id, notes(0))
    with pytest.raises(WriteFailed):
        await service.release(HEADER.id)
    await service.release(HEADER.id)
    assert list(memory.read(HEADER.id).events) == notes(0)


async def test_closing_releases_and_drains(start: Start, memory: MemoryLogStore, faults: Any, until: Until) -> None:
    """A close writes what appends have handed over, releases the claims, and what comes later is refused."""
    service = start()
    await service.create(HEADER)
    faults.gate.clear()
    append = asyncio.create_task(service.append(HEADER.id, notes(0)))
    await until(lambda: faults.batches)
    close = asyncio.create_task(service.close())
    await asyncio.sleep(0.01)
    faults.gate.set()
    await close
    await append
    memory.open(HEADER.id).close()
    with pytest.raises(PersistenceClosed):
        await service.append(HEADER.id, notes(1))
    with pytest.raises(PersistenceClosed):
        await service.create(HEADER)


async def test_a_fork_by_id(start: Start, memory: MemoryLogStore) -> None:
    """CC 774, 325: a fork's events are stored as they are, its seed with its mark at once: half of it is no log."""
    service = start()
    header = SessionHeader(id="fork", created_at=1, cwd="/w", is_seeded=True, seed_length=2, parent_session="p")
    seed = fork_seed(notes(0, 1))
    await service.create(header)
    with pytest.raises(EventRefused, match="no mark ends the seed"):
        await service.append("fork", seed[:2])
    await service.append("fork", seed)
    await service.append("fork", notes(3))
    stored = await service.load("fork")
    assert (stored.header, list(stored.events), stored.cut) == (header, [*seed, event(3)], 2)


async def test_a_cancelled_append_is_written_all_the_same(
    start: Start, memory: MemoryLogStore, faults: Any, until: Until
) -> None:
    """Cancelling stops the waiting, never the write."""
    service = start()
    await service.create(HEADER)
    faults.gate.clear()
    append = asyncio.create_task(service.append(HEADER.id, notes(0)))
    await until(lambda: faults.batches)
    append.cancel()
    with pytest.raises(asyncio.CancelledError):
        await append
    faults.gate.set()
    await service.append(HEADER.id, notes(1))
    assert list(memory.read(HEADER.id).events) == notes(0, 1)
