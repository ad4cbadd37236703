from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from dsh_session import EventLog, EventRefused, EventRun, LogIncomplete, Replace, SessionEvent, SessionHeader


class Counting(EventRun):
    """Counts which events a question asked for; iterating it is an error."""

    asked: list[str]

    def of_type(self, *types: str) -> Iterator[SessionEvent]:
        self.asked = list(types)
        return (event for event in self._events if event.type in types)

    def __iter__(self) -> Iterator[SessionEvent]:
        msg = "every event was asked for"
        raise AssertionError(msg)


@pytest.fixture
def log(talk: Any) -> EventLog:
    """Two turns, a replaced question, a header, and an injected message."""
    talk.open()
    first = talk.user(content=[{"type": "text", "text": "first"}])
    header = {"config": {"provider": "p", "model": "m"}, "tools": [{"name": "bash"}]}
    talk.append("request/header", {"header": header, "reason": "initial"})
    talk.assistant()
    talk.close().open()
    talk.user(source={"kind": "runtime-context"})
    talk.user(op=talk.replace(first.seq, first.seq), cite=(first.seq,), content=[{"type": "text", "text": "again"}])
    talk.append("request/header", {"header": {"config": {"provider": "p", "model": "n"}}, "reason": "change"})
    talk.close()
    return EventRun(talk.session.events)


def test_of_type(log: EventLog) -> None:
    """Events of several types come in log order; no type gives none."""
    found = list(log.of_type("turn/start", "turn/end"))
    assert [event.type for event in found] == ["turn/start", "turn/end"] * 2
    assert [event.seq for event in found] == sorted(event.seq for event in found)
    assert list(log.of_type()) == list(log.of_type("absent")) == []


def test_surface(log: EventLog) -> None:
    """FORMAT §6: the surface is in position order, not in that of seqs."""
    assert [(event.type, event.seq) for event in log.surface()] == [
        ("system/message", 2),
        ("user/message", 11),
        ("assistant/message", 5),
        ("user/message", 10),
    ]


def test_messages(log: EventLog, talk: Any) -> None:
    """FORMAT §6: a log gives the messages that the live session over it gives."""
    messages = list(log.messages())
    assert messages == talk.session.messages() == list(talk.session.events.messages())
    assert [message["content"][0]["text"] for message in messages] == ["hi", "again", "hi", "hi"]


def test_human_messages(log: EventLog) -> None:
    """What the human said, in the order it was said, also what was replaced; nothing that was injected."""
    assert [message["content"][0]["text"] for message in log.human_messages()] == ["first", "again"]


def test_request_header(log: EventLog) -> None:
    """FORMAT §7: the latest header is in force; a request of an earlier moment comes from that prefix."""
    header = log.request_header()
    assert header is not None
    assert (header.seq, header.config["model"], list(header.tools), dict(header.adapter_defaults)) == (12, "n", [], {})
    earlier = EventRun(log[:5]).model_request()
    assert earlier is not None
    assert (earlier.header.config["model"], [tool["name"] for tool in earlier.header.tools]) == ("m", ["bash"])
    assert [message["role"] for message in earlier.messages] == ["system", "user"]
    assert EventRun(log[:4]).request_header() is EventRun(log[:4]).model_request() is None


def test_questions_ask_for_their_types_only(log: EventLog) -> None:
    """Issue 3: every question goes through ``of_type``, so a backend that overrides it makes them all cheap."""
    lazy = Counting(tuple(log))
    for question, types in (
        (lambda: list(lazy.messages()), {"image/offload", "user/message", "tool/result"}),
        (lazy.surface, {"user/message", "system/message", "developer/message"}),
        (lambda: list(lazy.human_messages()), {"user/message"}),
        (lazy.request_header, {"request/header"}),
    ):
        question()
        assert types <= set(lazy.asked)
        assert "turn/start" not in lazy.asked


def test_a_suffix_knows_no_beginning(log: EventLog) -> None:
    """Issue 3: what needs the beginning is refused by name; what does not is answered."""
    suffix = EventRun(log[3:])
    for question in (suffix.surface, suffix.messages, suffix.validate, suffix.model_request):
        with pytest.raises(LogIncomplete, match="begins at seq 3") as caught:
            question()
        assert caught.value.first_seq == 3
    header = suffix.request_header()
    assert header is not None
    assert header.seq == 12
    assert len(list(suffix.human_messages())) == 2
    with pytest.raises(LogIncomplete):
        EventRun(log[13:]).request_header()


def test_validate(log: EventLog) -> None:
    """The state of a whole log; the first event that breaks a rule is named."""
    state = log.validate()
    assert (state.next_seq, state.turn, state.last_turn) == (len(log), None, 2)
    broken = EventRun([*log, SessionEvent(type="turn/end", seq=len(log), time=0, encoded=b'{"turn":2}')])
    with pytest.raises(EventRefused) as caught:
        broken.validate()
    assert (caught.value.seq, caught.value.reason) == (len(log), "no turn is open")


def test_validate_with_the_header(talk: Any) -> None:
    """GENERATIONS §1.1: a seeded header needs its mark, an unseeded one forbids it."""
    talk.open().close()
    plain = SessionHeader(id="s", created_at=0)
    seeded = SessionHeader(id="s", created_at=0, is_seeded=True)
    log = talk.session.events
    mark = SessionEvent(type="session/end-seed", seq=len(log), time=0, encoded=b'{"inherited":true}')
    for header, events, reason in ((seeded, log, "no mark"), (plain, [*log, mark], "nothing was inherited")):
        with pytest.raises(EventRefused, match=reason):
            EventRun(events).validate(header)
    EventRun(log).validate(plain)
    EventRun([*log, mark]).validate(seeded)
    EventRun([*log, mark]).validate()


def test_a_node_without_a_message(log: EventLog) -> None:
    """A log that was never validated still answers, or says which event is no message."""
    broken = [*log, SessionEvent(type="user/message", seq=len(log), time=0, encoded=b"[]", surface_op="append")]
    messages = EventRun(broken).messages()
    assert [next(messages)["role"] for _ in range(4)] == ["system", "user", "assistant", "user"]
    with pytest.raises(EventRefused, match="no message"):
        next(messages)


def test_folding_is_linear() -> None:
    """WRITING trap 4: a surface of 60,000 nodes with as many replacements folds in a moment."""
    count = 60_000
    message = b'{"role":"user","id":"m","source":{"kind":"user"},"content":[]}'

    def event(seq: int, replaces: tuple[int, ...] = ()) -> SessionEvent:
        op = Replace(start_seq=replaces[0], end_seq=replaces[-1]) if replaces else "append"
        return SessionEvent(
            type="user/message", seq=seq, time=0, encoded=message, surface_op=op, source_event_seqs=replaces or None
        )

    nodes = list(range(count))
    events = [event(seq) for seq in nodes]
    for seq in range(count, 2 * count - 1):  # each takes the place of the first node and the one after it
        covered = (nodes[0] if seq == count else seq - 1, seq - count + 1)
        events.append(event(seq, covered))
    started = time.process_time()
    assert [node.seq for node in EventRun(events).surface()] == [2 * count - 2]
    assert time.process_time() - started < 5
