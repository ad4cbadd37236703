"""The rules that make a harness refuse a whole log, one by one (FORMAT §1.1, §4.4, §5; GENERATIONS §5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dsh_session import EventRefused, LogState, Session, SessionEvent, SessionHeader, interrupted_closers


def feed(*types_and_data: tuple[str, Any]) -> LogState:
    """Feed log-only events to a state that need not begin at the log's beginning."""
    import json

    state = LogState()
    for type, data in types_and_data:
        state.feed(SessionEvent(type=type, seq=state.next_seq, time=9, encoded=json.dumps(data).encode()), data)
    return state


TURN = ("turn/start", {"turn": 1})
STEP = ("step/start", {"turn": 1, "step": 1})
STEP_END = ("step/end", {"turn": 1, "step": 1})
TURN_END = ("turn/end", {"turn": 1, "reason": {"kind": "completed"}})


def test_structure_is_followed() -> None:
    """FORMAT §5: turns count 1, 2, 3 …, steps 1, 2, … in each; what is open is known at any time."""
    state = feed(TURN, STEP, STEP_END, ("step/start", {"turn": 1, "step": 2}))
    assert (state.turn, state.step, state.last_step, state.next_seq) == (1, 2, 2, 4)
    state = feed(TURN, STEP, STEP_END, TURN_END, ("turn/start", {"turn": 2}), ("step/start", {"turn": 2, "step": 1}))
    assert (state.turn, state.step, state.last_turn, state.last_type, state.last_time) == (2, 1, 2, "step/start", 9)
    assert feed(TURN, TURN_END).turn is None


BROKEN: list[list[tuple[str, Any]]] = [
    [("turn/start", {"turn": 2})],
    [("turn/start", {"turn": 0})],
    [("turn/start", {"turn": True})],
    [("turn/start", {"turn": "1"})],
    [("turn/start", {})],
    [("turn/start", [])],
    [("turn/start", None)],
    [TURN, ("turn/start", {"turn": 2})],
    [TURN, TURN_END, ("turn/start", {"turn": 1})],
    [TURN_END],
    [TURN, ("turn/end", {"turn": 2, "reason": {"kind": "completed"}})],
    [TURN, ("turn/end", {"turn": 1})],
    [TURN, ("turn/end", {"turn": 1, "reason": {}})],
    [TURN, ("turn/end", {"turn": 1, "reason": "completed"})],
    [TURN, STEP, TURN_END],
    [STEP],
    [TURN, ("step/start", {"turn": 1, "step": 2})],
    [TURN, ("step/start", {"turn": 2, "step": 1})],
    [TURN, STEP, ("step/start", {"turn": 1, "step": 2})],
    [TURN, STEP_END],
    [TURN, STEP, ("step/end", {"turn": 1, "step": 2})],
    [TURN, STEP, STEP_END, STEP],
]


@pytest.mark.parametrize(
    "events",
    BROKEN,
    ids=[f"{number}-{events[-1][0]}" for number, events in enumerate(BROKEN)],
)
def test_structure_is_kept(events: list[tuple[str, Any]]) -> None:
    """FORMAT §5: whatever breaks the numbering or nesting of turns and steps is refused."""
    *before, last = events
    state = feed(*before)
    kept = (state.turn, state.step, state.last_turn, state.last_step, state.next_seq)
    with pytest.raises(EventRefused) as caught:
        state.feed(SessionEvent(type=last[0], seq=len(before), time=9, encoded=b"null"), last[1])
    assert (caught.value.type, caught.value.seq) == (last[0], len(before))
    assert (state.turn, state.step, state.last_turn, state.last_step, state.next_seq) == kept


HEADER = {"config": {"provider": "p", "model": "m"}}


def test_requests() -> None:
    """FORMAT §7: the latest request header and context are known; both need an open turn."""
    state = feed(
        TURN,
        ("request/header", {"header": HEADER, "reason": "initial"}),
        ("request/context", {"provider": "p", "model": "m"}),
    )
    assert (state.request_header_seq, state.request_context_seq) == (1, 2)
    for type, data in (("request/header", {"header": HEADER}), ("request/context", {})):
        with pytest.raises(EventRefused, match="no turn is open"):
            feed((type, data))


@pytest.mark.parametrize(
    "header",
    [
        {},
        [],
        "text",
        {"config": {}},
        {"config": {"provider": "p"}},
        {"config": {"provider": "", "model": "m"}},
        {**HEADER, "system": "be good"},
        {**HEADER, "system": None},
        {**HEADER, "tools": []},
    ],
)
def test_bad_request_headers(header: Any) -> None:
    """FORMAT §4.4, GENERATIONS §4: a config names provider and model; no system prompt, no empty tools."""
    with pytest.raises(EventRefused):
        feed(TURN, ("request/header", {"header": header, "reason": "initial"}))


