"""Copying between stores: all or a reason, never a mixture, and the source is only read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dsh_persistence import (
    Copied,
    MemoryLogStore,
    SessionBusy,
    SessionCorrupt,
    SessionIdTooLong,
    SessionLocation,
    copy_sessions,
)
from dsh_persistence.contract._material import hard_events, make_batch, make_event, make_header
from dsh_persistence.contract._toy import ToyLogStore
from dsh_session import EncodedBatch, SessionEvent, SessionHeader

HARD = EncodedBatch(first_seq=0, events=hard_events())


class Held(MemoryLogStore):
    """Says of one session that somebody has it."""

    held = ""

    def holder(self, ref: str | SessionLocation) -> str | None:
        name = ref if isinstance(ref, str) else ref.path
        return "process 4711" if name == self.held else None


class Hooked(MemoryLogStore):
    """Runs something once, after so many scanned events, and fails where it says so."""

    def __init__(self) -> None:
        super().__init__()
        self.after: dict[int, object] = {}

    def scan(self, ref: str | SessionLocation) -> Iterator[SessionEvent]:
        for event in super().scan(ref):
            action = self.after.pop(event.seq, None)
            if callable(action):
                action()
            yield event


class Short(MemoryLogStore):
    """Takes short ids only."""

    def create(self, header: SessionHeader):
        if len(header.id) > 4:
            raise SessionIdTooLong(header.id, size_bytes=len(header.id), limit_bytes=4)
        return super().create(header)


def fill(store, session_id: str = "s", batch: EncodedBatch = HARD, **fields) -> None:
    with store.create(make_header(session_id, **fields)) as writer:
        writer.append(batch)


def copied(source, into, **options) -> Copied:
    (one,) = copy_sessions(source, into, **options)
    return one


def contents(store) -> dict[str, tuple]:
    read = [store.read(entry.location) for entry in store.list()]
    return {stored.header.id: (stored.header, stored.cut, tuple(stored.events)) for stored in read}


def fail() -> None:
    raise SessionCorrupt("memory", "a bit has flipped")


def test_every_kind_of_session_arrives_as_it_is(tmp_path):
    """Hard data, every envelope and header field, forks and children, an open turn; and a second run finds it all."""
    source, into = MemoryLogStore(), ToyLogStore(tmp_path)
    fill(source, "hard")
    fill(source, "fork", make_batch(0, 5), parent_session="hard", is_seeded=True, seed_length=3)
    fill(source, "child", make_batch(0), origin="subagent", delegation_depth=2, agent_preset="p", cwd=None)
    fill(source, "based", make_batch(0, 2), sandbox_mode="read-only", approval_policy="never")
    before = contents(source)

    first = list(copy_sessions(source, into))
    second = list(copy_sessions(source, into))

    assert [("copied", len(HARD.events)), ("copied", 5), ("copied", 1), ("copied", 2)] == [
        (one.outcome, one.written) for one in first
    ]
    assert [("present", 0, True)] * 4 == [(one.outcome, one.written, one.whole) for one in second]
    assert before == contents(into) == contents(source)


@pytest.mark.parametrize("limit", [1, 2_000, 1 << 20])
def test_events_stream_in_batches(tmp_path, limit):
    """A batch holds at most so many bytes, or one event; the progress tells how far it is."""
    source, into, told = MemoryLogStore(), MemoryLogStore(), []
    fill(source, batch=make_batch(0, 40))

    copied(source, into, batch_bytes=limit, progress=lambda *what: told.append(what))

    assert contents(source) == contents(into)
    step = max(1, limit // make_event(39).size_bytes)
    assert [("s", min(due, 40)) for due in range(step, 40 + step, step)] == told


def test_what_is_there_is_continued(tmp_path):
    """The rest alone is written, and a torn tail of an interrupted copy is no hindrance."""
    source, into = MemoryLogStore(), ToyLogStore(tmp_path)
    fill(source, batch=make_batch(0, 20))
    fill(into, batch=make_batch(0, 8))
    with into.path("s").open("ab") as log:
        log.write(b"half a li")

    one = copied(source, into)

    assert ("continued", 20, 12, None) == (one.outcome, one.events, one.written, one.reason)
    assert contents(source) == contents(into)


def test_a_torn_tail_behind_a_whole_copy_is_cut(tmp_path):
    """What follows the last event is gone, for a later writer would have to see to it."""
    source, into = MemoryLogStore(), ToyLogStore(tmp_path)
    fill(source)
    fill(into)
    with into.path("s").open("ab") as log:
        log.write(b"half a li")

    one = copied(source, into)

    assert ("continued", 0) == (one.outcome, one.written)
    assert into.read("s").torn is None


@pytest.mark.parametrize(
    ("there", "fields", "reason"),
    [
        (make_batch(0, 11), {}, "1 more event(s)"),
        (EncodedBatch(first_seq=0, events=(make_event(0, {"other": 1}),)), {}, "its event 0 is another"),
        (EncodedBatch(first_seq=0, events=(make_event(0), make_event(1, time=5))), {}, "its event 1 is another"),
        (make_batch(0, 4), {"cwd": "/elsewhere"}, "another cwd"),
        (make_batch(0, 10), {"agent_preset": "p", "seed_length": 2}, "agent_preset and seed_length and cut"),
        (make_batch(0, 4), {"sandbox_mode": "x"}, "another sandbox_mode"),
    ],
)
def test_what_differs_is_left_alone(tmp_path, there, fields, reason):
    """Reported, not merged; not a byte of it is touched, and the other sessions are copied."""
    source, into = MemoryLogStore(), ToyLogStore(tmp_path)
    fill(source, batch=make_batch(0, 10))
    fill(source, "other")
    fill(into, batch=there, **fields)
    before = into.path("s").read_bytes(), into.path("s").stat().st_mtime_ns

    differs, other = copy_sessions(source, into)

    assert ("differs", 0, False, "copied") == (differs.outcome, differs.written, differs.whole, other.outcome)
    assert reason in str(differs.reason)
    assert before == (into.path("s").read_bytes(), into.path("s").stat().st_mtime_ns)


def test_facts_that_events_tell_may_come_later():
    """A store that takes the baselines from the events does not know them of a copy that is not whole yet."""
    source, into = MemoryLogStore(), MemoryLogStore()
    fill(source, batch=make_batch(0, 10), sandbox_mode="x", approval_policy="y")
    fill(into, batch=make_batch(0, 4))

    one = copied(source, into)

    assert (10, 6) == (into.read("s").next_seq, one.written)
    assert "differs" == one.outcome, "the whole copy has to have them"
    assert "another sandbox_mode and approval_policy;" in str(one.reason)


def test_what_a_fork_inherited_comes_at_once():
    """With the event that marks its end, however small a batch is: a store of files reads no fork without it."""
    source, into, told = MemoryLogStore(), MemoryLogStore(), []
    fill(source, batch=make_batch(0, 10), is_seeded=True, seed_length=6)

    one = copied(source, into, batch_bytes=1, progress=lambda _, events: told.append(events))

    assert ("copied", [7, 8, 9, 10]) == (one.outcome, told)


def test_a_live_session_of_the_source(tmp_path):
    """Nothing of it is copied, the others are."""
    source, into = Held(), MemoryLogStore()
    fill(source)
    fill(source, "other")
    source.held = "s"

    live, other = copy_sessions(source, into)

    assert ("live", "copied") == (live.outcome, other.outcome)
    assert "process 4711" in str(live.reason)
    assert ["other"] == list(contents(into))


def test_a_source_that_grows_meanwhile():
    """What was there is copied, and the report says that there is more; the next run brings it."""
    source, into = Hooked(), MemoryLogStore()
    fill(source, batch=make_batch(0, 10))
    writer = source.open("s")
    source.after[5] = lambda: writer.append(make_batch(10, 2))

    first = copied(source, into)
    second = copied(source, into)

    assert ("live", 10, 10) == (first.outcome, first.events, first.written)
    assert ("continued", 12, 2) == (second.outcome, second.events, second.written)
    assert contents(source) == contents(into)


def test_damage_leaves_nothing_half_copied():
    """A fault anywhere in the source is found before the first event is written."""
    source, into = Hooked(), MemoryLogStore()
    fill(source, batch=make_batch(0, 10))
    fill(source, "other")
    source.after[9] = fail

    damaged, other = copy_sessions(source, into, batch_bytes=1)

    assert ("unreadable", 0, "copied") == (damaged.outcome, damaged.written, other.outcome)
    assert "a bit has flipped" in str(damaged.reason)
    assert ["other"] == list(contents(into))


def test_damage_that_a_listing_tells(tmp_path):
    """It is reported with the listing's reason."""
    source, into = ToyLogStore(tmp_path), MemoryLogStore()
    fill(source)
    fill(source, "other")
    source.path("s").write_bytes(b"no log")

    found = {one.location.path: one for one in copy_sessions(source, into)}

    damaged = found[str(source.path("s"))]
    assert (None, "unreadable", False) == (damaged.session_id, damaged.outcome, damaged.whole)
    assert ["other"] == list(contents(into))


