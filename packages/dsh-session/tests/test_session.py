from __future__ import annotations

import logging
import math
from typing import Any

import pytest

from dsh_session import (
    EVENT_BYTES,
    DataNotLossless,
    EventRefused,
    EventTooLarge,
    Session,
    SessionEvent,
    SessionHeader,
    fork_seed,
)


def state_of(session: Session) -> tuple[Any, ...]:
    state = session.state
    return (session.next_seq, len(session.events), state.turn, state.step, dict(state.calls), list(state.surface.nodes))


def test_append(session: Session) -> None:
    """An event gets the next seq and the clock's time, and is the last of the log."""
    first = session.append("turn/start", {"turn": 1})
    second = session.append("todo/write", {"todos": []})
    assert (first.seq, first.time, first.encoded) == (0, 1000, b'{"turn":1}')
    assert (second.seq, second.time) == (1, 1001)
    assert (list(session.events), session.next_seq, session.id) == ([first, second], 2, "session-1")


@pytest.mark.parametrize(
    ("type", "data"),
    [("turn/start", {"turn": math.nan}), ("turn/start", {"turn": 7}), ("acme/x", {}), ("todo/write", {"a": (1,)})],
)
def test_refusal_changes_nothing(talk: Any, type: str, data: Any) -> None:
    """What is refused leaves log, state and listeners as they were, and the next event takes its seq."""
    talk.open()
    heard: list[SessionEvent] = []
    talk.session.subscribe(heard.append)
    before = state_of(talk.session)
    with pytest.raises(EventRefused):
        talk.append(type, data)
    assert (state_of(talk.session), heard) == (before, [])
    assert talk.append("todo/write", {}).seq == before[0]


def test_mutation_after_append_cannot_reach_the_log(session: Session) -> None:
    """CASES B06: data is bytes from the append on, so what the caller does to it later has no effect."""
    data: dict[str, Any] = {"n": 1, "list": [1]}
    event = session.append("todo/write", data)
    data["n"] = 2
    data["self"] = object()
    data["list"].append(2)
    assert session.events[0].data == event.data == {"n": 1, "list": [1]}
    with pytest.raises(DataNotLossless):
        session.append("todo/write", data)


def test_listeners(session: Session) -> None:
    """Listeners hear every event after it was added, in order, until they are disposed of."""
    heard: list[int] = []

    def listener(event: SessionEvent) -> None:
        assert session.events[-1] == event
        heard.append(event.seq)

    dispose = session.subscribe(listener)
    session.append("todo/write", {})
    session.append("todo/write", {})
    dispose()
    dispose()
    session.append("todo/write", {})
    assert heard == [0, 1]


def test_a_failing_listener_is_contained(session: Session, caplog: pytest.LogCaptureFixture) -> None:
    """A listener that raises is logged; neither the producer nor the other listeners notice."""
    heard: list[int] = []

    def failing(event: SessionEvent) -> None:
        raise LookupError("listener is broken")

    session.subscribe(failing)
    session.subscribe(lambda event: heard.append(event.seq))
    with caplog.at_level(logging.ERROR, logger="dsh_session"):
        session.append("todo/write", {})
    assert (heard, session.next_seq) == ([0], 1)
    assert "listener is broken" in caplog.text


def test_batch(session: Session) -> None:
    """A batch holds everything from its first seq on, and is a snapshot."""
    for _ in range(3):
        session.append("todo/write", {})
    batch = session.batch(from_seq=1)
    session.append("todo/write", {})
    assert (batch.first_seq, [event.seq for event in batch.events], batch.next_seq) == (1, [1, 2], 3)
    assert session.batch(from_seq=4).events == ()


def test_extend_takes_events_as_they_are(session: Session) -> None:
    """Existing events keep their time and bytes, are checked, and reach the listeners."""
    heard: list[SessionEvent] = []
    session.subscribe(heard.append)
    events = [SessionEvent(type="turn/start", seq=0, time=-5, encoded=b'{ "turn" : 1 }')]
    session.extend(events)
    assert list(session.events) == heard == events
    with pytest.raises(EventRefused):
        session.extend([SessionEvent(type="turn/start", seq=1, time=0, encoded=b'{"turn":2}')])
    assert session.next_seq == 1


def test_stored_then_live(header: SessionHeader, talk: Any) -> None:
    """A session over a stored log goes on where the log ends; both parts are one run of events."""
    talk.open()
    talk.user()
    stored = tuple(talk.session.events)
    session = Session(header, stored=stored)
    added = session.append("todo/write", {})
    assert (added.seq, len(session.events), session.events.first_seq) == (4, 5, 0)
    assert list(session.events) == [*stored, added]
    assert (session.events[-1], session.events[4], session.events[0], session.events[-5]) == (
        added,
        added,
        stored[0],
        stored[0],
    )
    assert session.events[3:] == [stored[3], added]
    assert list(session.events[4:]) == [added]
    assert list(session.events[5:]) == []
    assert list(session.events[::-2]) == [added, stored[2], stored[0]]
    for index in (5, -6):
        with pytest.raises(IndexError):
            session.events[index]
    assert session.messages() == talk.session.messages()


