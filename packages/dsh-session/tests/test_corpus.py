"""Every log of a real harness in the corpus, folded here and compared with that harness's own verdict."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dsh_session import (
    EventRefused,
    EventRun,
    Replace,
    Session,
    SessionEvent,
    StreamRecorder,
    decode_header,
    encode_data,
    encode_header,
    expand_stream,
    fork_seed,
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
    """GENERATIONS §3: the stream of a real log expands to timed chunks, which recorded give it back byte for byte."""
    for _, lines in sessions_of(case):
        for line in lines[1:]:
            records = json.loads(line)["data"].get("stream", [])
            recorder = StreamRecorder()
            for chunk, time in expand_stream(records):
                assert not isinstance(chunk, dict)
                recorder.add(chunk, time)
            assert encode_data("t", recorder.records) == encode_data("t", records)


@each_case
def test_log(case: Path) -> None:
    """FORMAT §6, §7: every real log validates under its own header, and answers as the reference does."""
    for expected, lines in sessions_of(case):
        header = decode_header(lines[0])
        log = EventRun([event_of(line) for line in lines[1:]])
        state = log.validate(header)
        assert (state.next_seq, state.header) == (expected["stored"]["count"], header)
        closed = EventRun([*log, *interrupted_closers(state)])
        assert [event.seq for event in closed.surface()] == expected["surfaceNodes"]
        assert digest(closed.messages()) == expected["messages"]["sha256"]
        request = log.request_header()
        if request is None:
            assert "requestHeaderSha256" not in expected
            continue
        found = log[request.seq].data["header"]
        assert digest([found]) == expected["requestHeaderSha256"] or hashed(found) == expected["requestHeaderSha256"]
        assert (request.config, list(request.tools)) == (found["config"], found.get("tools", []))


def hashed(value: Any) -> str:
    return hashlib.sha256(
        json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()
    ).hexdigest()


@each_case
def test_forks(case: Path) -> None:
    """GENERATIONS §5 item 7, FORMAT §4.7: what opens a real fork is what opens ours, byte for byte.

    Where the seed came from a subagent's tool, the reference gave the mark the time of creation.
    """
    logs = {json.loads(lines[0])["id"]: lines for _, lines in sessions_of(case)}
    for lines in logs.values():
        header = decode_header(lines[0])
        if not header.is_seeded or header.parent_session not in logs:
            continue
        child = [event_of(line) for line in lines[1:]]
        cut = max(event.seq for event in child if event.encoded == b'{"inherited":true}')
        *prefix, mark = fork_seed([event_of(line) for line in logs[header.parent_session][1:]], at=cut - 1)
        assert prefix == child[:cut]
        if header.origin == "subagent":
            mark = msgspec.structs.replace(mark, time=child[cut].time)
        assert mark == child[cut]


VARIANTS = sorted(
    path.parent for root in ROOTS for path in (root / "shared/corpus/variants-v4").glob("*/expected.json")
)
# What lies in the lines themselves, and not in their values, is for those who store logs.
FRAMING = ("envelope", "header", "packed", "seq-gap", "replace-v2", "sel-", "torn-", "blank-line")


@pytest.mark.parametrize(
    "case",
    [case for case in VARIANTS if not any(word in case.name for word in FRAMING)]
    or [pytest.param(None, marks=pytest.mark.skip("no ../shared/corpus beside the repository"))],
    ids=lambda case: case.name if case else "absent",
)
def test_variants(case: Path) -> None:
    """GENERATIONS §5: an edit of a real log that the reference refuses for its values is refused, and no other."""
    (expected,) = json.loads((case / "expected.json").read_bytes())["sessions"]
    (log,) = case.glob("sessions/*/*/session.v4.jsonl")
    lines = lines_of(log)
    events = EventRun([event_of(line) for line in lines[1:]])
    if "error" in expected:
        with pytest.raises(EventRefused):
            events.validate(decode_header(lines[0]))
    else:
        events.validate(decode_header(lines[0]))
