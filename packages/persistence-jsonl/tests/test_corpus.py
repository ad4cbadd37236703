"""Every log of a real harness: read here, compared with its own verdict, and written again bit for bit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from dsh_persistence import FormatNotSupported, PersistenceError, SessionLocation, StoredPrefix
from dsh_persistence_jsonl import JsonlLogStore
from dsh_persistence_jsonl._frames import FrameDecoder, FrameEncoder, walk_frames
from dsh_persistence_jsonl._rows import decode_row, encode_row
from dsh_session import EncodedBatch, Replace, Session, SessionError, SessionEvent, encode_header, interrupted_closers

encode_frame = FrameEncoder().encode


ROOTS = Path(__file__).resolve().parents[4:5]


def folders(name: str) -> Any:
    cases = sorted(path.parent for root in ROOTS for path in (root / "shared/corpus" / name).glob("*/expected.json"))
    absent = [pytest.param(None, marks=pytest.mark.skip("no ../shared/corpus beside the repository"))]
    return pytest.mark.parametrize("case", cases or absent, ids=lambda case: case.name if case else "absent")


def expected_of(case: Path) -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in json.loads((case / "expected.json").read_bytes())["sessions"]}


def digest(items: Iterable[Any]) -> str:
    whole = hashlib.sha256()
    for item in items:
        whole.update(json.dumps(item, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode() + b"\n")
    return whole.hexdigest()


def as_row(event: SessionEvent) -> dict[str, Any]:
    row = {"type": event.type, "seq": event.seq, "time": event.time, "data": event.data}
    if isinstance(event.surface_op, Replace):
        row["surfaceOp"] = {
            "op": "replace",
            "startSeq": event.surface_op.start_seq,
            "endSeq": event.surface_op.end_seq,
        }
    elif event.surface_op is not None:
        row["surfaceOp"] = event.surface_op
    if event.source_event_seqs is not None:
        row["sourceEventSeqs"] = list(event.source_event_seqs)
    if event.ignorable:
        row["ignorable"] = True
    return row


def check(stored: StoredPrefix, expected: dict[str, Any]) -> None:
    assert len(stored.events) == expected["stored"]["count"]
    assert digest(map(as_row, stored.events)) == expected["stored"]["sha256"]
    assert stored.cut == expected["inheritedEventCount"]
    session = Session(stored.header, stored=stored.events)
    session.extend(interrupted_closers(session.state))
    assert digest(map(as_row, session.events)) == expected["logical"]["sha256"]
    assert session.state.surface.nodes == expected["surfaceNodes"]
    assert digest(session.messages()) == expected["messages"]["sha256"]


@folders("v4")
def test_reading(case: Path) -> None:
    """FORMAT, GENERATIONS: events, inherited part, closers, surface and messages are those of the reference."""
    store, expected = JsonlLogStore(case / "sessions"), expected_of(case)
    assert {one.header.id for one in store.list() if one.header is not None} == expected.keys()
    for session_id, one in expected.items():
        stored = store.read(session_id)
        assert list(store.scan(session_id)) == list(stored.events)
        assert json.loads(encode_header(stored.header)) == {"type": "session", **one["header"]}
        assert (stored.torn, stored.protected) == (None, store.encoding == "zstd")
        check(stored, one)


@folders("v4")
def test_raw_text(case: Path) -> None:
    """FORMAT §2.6: the decoded text of a log is, byte for byte, what the reference decoded."""
    texts: dict[str, dict[str, Any]] = json.loads((case / "expected.json").read_bytes())["raw"]
    store = JsonlLogStore(case / "sessions")
    assert len(texts) == len(list(store.list()))
    for name, expected in texts.items():
        text = b"".join(store.raw_text(SessionLocation(kind="jsonl", path=str(store.root / name))))
        assert (len(text), hashlib.sha256(text).hexdigest()) == (expected["bytes"], expected["sha256"])


@folders("v4")
def test_every_way_to_read(case: Path) -> None:
    """The log as a stream, followed, by its types and from any seq on is the log; reading it makes no index."""
    store = JsonlLogStore(case / "sessions")
    for session_id in expected_of(case):
        stored = store.read(session_id)
        events = list(stored.events)
        assert list(store.scan(session_id)) == events
        assert list(store.tail(session_id).events) == events
        for type in {event.type for event in events}:
            assert list(stored.events.of_type(type)) == [event for event in events if event.type == type]
        for seq in (1, len(events) // 2, len(events)):
            suffix = store.read(session_id, from_seq=seq)
            assert (list(suffix.events), suffix.header) == (events[seq:], stored.header)
    assert not list(case.rglob("*.idx"))


def frames_of(data: bytes) -> list[bytes]:
    ends, fault = walk_frames(data)
    assert (fault, ends[-1]) == (None, len(data))
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def content(frame: bytes) -> bytes:
    return b"".join(FrameDecoder().stream(frame))


def batches_of(log: Path) -> Iterator[bytes]:
    data = log.read_bytes()
    if log.suffix == ".jsonl":
        yield data.partition(b"\n")[2]
        return
    yield from map(content, frames_of(data)[1:])


@folders("v4")
def test_writing_bit_for_bit(case: Path, tmp_path: Path) -> None:
    """FORMAT §2.7: a real log's events, written in its own batches, give the file that the reference wrote."""
    theirs = JsonlLogStore(case / "sessions")
    ours = JsonlLogStore(tmp_path / "root", encoding=theirs.encoding)
    for log in sorted(case.glob("sessions/*/*/session.v4.jsonl*")):
        header = theirs.read(theirs_id(log)).header
        with ours.create(header) as writer:
            for plain in batches_of(log):
                events = tuple(decode_row(line) for line in plain.split(b"\n")[:-1])
                assert b"".join(map(encode_row, events)) == plain
                writer.append(EncodedBatch(first_seq=writer.next_seq, events=events))
        written = Path(ours.locate(header).path)
        assert written.relative_to(ours.root) == log.relative_to(theirs.root)
        if zstandard.ZSTD_VERSION == (1, 5, 7):
            assert written.read_bytes() == log.read_bytes()
        check(ours.read(header.id), expected_of(case)[header.id])


def theirs_id(log: Path) -> str:
    data = log.read_bytes()
    line = data.partition(b"\n")[0]
    if log.suffix == ".zstd":
        line = content(frames_of(data)[0])
    found: str = json.loads(line)["id"]
    return found


@folders("v4")
@pytest.mark.skipif(zstandard.ZSTD_VERSION != (1, 5, 7), reason="another libzstd makes other, equally valid, frames")
def test_frames_bit_for_bit(case: Path) -> None:
    """FORMAT §2.7: each frame of a real log, its header's included, compresses from its content to the same bytes."""
    for log in case.glob("sessions/*/*/*.zstd"):
        for frame in frames_of(log.read_bytes()):
            assert encode_frame(content(frame)) == frame


@folders("variants-v4")
def test_variants(case: Path) -> None:
    """Edited logs are read, or refused by reading or folding, as the reference does; older generations by number."""
    store = JsonlLogStore(case / "sessions")
    for session_id, expected in expected_of(case).items():
        if expected.get("formatStatus") == "migration-required":
            with pytest.raises(FormatNotSupported):
                store.read(session_id)
        elif "error" in expected:
            with pytest.raises((PersistenceError, SessionError)):
                Session(store.read(session_id).header, stored=store.read(session_id).events)
        else:
            check(store.read(session_id), expected)