def test_stored_logs_are_checked(header: SessionHeader, talk: Any) -> None:
    """A stored log that breaks a rule is refused, with the seq where it does."""
    talk.open()
    with pytest.raises(EventRefused) as caught:
        Session(header, stored=[*talk.session.events, talk.session.events[0]])
    assert caught.value.seq == 0


def test_the_first_message_is_a_system_message(talk: Any) -> None:
    """WRITING, the trap: a log that begins with another message is refused by a harness at its second resume."""
    talk.append("turn/start", {"turn": 1})
    talk.append("step/start", {"turn": 1, "step": 1})
    with pytest.raises(EventRefused, match="system/message must be the first"):
        talk.user()
    talk.turn = talk.step = 1
    talk.system(content=[])
    talk.user()
    assert [message["role"] for message in talk.session.messages()] == ["user"]


def test_a_stored_log_may_begin_otherwise(header: SessionHeader) -> None:
    """FORMAT §6: what a harness wrote is read as it is, also where a user message comes first."""
    message = b'{"role":"user","id":"m","source":{"kind":"user"},"content":[]}'
    stored = [SessionEvent(type="user/message", seq=0, time=0, encoded=message, surface_op="append")]
    session = Session(header, stored=stored)
    assert session.state.surface.nodes == [0]
    assert [message["id"] for message in session.messages()] == ["m"]


def test_a_guard_is_asked_first(session: Session) -> None:
    """A guard sees the size of what is about to be added; what it raises refuses all of it, and nothing has changed."""
    asked: list[int] = []
    heard: list[SessionEvent] = []

    def guard(size_bytes: int) -> None:
        asked.append(size_bytes)
        if size_bytes > 2000:
            raise BlockingIOError("no room")

    session.subscribe(heard.append)
    unguard = session.guard(guard)
    first = session.append("todo/write", {"n": 1})
    before = state_of(session)
    with pytest.raises(BlockingIOError):
        session.append("todo/write", {"text": "x" * 2000})
    pair = [SessionEvent(type="todo/write", seq=seq, time=0, encoded=b'"%s"' % (b"x" * 1000)) for seq in (1, 2)]
    with pytest.raises(BlockingIOError):
        session.extend(pair)
    assert (state_of(session), heard) == (before, [first])
    session.extend(pair[:1])
    assert asked == [first.size_bytes, asked[1], sum(one.size_bytes for one in pair), pair[0].size_bytes]
    unguard()
    unguard()
    session.append("todo/write", {"text": "x" * 2000})
    assert len(asked) == 4


def test_extend_takes_all_or_nothing(talk: Any) -> None:
    """When a later one of several events is refused, those before it are not there either, in no part of the state."""
    talk.open()
    heard: list[SessionEvent] = []
    talk.session.subscribe(heard.append)
    before, seq = state_of(talk.session), talk.session.next_seq
    events = [
        SessionEvent(type="step/end", seq=seq, time=0, encoded=b'{"turn":1,"step":1}'),
        SessionEvent(type="turn/end", seq=seq + 1, time=0, encoded=b'{"turn":1,"reason":{"kind":"completed"}}'),
        SessionEvent(type="turn/start", seq=seq + 2, time=0, encoded=b'{"turn":1}'),
    ]
    with pytest.raises(EventRefused):
        talk.session.extend(events)
    assert (state_of(talk.session), heard) == (before, [])
    talk.session.extend(events[:2])
    assert (heard, talk.session.state.turn) == (events[:2], None)


def test_a_session_without_its_seed(header: SessionHeader) -> None:
    """A seeded session that has nothing yet begins with its whole seed; anything else is refused and leaves nothing."""
    parent = Session(header)
    parent.append("todo/write", {})
    parent.append("todo/write", {})
    seed = fork_seed(parent.events)
    fork = Session(SessionHeader(id="fork", created_at=0, is_seeded=True, seed_length=2))
    with pytest.raises(EventRefused, match="no mark ends the seed"):
        fork.append("todo/write", {})
    with pytest.raises(EventRefused, match="no mark ends the seed"):
        fork.extend(seed[:2])
    assert (fork.next_seq, len(fork.events)) == (0, 0)
    fork.extend(seed)
    fork.append("todo/write", {})
    assert list(fork.events[:3]) == list(seed)


def test_events_that_no_store_would_write_are_refused(session: Session) -> None:
    """DURABILITY G17: an event whose row could exceed 16 MiB never enters, by neither door; one just below it does."""
    limit = EVENT_BYTES
    with pytest.raises(EventTooLarge) as caught:
        session.append("plugin:x/y", "x" * limit)
    assert (caught.value.limit_bytes, caught.value.seq) == (limit, 0)
    assert caught.value.size_bytes > limit
    with pytest.raises(EventTooLarge):
        session.extend([SessionEvent(type="plugin:x/y", seq=0, time=0, encoded=b'"%s"' % (b"x" * limit))])
    assert session.next_seq == 0
    session.append("plugin:x/y", "x" * (limit - 1000))