def test_a_copy_that_is_damaged_is_left_alone(tmp_path):
    """What lies there is reported, not replaced."""
    source, into = MemoryLogStore(), ToyLogStore(tmp_path)
    fill(source)
    fill(into)
    into.path("s").write_bytes(b"no log")

    assert "refused" == copied(source, into).outcome
    assert b"no log" == into.path("s").read_bytes()


def test_a_copy_that_does_not_read_back():
    """A store that acknowledges and keeps something else is found out."""

    class Forgetful(MemoryLogStore):
        def extend(self, session_id: str, batch: EncodedBatch) -> None:
            changed = tuple(make_event(event.seq, {"n": -1}) for event in batch.events)
            super().extend(session_id, EncodedBatch(first_seq=batch.first_seq, events=changed))

    source, into = MemoryLogStore(), Forgetful()
    fill(source)

    assert "differs" == copied(source, into).outcome


def test_two_copies_at_once(tmp_path):
    """One writes a session; the other says who does, and leaves it."""
    source, first, second = Hooked(), ToyLogStore(tmp_path), ToyLogStore(tmp_path)
    fill(source, batch=make_batch(0, 10))
    answers: list[Copied] = []

    def meanwhile(_session: str, events: int) -> None:
        if events == 5:
            answers.extend(copy_sessions(source, second))

    one = copied(source, first, batch_bytes=1, progress=meanwhile)

    assert ("copied", ["busy"]) == (one.outcome, [answer.outcome for answer in answers])
    assert str(SessionBusy("s", "another writer")) in str(answers[0].reason)
    assert contents(source) == contents(first)