def test_attempts_need_their_step() -> None:
    """GENERATIONS §3: an attempt without message lies in its open step and has a stream."""
    assert feed(TURN, STEP, ("assistant/attempt", {"turn": 1, "step": 1, "stream": []})).next_seq == 3
    for place in ({"turn": 1, "step": 2, "stream": []}, {"turn": 1, "step": 1}, {"turn": 1, "step": 1, "stream": {}}):
        with pytest.raises(EventRefused):
            feed(TURN, STEP, ("assistant/attempt", place))


def test_seqs_are_dense() -> None:
    """FORMAT §1: an event's seq is its index; a gap or a repetition is refused."""
    state = feed(TURN)
    for seq in (0, 2):
        with pytest.raises(EventRefused, match="goes on with seq 1"):
            state.feed(SessionEvent(type="todo/write", seq=seq, time=0, encoded=b"{}"), {})


@pytest.mark.parametrize(
    ("type", "envelope", "reason"),
    [
        ("acme/thing", {}, "unknown"),
        ("tool/code-dispatch", {}, "unknown"),
        ("assistant/chunk", {}, "unknown"),
        ("acme/\ud800", {"ignorable": True}, "surrogate"),
        ("todo/write", {"surface_op": "append"}, "only for messages"),
        ("todo/write", {"source_event_seqs": (0,)}, "only for messages"),
    ],
)
def test_envelopes(talk: Any, type: str, envelope: dict[str, Any], reason: str) -> None:
    """FORMAT §1.1, §4.3: unknown types need ``ignorable``; only surface types carry operations and sources."""
    talk.open()
    with pytest.raises(EventRefused, match=reason):
        talk.append(type, {}, **envelope)


def test_ignorable_and_plugin_types(talk: Any) -> None:
    """FORMAT §4.3, GENERATIONS §5 item 6: ignorable events pass with any data; plugin types are ignorable anyway."""
    talk.open()
    assert talk.append("acme/thing", None, ignorable=True).ignorable is True
    assert talk.append("plugin:acme/thing", [1]).ignorable is True
    assert talk.append("todo/write", {"todos": []}).ignorable is False


@pytest.mark.parametrize(
    ("cite", "reason"), [((), "empty"), ((2, 2), "distinct"), ((99,), "earlier"), ((-1,), "earlier"), ((3,), "earlier")]
)
def test_sources(talk: Any, cite: tuple[int, ...], reason: str) -> None:
    """FORMAT §1.1: sources are distinct earlier seqs, and left out when there are none."""
    talk.open()  # three events, so the next one is seq 3
    with pytest.raises(EventRefused, match=reason):
        talk.user(cite=cite)
    assert talk.user(cite=(2, 0)).source_event_seqs == (2, 0)


def test_surface_types_need_an_operation(talk: Any) -> None:
    """FORMAT §1.1: a message without a surface operation is refused."""
    talk.open()
    with pytest.raises(EventRefused, match="needs a surface operation"):
        talk.user(op=None)


MESSAGES: dict[str, Callable[..., Any]] = {
    "role": lambda talk, make: make(role="nobody"),
    "no-id": lambda talk, make: make(id=""),
    "id-number": lambda talk, make: make(id=7),
    "content-text": lambda talk, make: make(content="hi"),
    "source-missing": lambda talk, make: make(source=None),
    "source-no-kind": lambda talk, make: make(source={}),
    "source-empty-kind": lambda talk, make: make(source={"kind": ""}),
    "source-plugin": lambda talk, make: make(source={"kind": "plugin", "plugin": "x"}),
}


@pytest.mark.parametrize("distort", MESSAGES.values(), ids=MESSAGES.keys())
@pytest.mark.parametrize("kind", ["system", "developer", "user", "assistant"])
def test_message_shapes(talk: Any, kind: str, distort: Callable[..., Any]) -> None:
    """FORMAT §4.4, GENERATIONS §5: without role, id, content blocks and a producer's source a message is refused."""
    talk.open()
    before = talk.session.next_seq
    with pytest.raises(EventRefused):
        distort(talk, getattr(talk, kind))
    assert talk.session.next_seq == before
    assert getattr(talk, kind)().seq == before


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("system", {"kind": "user"}),
        ("assistant", {"kind": "user"}),
        ("assistant", {"kind": "model", "provider": "p"}),
        ("assistant", {"kind": "model", "provider": "", "model": "m"}),
    ],
)
def test_sources_of_roles(talk: Any, kind: str, source: dict[str, str]) -> None:
    """GENERATIONS §5: a system message comes from the system prompt, a reply from a named model."""
    talk.open()
    with pytest.raises(EventRefused):
        getattr(talk, kind)(source=source)


def test_messages_in_their_place(talk: Any) -> None:
    """FORMAT §5: system, developer and assistant messages lie in their open step; user messages anywhere."""
    talk.open().close()
    for kind in ("system", "developer", "assistant"):
        with pytest.raises(EventRefused, match="no turn is open"):
            getattr(talk, kind)()
    assert talk.user().type == "user/message"


