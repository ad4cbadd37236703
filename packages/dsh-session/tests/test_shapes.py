"""Every type of event, with members nobody knows, there and back."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_session import (
    DataNotLossless,
    EventRefused,
    EventRun,
    Session,
    SessionEvent,
    SessionHeader,
    Sessions,
    decode_json,
    encode_data,
)
from dsh_session.generations import KNOWN_TYPES

HEADER = SessionHeader(id="session-1", created_at=1, cwd="/srv/project")
SUBJECTS = ("compaction", "content", "records", "requests", "tools")
EXACT = {"image/offload"}


def _survives(value: Any) -> bool:
    with contextlib.suppress(DataNotLossless):
        encode_data("t", value)
        return True
    return False


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=4) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
).filter(_survives)
EXTRA = st.dictionaries(st.text(max_size=3).map("x-{}".format), JSON, min_size=1, max_size=3)


def accepted() -> Iterator[Callable[[Any], object]]:
    """Yield the acts of all rules' accepted cases."""
    for subject in SUBJECTS:
        cases = importlib.import_module(f"test_rules_{subject}").CASES
        yield from (act for act, reason in cases.values() if reason is None)


class Generous:
    """A session whose every event carries members of its own."""

    def __init__(self, extra: dict[str, Any]) -> None:
        self.session = Session(HEADER, clock=lambda: 7)
        self.extra = extra

    def append(self, type: str, data: Any, **envelope: Any) -> SessionEvent:
        return self.session.append(type, data if type in EXACT else {**data, **self.extra}, **envelope)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)


def copy(session: Session) -> Session:
    """Store, read and append again, as a fork or another backend would."""
    stored = EventRun(session.events)
    stored.validate(session.header)
    again = Session(session.header, clock=lambda: 7)
    for event in stored:
        again.append(
            event.type,
            decode_json(event.encoded),
            surface_op=event.surface_op,
            source_event_seqs=event.source_event_seqs,
            ignorable=event.ignorable,
        )
    return again


@settings(max_examples=25, deadline=None)
@given(extra=EXTRA)
def test_events_with_rules(talk_of: Callable[[Any], Any], extra: dict[str, Any]) -> None:
    """CASES B07: events of every type that has a rule, with unknown members, come back in the same bytes."""
    seen: set[str] = set()
    for act in accepted():
        generous = Generous(extra)
        act(talk_of(generous))
        session = generous.session
        seen |= {event.type for event in session.events}
        again = copy(session)
        assert tuple(again.events) == tuple(session.events)
        assert again.messages() == session.messages()
        assert extra.items() <= session.events[0].data.items()
        fork = Sessions(new_id=lambda: "fork").fork(session)
        assert tuple(fork.events[: session.next_seq]) == tuple(session.events)
    assert {"turn/end", "image/offload", "llm/retry-started", "tool/ptc-dispatch", "subagent/catalog"} <= seen


RULELESS = sorted(
    KNOWN_TYPES - {type for type in KNOWN_TYPES if type in importlib.import_module("dsh_session._rules").RULES}
)


@settings(max_examples=50, deadline=None)
@given(st.sampled_from([*RULELESS, "acme/thing", "plugin:acme/thing"]), JSON)
def test_events_without_rules(type: str, data: Any) -> None:
    """CASES B07: events that no rule reads, unknown types among them, carry any data untouched."""
    session = Session(HEADER, clock=lambda: 7)
    event = session.append(type, data, ignorable=type not in KNOWN_TYPES)
    assert event.data == data
    assert tuple(copy(session).events) == (event,)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [{"x": float("-inf")}]])
def test_no_number_that_is_none(session: Session, value: Any) -> None:
    """CASES B04: NaN and infinities are refused before anything is stored, by event type and JSON path."""
    with pytest.raises(DataNotLossless) as caught:
        session.append("plugin:acme/loss", {"nested": value})
    where = "$.nested[0].x" if isinstance(value, list) else "$.nested"
    assert (caught.value.type, caught.value.path, session.next_seq) == ("plugin:acme/loss", where, 0)
    for token in (b"NaN", b"Infinity", b'{"loss":NaN}'):
        with pytest.raises(ValueError, match="JSON"):
            decode_json(token)


def test_later_changes_reach_nothing(session: Session) -> None:
    """CASES B06: what was appended stays as it was; a value that is no JSON raises at the append."""
    data: dict[str, Any] = {"n": 1, "list": [1]}
    event = session.append("plugin:acme/thing", data)
    data["n"] = 2
    data["list"].append(2)
    event.data["n"] = 3
    assert event.data == session.events[0].data == {"n": 1, "list": [1]}
    with pytest.raises(DataNotLossless, match=r"\$\.self"):
        session.append("plugin:acme/thing", {"self": object()})
    assert session.next_seq == 1


def test_a_log_may_begin_with_what_nobody_knows(talk: Any) -> None:
    """CASES C06: unknown events before the first message are kept as they are, and the session goes on."""
    for number in range(3):
        talk.append("acme/thing", {"n": number}, ignorable=True)
    talk.open()
    talk.user()
    talk.close()
    stored = EventRun(talk.session.events)
    session = Session(talk.session.header, stored=stored)
    assert [event.encoded for event in session.events[:3]] == [b'{"n":0}', b'{"n":1}', b'{"n":2}']
    assert [message["role"] for message in session.messages()] == ["system", "user"]
    assert session.append("turn/start", {"turn": 2}).seq == len(stored)


def test_deep_data_is_opaque(talk: Any) -> None:
    """WRITING trap 7: data nested deeper than Python decodes is no fault where no rule reads it."""
    deep = b"[" * 3000 + b"]" * 3000
    event = SessionEvent(type="acme/thing", seq=0, time=0, encoded=deep, ignorable=True)
    session = Session(talk.session.header, stored=[event])
    session.extend([SessionEvent(type="acme/thing", seq=1, time=0, encoded=deep, ignorable=True)])
    assert session.events.validate(session.header).next_seq == 2
    message = SessionEvent(type="user/message", seq=2, time=0, encoded=deep, surface_op="append")
    with pytest.raises(EventRefused):
        EventRun([*session.events, message]).validate()
