from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dsh_session import (
    LogState,
    Session,
    SessionEvent,
    decode_header,
    encode_data,
    interrupted_closers,
    repair_closers,
)

STARTED = (
    "The tool call was interrupted after it was recorded, but no result was durably recorded. Its outcome is unknown. "
    "Decide whether to retry from the tool semantics: retry only if the operation is read-only or idempotent; if it "
    "may have side effects, first verify external state or ask the user. Do not retry blindly."
)


def closers(session: Session) -> list[tuple[str, Any, tuple[int, ...] | None]]:
    found = interrupted_closers(session.state)
    assert [event.seq for event in found] == list(range(session.next_seq, session.next_seq + len(found)))
    assert {event.time for event in found} <= {session.state.last_time}
    return [(event.type, event.data, event.source_event_seqs) for event in found]


def test_balanced_logs_need_none(talk: Any) -> None:
    """FORMAT §4.5: an empty or balanced log gets nothing, whatever follows its last turn."""
    assert closers(talk.session) == []
    talk.open().close()
    talk.append("session/end-seed", {})
    assert closers(talk.session) == []


def test_open_turn_and_step(talk: Any) -> None:
    """FORMAT §4.5: an open step is ended, then the turn as interrupted."""
    talk.append("turn/start", {"turn": 1})
    end = ("turn/end", {"turn": 1, "reason": {"kind": "interrupted"}}, None)
    assert closers(talk.session) == [end]
    talk.append("step/start", {"turn": 1, "step": 1})
    assert closers(talk.session) == [("step/end", {"turn": 1, "step": 1}, None), end]
    talk.append("step/end", {"turn": 1, "step": 1})
    assert closers(talk.session) == [end]


def test_unsettled_calls(talk: Any) -> None:
    """GENERATIONS §8: each unsettled call gets a result in message order, saying whether it had started."""
    talk.open().assistant("a", "b", "c")
    started = talk.call("b")
    talk.call("a")
    talk.result("a")
    first, second = interrupted_closers(talk.session.state)[:2]
    assert (first.data["error"], first.source_event_seqs, first.surface_op) == (
        {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"},
        (started.seq,),
        "append",
    )
    assert (second.data["error"], second.source_event_seqs) == (
        {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"},
        None,
    )
    expected = {
        "turn": 1,
        "step": 1,
        "message": {
            "id": f"interrupted-tool-result-b-{first.seq}",
            "role": "tool",
            "toolCallId": "b",
            "isError": True,
            "source": {"kind": "tool", "callId": "b"},
            "content": [{"type": "text", "text": STARTED}],
        },
        "error": {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"},
    }
    assert first.encoded == encode_data("tool/result", expected)


def test_closed_logs_stay_closed(talk: Any) -> None:
    """CASES A17: a log with its closers is balanced and valid; closing it again adds nothing."""
    talk.open().assistant("a", "b")
    talk.call("a")
    talk.session.extend(interrupted_closers(talk.session.state))
    assert [event.type for event in talk.session.events][-4:] == ["tool/result", "tool/result", "step/end", "turn/end"]
    assert interrupted_closers(talk.session.state) == ()
    assert Session(talk.session.header, stored=tuple(talk.session.events)).state.turn is None


def test_vectors(shared: Path) -> None:
    """FORMAT §4.5: the reference's closers for its own cases, brought from the v0 shape of results to that of v4."""
    checked = 0
    for case in json.loads((shared / "corpus/vectors.json").read_bytes())["closers"]:
        if case["name"] == "call without assistant message":
            continue  # v4 refuses such a log
        state = LogState()
        for event in case["events"]:
            if event["type"] == "assistant/message":
                event["data"]["stream"] = []
            encoded = encode_data(event["type"], event["data"])
            one = SessionEvent(
                type=event["type"],
                seq=event["seq"],
                time=event["time"],
                encoded=encoded,
                surface_op=event.get("surfaceOp"),
            )
            state.feed(one, event["data"])
        expected = [as_v4(closer) for closer in case["closers"]]
        assert [as_row(closer) for closer in interrupted_closers(state)] == expected, case["name"]
        checked += 1
    assert checked == 9


def as_row(event: SessionEvent) -> dict[str, Any]:
    row = {"type": event.type, "seq": event.seq, "time": event.time, "data": event.data}
    if event.surface_op is not None:
        row["surfaceOp"] = event.surface_op
    if event.source_event_seqs is not None:
        row["sourceEventSeqs"] = list(event.source_event_seqs)
    return row


def as_v4(row: dict[str, Any]) -> dict[str, Any]:
    if row["type"] == "tool/result":
        message = row["data"]["message"]
        (block,) = message["content"]
        row["data"]["message"] = {
            **message,
            "role": "tool",
            "toolCallId": block["toolCallId"],
            "isError": block["isError"],
            "content": block["content"],
        }
    return row


def test_the_reference_repaired_the_same(shared: Path) -> None:
    """GENERATIONS §8: the closers that a real harness appended after a crash are ours, byte for byte."""
    (log,) = (shared / "corpus/v4/crash-resume-raw").rglob("session.v4.jsonl")
    rows = [json.loads(line) for line in log.read_bytes().splitlines()[1:]]
    end = next(row["seq"] for row in rows if row["type"] == "turn/end")
    assert rows[end]["data"]["reason"] == {"kind": "interrupted"}
    begin = next(row["seq"] for row in rows if "interrupted-tool-result" in str(row["data"]))
    stored = [
        SessionEvent(
            type=row["type"],
            seq=row["seq"],
            time=row["time"],
            encoded=encode_data(row["type"], row["data"]),
            surface_op=row.get("surfaceOp"),
        )
        for row in rows[:begin]
    ]
    session = Session(decode_header(log.read_bytes().partition(b"\n")[0]), stored=stored)
    assert [as_row(event) for event in interrupted_closers(session.state)] == rows[begin : end + 1]
    lines = log.read_bytes().splitlines()[begin + 1 :]
    assert all(event.encoded in line for event, line in zip(interrupted_closers(session.state), lines, strict=False))


def test_an_open_compaction_is_marked_first(talk: Any) -> None:
    """GENERATIONS §5: no turn ends inside a compaction, so a repair first marks it as abandoned."""
    talk.open()
    assert repair_closers(talk.session.state) == interrupted_closers(talk.session.state)
    talk.append("compaction/start", {"compactionId": "c", "turn": 1})
    closers = repair_closers(talk.session.state)
    assert [(event.type, event.seq - talk.session.next_seq) for event in closers] == [
        ("session/end-seed", 0),
        ("step/end", 1),
        ("turn/end", 2),
    ]
    stored = tuple(talk.session.events)
    for length in range(len(closers) + 1):
        assert Session(talk.session.header, stored=[*stored, *closers[:length]]).next_seq == len(stored) + length
    assert repair_closers(Session(talk.session.header, stored=[*stored, *closers]).state) == ()