def test_assistant_messages(talk: Any) -> None:
    """GENERATIONS §3: an assistant message has a stream, cites nothing, and announces each call once."""
    talk.open()
    message = talk.message("assistant", {"kind": "model", "provider": "p", "model": "m"})
    for data, envelope in (
        ({"message": message}, {}),
        ({"message": message, "stream": None}, {}),
        ({"message": message, "stream": []}, {"source_event_seqs": (0,)}),
    ):
        with pytest.raises(EventRefused):
            talk.append("assistant/message", {**talk.place(), **data}, surface_op="append", **envelope)
    for content in ([{"type": "tool-call", "id": ""}], ["text"], [{"type": "tool-call", "id": ["a"]}]):
        with pytest.raises(EventRefused):
            talk.assistant(content=content)
    with pytest.raises(EventRefused, match="twice"):
        talk.assistant("a", "a")
    talk.assistant("a")
    with pytest.raises(EventRefused, match="twice"):
        talk.assistant("a")
    assert [call.call_id for call in talk.session.state.calls.values()] == ["a"]


def test_calls_settle(talk: Any) -> None:
    """GENERATIONS §5: a call is announced, started once, settled once; then the step may end."""
    talk.open().assistant("a", "b")
    assert [call.call_id for call in talk.session.state.calls.values()] == ["a", "b"]
    started = talk.call("b")
    assert talk.session.state.calls["b"].started_seq == started.seq
    talk.result("b")
    assert list(talk.session.state.calls) == ["a"]
    with pytest.raises(EventRefused, match="calls a have no result"):
        talk.append("step/end", talk.place())
    talk.call("a")
    talk.result("a")
    talk.close()
    assert talk.session.state.turn is None


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        pytest.param(lambda talk: talk.call("z"), "announces", id="announced-nowhere"),
        pytest.param(lambda talk: talk.call("a", name="other"), "differs", id="other-name"),
        pytest.param(lambda talk: talk.call("a", arguments="{ }"), "differs", id="other-arguments"),
        pytest.param(lambda talk: talk.call("a", step=2), "step 1 is due", id="other-step"),
        pytest.param(lambda talk: (talk.call("a"), talk.call("a")), "started before", id="started-twice"),
        pytest.param(lambda talk: talk.result("z"), "waits for a result", id="result-of-nothing"),
        pytest.param(lambda talk: talk.result("a"), "has not started", id="result-without-start"),
        pytest.param(
            lambda talk: (talk.call("a"), talk.result("a"), talk.result("a")), "waits for a result", id="settled-twice"
        ),
        pytest.param(lambda talk: talk.result("a", message={"toolCallId": "b"}), "different calls", id="other-call"),
        pytest.param(
            lambda talk: talk.result("a", message={"source": {"kind": "user", "callId": "a"}}),
            "source kind",
            id="source-kind",
        ),
        pytest.param(lambda talk: talk.result("a", message={"role": "user"}), "role", id="role"),
        pytest.param(
            lambda talk: talk.result("a", error={"name": "E", "code": "E"}), "without isError", id="error-alone"
        ),
        pytest.param(
            lambda talk: talk.result("a", error="E", message={"isError": True}), "has not started", id="error-text"
        ),
    ],
)
def test_calls_that_do_not_fit(talk: Any, act: Callable[[Any], Any], reason: str) -> None:
    """GENERATIONS §5: a call must match its announcement, a result its started call; errors say ``isError``."""
    talk.open().assistant("a", "b")
    with pytest.raises(EventRefused, match=reason):
        act(talk)


def test_a_repair_may_settle_what_never_started(talk: Any) -> None:
    """GENERATIONS §5: the exact not-started repair is the one result without a start."""
    talk.open().assistant("a")
    (repair, *_) = interrupted_closers(talk.session.state)
    data = repair.data
    for distorted in (
        {**data, "error": {**data["error"], "name": "Error"}},
        {**data, "message": {**data["message"], "id": "interrupted-tool-result-a-x"}},
        {**data, "message": {**data["message"], "content": [{"type": "text", "text": "never"}]}},
        {**data, "message": {**data["message"], "content": []}},
    ):
        with pytest.raises(EventRefused, match="has not started"):
            talk.append("tool/result", distorted, surface_op="append")
    with pytest.raises(EventRefused, match="has not started"):
        talk.append("tool/result", data, surface_op="append", source_event_seqs=(3,))
    talk.append("tool/result", data, surface_op="append")
    assert talk.session.state.calls == {}


def test_stored_data_that_no_rule_reads_stays_bytes(header: SessionHeader) -> None:
    """WRITING trap 7: data nested deeper than Python decodes is an opaque event, not a broken log."""
    deep = b"[" * 5_000 + b"]" * 5_000
    stored = [SessionEvent(type="todo/write", seq=0, time=0, encoded=deep)]
    assert Session(header, stored=stored).next_seq == 1


def test_stored_data_that_is_no_json(header: SessionHeader) -> None:
    """Undecodable data of an event that matters refuses the log with the event's type and seq."""
    stored = [SessionEvent(type="turn/start", seq=0, time=0, encoded=b'{"turn":')]
    with pytest.raises(EventRefused, match="no JSON") as caught:
        Session(header, stored=stored)
    assert (caught.value.type, caught.value.seq) == ("turn/start", 0)
