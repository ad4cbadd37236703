"""What the contract stores: headers and events that are valid, and hard."""

from __future__ import annotations

from typing import Any

from dsh_session import EncodedBatch, Replace, Session, SessionEvent, SessionHeader, SurfaceOp, encode_data

CREATED_AT = 1_700_000_000_000


def make_header(session_id: str = "session-1", *, cwd: str | None = "/srv/project", **fields: Any) -> SessionHeader:
    """Return a header with a fixed creation time."""
    return SessionHeader(id=session_id, created_at=CREATED_AT, cwd=cwd, **fields)


def make_event(
    seq: int,
    data: object = None,
    *,
    type: str = "plugin:contract/note",
    time: int | None = None,
    sources: tuple[int, ...] | None = None,
    op: SurfaceOp | None = None,
) -> SessionEvent:
    """Return an event; without ``data`` it holds its own seq."""
    return SessionEvent(
        type=type,
        seq=seq,
        time=CREATED_AT + seq if time is None else time,
        encoded=encode_data(type, {"n": seq} if data is None else data),
        source_event_seqs=sources,
        surface_op=op,
        ignorable=type.startswith(("plugin:", "unknown/")),
    )


def make_batch(first_seq: int, count: int = 1) -> EncodedBatch:
    """Return ``count`` small events from ``first_seq`` on."""
    return EncodedBatch(first_seq=first_seq, events=tuple(make_event(first_seq + step) for step in range(count)))


_HOLLOW: dict[str, Any] = {"empty": [{}, [], "", {"": ""}]}


def _nested(depth: int) -> Any:
    value: Any = "core"
    for _ in range(depth):
        value = {"in": [value]}
    return value


def _message(number: int, text: str) -> dict[str, Any]:
    return {"role": "user", "id": f"m{number}", "source": {"kind": "user"}, "content": [{"type": "text", "text": text}]}


HARD_DATA: tuple[Any, ...] = (
    {"text": "x\ud83d…"},
    {"\udc9f": ["\udc9f", "\ud800\ud800"]},
    {"out": "W\0s\0l", "k\0ey": 1, "literal": "\\u0000"},
    {"text": "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1eh\ri\nj\tk\x7f"},
    {"text": "新聞 ü 😀 \ufeff \uffff", "escaped": '"\\/\b'},
    {"integers": [0, 2**53 - 1, 1 - 2**53], "floats": [0.1, 1e300, 5e-324, 1.5], "more": [True, False, None]},
    _HOLLOW,
    _nested(100),
    {"big": "0123456789abcdef" * 20_000},
    [1, [2]],
    "only text",
    7,
    True,
)
"""Data that stores have been seen to drop, cut or change."""


def hard_events() -> tuple[SessionEvent, ...]:
    """Return events with hard data, then with every form of envelope, consecutive from seq 0."""
    events = [make_event(seq, data) for seq, data in enumerate(HARD_DATA)]

    def add(data: object, **envelope: Any) -> None:
        events.append(make_event(len(events), data, **envelope))

    add({"acme": 1}, type="unknown/thing")
    add(
        {"title": "t", "messageSeqs": [], "source": {"kind": "user"}, "unknownKey": {"kept": True}},
        type="session/title",
    )
    add({"todos": []}, type="todo/write", time=-5)
    add({"todos": []}, type="todo/write", time=0)
    first = len(events)
    for number in range(6):
        add(_message(number, "said"), type="user/message", op="append")
    add(_message(6, "again"), type="user/message", op=Replace(first, first), sources=(first,))
    span = Replace(start_seq=first + 1, end_seq=first + 5)
    add(_message(7, "all"), type="user/message", op=span, sources=tuple(range(first + 1, first + 6)))
    add(_message(8, "backwards"), type="user/message", op="append", sources=(first + 4, first, first + 2))
    return tuple(events)


def open_turn(session: Session) -> None:
    """Append a turn that is left open: two tool calls are announced, and the first of them was started."""
    place = {"turn": session.state.last_turn + 1, "step": 1}
    session.append("turn/start", {"turn": place["turn"]})
    session.append("step/start", place)
    if not session.state.surface.nodes:
        system: dict[str, Any] = {"role": "system", "id": "s", "source": {"kind": "system-prompt"}, "content": []}
        session.append("system/message", {**place, "message": system}, surface_op="append")
    calls = [{"type": "tool-call", "id": call, "name": "bash", "arguments": "{}"} for call in ("started", "announced")]
    source = {"kind": "model", "provider": "p", "model": "m"}
    message = {"role": "assistant", "id": f"m{session.next_seq}", "source": source, "content": calls}
    session.append("assistant/message", {**place, "message": message, "stream": []}, surface_op="append")
    session.append("tool/call", {**place, "callId": "started", "name": "bash", "arguments": "{}"})


OPEN_TURN = ("turn/start", "step/start", "system/message", "assistant/message", "tool/call")
"""The types of the events of an open turn."""
CLOSERS = ("tool/result", "tool/result", "step/end", "turn/end")
"""The types of the events that close it."""
