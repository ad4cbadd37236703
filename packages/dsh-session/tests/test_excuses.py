"""What only a later event excuses: inherited records, and turns that end inside an abandoned compaction."""

from __future__ import annotations

from typing import Any

import pytest

from dsh_session import (
    EventRefused,
    EventRun,
    LogState,
    Session,
    SessionEvent,
    SessionHeader,
    encode_data,
    interrupted_closers,
)

FORK = SessionHeader(id="child", created_at=0, parent_session="parent", is_seeded=True)
ORPHAN = SessionHeader(id="child", created_at=0, is_seeded=True)
CHILD = ("subagent/catalog", {"version": 0, "childId": "k", "childCreatedAt": 1, "mode": "one-shot"})
THEIRS = (
    "session-log-deepseek/delivery-accepted",
    {"sessionId": "parent", "throughSeq": 0, "sessionFormatVersion": 4},
)
TODO = ("todo/write", {"todos": []})
MARK = ("session/end-seed", {"inherited": True})
RESUMED = ("session/end-seed", {})
START = ("compaction/start", {"compactionId": "c", "turn": 1})
FAILED = ("compaction/end", {"compactionId": "c", "turn": 1, "error": {"message": "m"}})
BETWEEN = ("compaction/start", {"compactionId": "c", "turn": None})
BETWEEN_FAILED = ("compaction/end", {"compactionId": "c", "turn": None, "error": {"message": "m"}})
TURN = ("turn/start", {"turn": 1})
END = ("turn/end", {"turn": 1, "reason": {"kind": "completed"}})


def log(*events: tuple[str, Any]) -> EventRun:
    return EventRun(
        SessionEvent(type=type, seq=seq, time=0, encoded=encode_data(type, data))
        for seq, (type, data) in enumerate(events)
    )


@pytest.mark.parametrize(
    "events",
    [
        [TODO, THEIRS, MARK],
        [CHILD, CHILD, MARK],
        [CHILD, MARK, CHILD],
        [("subagent/catalog", {}), MARK],
        [TODO, THEIRS, MARK, CHILD, THEIRS, MARK],
    ],
)
def test_inherited_records_are_the_parents(events: list[tuple[str, Any]]) -> None:
    """GENERATIONS §5: the catalog and the deliveries before the last tagged mark are another session's."""
    assert log(*events).validate(FORK).next_seq == len(events)


@pytest.mark.parametrize(
    ("events", "header"),
    [
        ([TODO, MARK, THEIRS], FORK),
        ([MARK, CHILD, CHILD], FORK),
        ([MARK, ("subagent/catalog", {})], FORK),
        ([TODO, THEIRS, MARK], ORPHAN),
    ],
)
def test_own_records_are_not(events: list[tuple[str, Any]], header: SessionHeader) -> None:
    """GENERATIONS §5: after the mark they are the session's own, and without a parent they always are."""
    with pytest.raises(EventRefused):
        log(*events).validate(header)
    live = Session(header, stored=log(TODO, MARK))
    own = [event for event in events if event not in (TODO, MARK)]
    with pytest.raises(EventRefused):
        for type, data in own:
            live.append(type, data)


def test_an_abandoned_compaction_may_be_crossed() -> None:
    """GENERATIONS §5: run with dsh: a turn may end inside a compaction that a later mark shows to be abandoned."""
    assert log(TURN, START, END, RESUMED).validate().turn is None
    assert log(TURN, START, END, TODO, RESUMED, ("turn/start", {"turn": 2})).validate().turn == 2


@pytest.mark.parametrize(
    "events",
    [
        [TURN, START, END],
        [TURN, START, END, TODO],
        [TURN, START, END, FAILED, RESUMED],
        [BETWEEN, TURN, END, BETWEEN_FAILED, RESUMED],
    ],
)
def test_another_may_not(events: list[tuple[str, Any]]) -> None:
    """GENERATIONS §5: run with dsh: without that mark, or when the compaction goes on, the log is refused."""
    with pytest.raises(EventRefused):
        log(*events).validate()


def test_a_live_session_marks_it_at_once() -> None:
    """A session that closes an interrupted turn inside a compaction goes on with the mark and nothing else."""
    header = SessionHeader(id="s", created_at=0)
    session = Session(header, stored=log(TURN, START))
    with pytest.raises(EventRefused, match="still open"):
        session.append(*END)
    session.extend(interrupted_closers(session.state))
    with pytest.raises(EventRefused, match="comes first"):
        session.append(*TODO)
    session.mark_resumed()
    session.append("turn/start", {"turn": 2})
    session.events.validate(header)


def test_an_unsettled_state_waits() -> None:
    """Whoever feeds a part of a log learns of such an event when the log has ended."""
    state = LogState(header=FORK)
    state.feed_all(log(TODO, THEIRS))
    with pytest.raises(EventRefused, match="not this one") as caught:
        state.settle()
    assert caught.value.seq == 1


def test_no_system_message_follows_another_beginning() -> None:
    """WRITING, the trap: a log whose first message is no system message never gets one."""
    user = {"role": "user", "id": "m", "source": {"kind": "user"}, "content": []}
    prompt = {"role": "system", "id": "n", "source": {"kind": "system-prompt"}, "content": []}
    place = {"turn": 1, "step": 1}
    events = [TURN, ("step/start", place), ("user/message", user), ("system/message", {**place, "message": prompt})]
    stored = [
        SessionEvent(
            type=type,
            seq=seq,
            time=0,
            encoded=encode_data(type, data),
            surface_op="append" if "message" in type else None,
        )
        for seq, (type, data) in enumerate(events)
    ]
    with pytest.raises(EventRefused, match="none may follow"):
        EventRun(stored).validate()
    with pytest.raises(EventRefused, match="none may follow"):
        EventRun(stored).surface()