def test_a_copy_that_moves_on_between_look_and_claim():
    """Nothing is appended to a log that is not the one that was compared."""
    source, into = Hooked(), MemoryLogStore()
    fill(source, batch=make_batch(0, 10))
    fill(into, batch=make_batch(0, 2))

    def elsewhere() -> None:
        with into.open("s") as writer:
            writer.append(EncodedBatch(first_seq=2, events=(make_event(2, {"another": "story"}),)))

    source.after[8] = elsewhere

    one = copied(source, into)

    assert ("busy", 0) == (one.outcome, one.written)
    assert 3 == into.read("s").next_seq


def test_what_the_store_does_not_take():
    """An id without room, a log without events: reported, and the others are copied."""
    source, into = MemoryLogStore(), Short()
    fill(source, "too-long")
    fill(source, "ok")
    source.publish(make_header("none"))

    outcomes = {one.session_id: one.outcome for one in copy_sessions(source, into)}

    assert {"too-long": "refused", "ok": "copied", "none": "empty"} == outcomes


def test_a_medium_that_fails_is_raised_and_copying_again_completes(tmp_path):
    """It concerns every session, and nothing that was copied is lost."""

    class Full(ToyLogStore):
        left = 5

        def writer(self, header, stored=None, lock=None):
            writer = super().writer(header, stored, lock)
            write = writer.append

            def limited(batch):
                self.left -= 1
                if self.left < 0:
                    raise OSError(28, "No space left on device")
                return write(batch)

            writer.append = limited
            return writer

    source = MemoryLogStore()
    fill(source, batch=make_batch(0, 10))
    with pytest.raises(OSError, match="No space"):
        list(copy_sessions(source, Full(tmp_path), batch_bytes=1))
    into = ToyLogStore(tmp_path)

    one = copied(source, into)

    assert ("continued", 5) == (one.outcome, one.written)
    assert contents(source) == contents(into)


def test_the_source_is_not_touched(tmp_path):
    """No lock file, no byte, no time."""
    place: Path = tmp_path / "source"
    place.mkdir()
    fill(ToyLogStore(place))
    for path in place.glob("*.lock"):
        path.unlink()
    place.chmod(0o500)
    before = [(path, path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(place.rglob("*"))]

    assert "copied" == copied(ToyLogStore(place), MemoryLogStore()).outcome

    assert before == [(path, path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(place.rglob("*"))]
    place.chmod(0o700)


class Losing(MemoryLogStore):
    """Its log is shorter when it is scanned than when it was read."""

    def scan(self, ref: str | SessionLocation) -> Iterator[SessionEvent]:
        *events, _ = super().scan(ref)
        return iter(events)


def test_a_source_that_loses_events_meanwhile():
    """A shorter log is not taken for all of it, and nothing is written."""
    source, into = Losing(), MemoryLogStore()
    fill(source)

    one = copied(source, into)

    assert ("live", 0, False) == (one.outcome, one.written, one.whole)
    assert {} == contents(into)


def test_a_copy_that_loses_events_meanwhile():
    """What cannot be read back is not called copied."""
    source, into = MemoryLogStore(), Losing()
    fill(source)

    one = copied(source, into)

    assert ("busy", len(HARD.events), False) == (one.outcome, one.written, one.whole)
