"""Every log of a real harness in the corpus, folded here and compared with that harness's own verdict."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dsh_session import (
    BlockEnd,
    BlockStart,
    Finish,
    ReasoningDelta,
    Replace,
    Session,
    SessionEvent,
    StreamRecorder,
    TextDelta,
    ToolCallDelta,
    Usage,
    decode_header,
    encode_data,
    encode_header,
    interrupted_closers,
)

ROOTS = Path(__file__).resolve().parents[4:5]
CASES = sorted(path.parent for root in ROOTS for path in (root / "shared/corpus/v4").glob("*/expected.json"))
each_case = pytest.mark.parametrize(
    "case",
    CASES or [pytest.param(None, marks=pytest.mark.skip("no ../shared/corpus beside the repository"))],
    ids=lambda case: case.name if case else "absent",
)


def lines_of(log: Path) -> list[bytes]:
    data = log.read_bytes()
    if log.suffix == ".zstd":
        zstandard = pytest.importorskip(
            "zstandard", reason="compressed logs need zstandard, which this package does not"
        )
        data = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
    return data.split(b"\n")[:-1]


def event_of(line: bytes) -> SessionEvent:
    row = json.loads(line)
    op = row.get("surfaceOp")
    return SessionEvent(
        type=row["type"],
        seq=row["seq"],
        time=row["time"],
        encoded=encode_data(row["type"], row["data"]),
        source_event_seqs=None if "sourceEventSeqs" not in row else tuple(expanded(row["sourceEventSeqs"])),
        surface_op=Replace(start_seq=op["startSeq"], end_seq=op["endSeq"]) if isinstance(op, dict) else op,
        ignorable=row.get("ignorable", False),
    )


def expanded(members: Iterable[int | list[int]]) -> Iterator[int]:
    for member in members:
        if isinstance(member, int):
            yield member
        else:
            yield from range(member[0], member[1] + 1)


def digest(items: Iterable[Any]) -> str:
    whole = hashlib.sha256()
    for item in items:
        whole.update(json.dumps(item, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode() + b"\n")
    return whole.hexdigest()


def sessions_of(case: Path) -> Iterator[tuple[dict[str, Any], list[bytes]]]:
    expected = {one["id"]: one for one in json.loads((case / "expected.json").read_bytes())["sessions"]}
    logs = sorted(case.glob("sessions/*/*/session.v4.jsonl*"))
    assert len(logs) == len(expected)
    for log in logs:
        lines = lines_of(log)
        yield expected[json.loads(lines[0])["id"]], lines


@each_case
def test_fold(case: Path) -> None:
    """FORMAT §6, GENERATIONS §7: stored count, inherited count, surface, closers and messages are the reference's."""
    for expected, lines in sessions_of(case):
        header = decode_header(lines[0])
        session = Session(header, stored=[event_of(line) for line in lines[1:]])
        cut = [event.seq for event in session.events if "inherited" in event.data and event.type == "session/end-seed"]
        assert session.next_seq == expected["stored"]["count"]
        assert header.is_seeded == expected["header"]["isSeeded"]
        assert (cut[-1] if cut else 0) == expected["inheritedEventCount"]
        session.extend(interrupted_closers(session.state))
        assert session.next_seq == expected["logical"]["count"]
        assert session.state.surface.nodes == expected["surfaceNodes"]
        messages = session.messages()
        assert [message["role"] for message in messages] == expected["messages"]["roles"]
        assert digest(messages) == expected["messages"]["sha256"]


@each_case
def test_header_line(case: Path) -> None:
    """GENERATIONS §1.1: the header line of a real log is ours, byte for byte."""
    for _, lines in sessions_of(case):
        assert encode_header(decode_header(lines[0])) == lines[0] + b"\n"


@each_case
def test_streams(case: Path) -> None:
    """GENERATIONS §3: the chunks of a real stream, recorded here, give the records the reference kept."""
    deltas = {"text-chunks": TextDelta, "reasoning-chunks": ReasoningDelta}
    for _, lines in sessions_of(case):
        for line in lines[1:]:
            records = json.loads(line)["data"].get("stream", [])
            recorder = StreamRecorder()
            for record in records:
                if record["type"] == "chunk":
                    recorder.add(chunk_of(record["chunk"]), record["time"])
                    continue
                time = record["time0"]
                for piece, gap in zip(record.get("texts") or record["args"], [*record["dt"], 0], strict=True):
                    if kind := deltas.get(record["type"]):
                        recorder.add(kind(index=record["index"], text=piece), time)
                    else:
                        name = record.get("name")
                        recorder.add(
                            ToolCallDelta(index=record["index"], id=record["id"], name=name, arguments_delta=piece),
                            time,
                        )
                    time += gap
            assert encode_data("t", recorder.records) == encode_data("t", records)


def chunk_of(chunk: dict[str, Any]) -> Any:
    match chunk["type"]:
        case "block-start":
            return BlockStart(index=chunk["index"], block_type=chunk["blockType"])
        case "block-end":
            return BlockEnd(index=chunk["index"], block=chunk["block"])
        case "usage":
            return Usage(usage=chunk["usage"])
        case "finish":
            return Finish(reason=chunk["reason"], replay_state=chunk.get("replayState"))
    raise AssertionError(chunk)
