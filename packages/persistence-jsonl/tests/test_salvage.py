"""Salvage: what is intact of a damaged log becomes a log that loads, and the damaged one stays as it is."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh_persistence import SessionAlreadyStored, SessionCorrupt, SessionLocation, SessionNotFound, StoreUnusable
from dsh_persistence_jsonl import Encoding, Hole, JsonlLogStore, SalvageReport, SessionForked, examine, salvage
from dsh_persistence_jsonl._rows import encode_row
from dsh_session import EncodedBatch, Session, SessionEvent, SessionHeader, repair_closers

MODEL = {"kind": "model", "provider": "p", "model": "m"}


def conversation(turns: int = 3, **header: Any) -> Session:
    """A session with a system prompt, and a prompt, a call, its result and a note in each turn; 10 events each."""
    session = Session(SessionHeader(id="s", created_at=7, cwd="/w", **header), clock=lambda: 5)
    for number in range(1, turns + 1):
        at = {"turn": number, "step": 1}
        session.append("turn/start", {"turn": number})
        session.append("step/start", at)
        if number == 1:
            system = {"id": "m0", "role": "system", "content": [], "source": {"kind": "system-prompt"}}
            session.append("system/message", {**at, "message": system}, surface_op="append")
        user = {"id": f"u{number}", "role": "user", "source": {"kind": "user"}}
        session.append("user/message", {**user, "content": [{"type": "text", "text": "hi"}]}, surface_op="append")
        call = {"type": "tool-call", "id": f"c{number}", "name": "bash", "arguments": "{}"}
        message = {"id": f"a{number}", "role": "assistant", "content": [call], "source": MODEL}
        session.append("assistant/message", {**at, "message": message, "stream": []}, surface_op="append")
        session.append("tool/call", {**at, "callId": call["id"], "name": "bash", "arguments": "{}"})
        session.append("plugin:acme/note", {"n": number})
        result = {"id": f"r{number}", "role": "tool", "toolCallId": call["id"]}
        result |= {"source": {"kind": "tool", "callId": call["id"]}, "content": []}
        session.append("tool/result", {**at, "message": result}, surface_op="append")
        session.append("step/end", at)
        session.append("turn/end", {"turn": number, "reason": {"kind": "completed"}})
    return session


@pytest.fixture
def put(made: Any, encoding: Encoding) -> Callable[..., Path]:
    """Lay a log of these rows, one frame or line each."""

    def lay(rows: list[bytes], *, header: bytes = made.header) -> Path:
        raw = encoding == "raw"
        texts = [header, *rows]
        path: Path = made.put(b"".join(texts if raw else map(made.frame, texts)), name=made.name(raw=raw))
        return path

    return lay


@pytest.fixture
def new(tmp_path: Path, encoding: Encoding) -> JsonlLogStore:
    return JsonlLogStore(tmp_path / "new", encoding=encoding)


def rows_of(session: Session) -> list[bytes]:
    return [encode_row(event) for event in session.events]


def broken(rows: list[bytes], *lost: int) -> list[bytes]:
    """Make rows unreadable, without making them shorter."""
    return [b"x" + row[1:] if seq in lost else row for seq, row in enumerate(rows)]


def types(store: JsonlLogStore) -> list[str]:
    return [event.type for event in store.read("s").events]


def require_whole(store: JsonlLogStore, report: SalvageReport) -> None:
    """Check what every salvaged log must be: it loads, says nothing of damage, and goes on."""
    assert [finding for finding in examine(store, "s", deep=True) if finding.severity == "damage"] == []
    stored = store.read("s")
    assert len(stored.events) == report.events
    session = Session(stored.header, stored=stored.events)
    closers = repair_closers(session.state)
    with store.open("s") as writer:
        writer.append(EncodedBatch(first_seq=session.next_seq, events=closers))
    session.extend(closers)
    session.mark_resumed()


def test_a_sound_log_is_copied(store: JsonlLogStore, new: JsonlLogStore, tree: Any) -> None:
    """Nothing is wrong, so the new log holds the same rows, and of the source not even a time has changed."""
    session = conversation()
    with store.create(session.header) as writer:
        writer.append(session.batch(0))
    before = tree(store.root)
    report = salvage(store, "s", new)
    assert tree(store.root) == before
    assert (report.kept, report.events, report.lost, report.damage) == (
        len(session.events),
        len(session.events),
        (),
        (),
    )
    assert (list(new.read("s").events), new.read("s").header) == (list(session.events), store.read("s").header)
    require_whole(new, report)


@pytest.mark.parametrize("lost", range(28))
def test_any_event_may_be_lost(
    put: Callable[..., Path], root: Path, new: JsonlLogStore, lost: int, encoding: Encoding
) -> None:
    """Without any one of its events a log loads, and what comes two turns later is as it was."""
    session = conversation()
    put([*broken(rows_of(session), lost)])
    report = salvage(JsonlLogStore(root), "s", new)
    events = new.read("s").events
    assert len(events) == len(session.events) - (lost == 27)  # nothing tells that the last one was there
    kept = [
        event.seq
        for event, found in zip(session.events, events, strict=False)
        if found == event and event.seq not in report.bridged
    ]
    assert report.kept == len(kept)
    last_turn = {event.seq for event in session.events[19:]}
    if lost < 19:
        assert last_turn <= set(kept)
    if session.events[lost].type not in ("assistant/message", "turn/start"):
        assert len(session.events) - 1 == len(kept)
    require_whole(new, report)


def test_lost_turns_are_made_again(put: Callable[..., Path], root: Path, new: JsonlLogStore) -> None:
    """A gap from the inside of one turn to the inside of a later one is bridged, so that the later one stands."""
    session = conversation()
    put(broken(rows_of(session), *range(6, 22)))
    report = salvage(JsonlLogStore(root), "s", new)
    assert types(new)[6:22] == [
        *["plugin:dsh-py/lost"] * 9,
        *["tool/result", "step/end", "turn/end"],
        *["turn/start", "turn/end", "turn/start", "step/start"],
    ]
    assert (report.bridged, report.wrapped) == (tuple(range(15, 22)), ())
    assert list(new.read("s").events[22:]) == list(session.events[22:])
    require_whole(new, report)


def test_a_lost_run_says_what_it_was(put: Callable[..., Path], made: Any, root: Path, new: JsonlLogStore) -> None:
    """Each lost seq has an event that a harness passes over, with the reason and the place in the source."""
    log = put(broken([made.line(seq) for seq in range(6)], 2, 3))
    report = salvage(JsonlLogStore(root), "s", new)
    assert [(run.first_seq, run.next_seq) for run in report.lost] == [(2, 4)]
    event = new.read("s").events[2]
    assert (event.type, event.ignorable, event.time) == ("plugin:dsh-py/lost", True, 5)
    assert {key: event.data[key] for key in ("firstSeq", "nextSeq")} == {"firstSeq": 2, "nextSeq": 4}
    assert log.read_bytes()[event.data["offset"] :]
    assert "cannot be decoded" not in event.data["reason"]
    assert len(report.damage) == 2


def test_what_the_rules_refuse_is_kept_inside(
    put: Callable[..., Path], root: Path, new: JsonlLogStore, made: Any
) -> None:
    """An event that cannot stand where it stands keeps its seq, its time and its row, byte for byte."""
    rows = rows_of(conversation(1))
    odd = made.line(3, "tool/result", '{"turn":1,"step":1,"note":1.50}')[:-2] + b',"surfaceOp":"append"}\n'
    log = put(
        [
            *rows[:3],
            odd,
            *(row.replace(b'"seq":%d,' % seq, b'"seq":%d,' % (seq + 1)) for seq, row in enumerate(rows) if seq > 2),
        ]
    )
    report = salvage(JsonlLogStore(root), "s", new)
    event = new.read("s").events[3]
    assert (event.type, event.time) == ("plugin:dsh-py/salvaged", 5)
    assert b'"row":' + odd[:-1] in event.encoded
    assert event.data["row"]["type"] == "tool/result"
    assert [(row.seq, row.type) for row in report.wrapped] == [(3, "tool/result")]
    assert log.exists()
    require_whole(new, report)


def test_a_wrong_number(put: Callable[..., Path], made: Any, root: Path, new: JsonlLogStore) -> None:
    """A row whose seq alone is wrong, as the next row shows, is kept where it stands; it begins no branch."""
    rows = [made.line(seq) for seq in range(8)]
    for wrong in (1, 7_000_000):
        put([*rows[:5], made.line(wrong), *rows[6:]])
        report = salvage(JsonlLogStore(root), "s", JsonlLogStore(new.root / str(wrong)))
        assert (report.kept, report.lost) == (8, ())
        assert [(row.seq, row.reason) for row in report.renumbered] == [(5, f"its seq is {wrong}, where 5 is due")]


def test_a_number_beyond_belief(put: Callable[..., Path], made: Any, root: Path, new: JsonlLogStore) -> None:
    """Seqs that jump further than a log can have lost are wrong numbers; no millions of events stand for a gap."""
    put([made.line(seq) for seq in (0, 1, 7_000_002, 7_000_003)])
    report = salvage(JsonlLogStore(root), "s", new)
    assert (report.events, report.lost, [row.seq for row in report.renumbered]) == (4, (), [2, 3])


def test_frames_are_found_again(made: Any, root: Path, tmp_path: Path) -> None:
    """Behind a fault only what decodes with a valid checksum to whole lines is a frame, wherever it begins."""
    false = [made.frame(made.line(1), checksum=False), made.frame(made.line(1)[:-1]), made.frame(made.line(1))[:-1]]
    for number, junk in enumerate([b"x", b"x" * 200_000, *(b"x" + frame for frame in false), b"x\x28\xb5\x2f\xfd"]):
        made.put(made.log(made.line(0)) + junk + made.frame(made.lines(2, 5)))
        new = JsonlLogStore(tmp_path / f"new{number}")
        report = salvage(JsonlLogStore(root), "s", new)
        assert types(new) == ["todo/write", "plugin:dsh-py/lost", *["todo/write"] * 3]
        begin = len(made.log(made.line(0)))
        assert [(hole.offset, hole.size_bytes) for hole in report.damage if isinstance(hole, Hole)] == [
            (begin, len(junk))
        ]


def test_a_refused_event_gives_way(put: Callable[..., Path], made: Any, root: Path, new: JsonlLogStore) -> None:
    """What a turn needs to end takes the place of a lost event; where there is none, that of one the rules refuse."""
    first, second = rows_of(conversation(2))[:10], rows_of(conversation(2))[10:]
    odd = made.line(10, "step/start", '{"turn":1,"step":9}')
    later = [row.replace(b'"seq":%d,' % seq, b'"seq":%d,' % (seq + 1)) for seq, row in enumerate(second, 10)]
    put([*broken(first, 9), odd, *later])
    report = salvage(JsonlLogStore(root), "s", new)
    assert ([row.seq for row in report.wrapped], report.bridged) == ([10], (9,))
    put([*first[:9], made.line(9, "turn/end", '{"turn":1}'), odd, *later])
    report = salvage(JsonlLogStore(root), "s", JsonlLogStore(new.root / "2"))
    assert report.bridged == (10,)
    assert [(row.seq, row.type) for row in report.wrapped] == [(9, "turn/end"), (report.events - 1, "step/start")]
    assert report.kept == len(first) - 1 + len(later)


def test_a_compaction_that_nobody_ends(put: Callable[..., Path], made: Any, root: Path, new: JsonlLogStore) -> None:
    """Where the mark is lost that a compaction was abandoned, a new one ends the log; else no harness loaded it."""
    start = made.line(0, "compaction/start", '{"turn":null,"compactionId":"k"}')
    turn = made.line(2, "turn/start", '{"turn":1}') + made.turn_end(3)
    put([start, b"x" + made.line(1, "session/end-seed", "{}")[1:], turn])
    report = salvage(JsonlLogStore(root), "s", new)
    assert types(new) == ["compaction/start", "plugin:dsh-py/lost", "turn/start", "turn/end", "session/end-seed"]
    assert (report.kept, report.bridged) == (3, (4,))
    require_whole(new, report)


def test_branches(put: Callable[..., Path], made: Any, root: Path, new: JsonlLogStore) -> None:
    """Each place where the seqs go back begins a branch that shares what comes before; one has to be chosen."""
    rows = [
        (seq, made.line(seq, data=f'"{name}{seq}"'))
        for name, span in (("a", range(6)), ("b", range(3, 5)), ("c", range(4, 7)), ("d", range(2, 4)))
        for seq in span
    ]
    put([row for _, row in rows])
    store = JsonlLogStore(root)
    with pytest.raises(SessionForked, match="has 4 branches") as caught:
        salvage(store, "s", new)
    found = caught.value.branches
    assert [(one.number, one.first_seq, one.next_seq, one.events) for one in found] == [
        (1, 0, 6, 6),
        (2, 3, 5, 5),
        (3, 4, 7, 7),
        (4, 2, 4, 4),
    ]
    expected = ["a0 a1 a2 a3 a4 a5", "a0 a1 a2 b3 b4", "a0 a1 a2 b3 c4 c5 c6", "a0 a1 d2 d3"]
    for number, data in enumerate(expected, 1):
        into = JsonlLogStore(new.root / str(number))
        report = salvage(store, "s", into, branch=number)
        assert " ".join(event.data for event in into.read("s").events) == data
        assert (report.branch, report.branches, report.kept) == (number, found, len(data.split()))
    with pytest.raises(ValueError, match="no branch 5"):
        salvage(store, "s", new, branch=5)
    assert not (new.root / "--w--").exists()


def test_a_lost_header(put: Callable[..., Path], made: Any, root: Path, new: JsonlLogStore) -> None:
    """Its folder tells the id, its events the time; the directory must be given, and be the one it lies under."""
    put([made.line(seq) for seq in range(3)], header=b"x" + made.header[1:])
    store = JsonlLogStore(root)
    for cwd in (None, "/elsewhere"):
        with pytest.raises(SessionCorrupt, match="its header is lost"):
            salvage(store, "s", new, cwd=cwd)
    report = salvage(store, "s", new, cwd="/w")
    assert (new.read("s").header.cwd, new.read("s").header.created_at, report.header_made) == ("/w", 5, True)
    assert report.kept == 3


def test_a_lost_end_of_the_inherited_part(put: Callable[..., Path], made: Any, root: Path, new: JsonlLogStore) -> None:
    """A fork whose mark is lost is salvaged as a session of its own; nothing tells any more what it inherited."""
    rows = [made.line(0), made.line(1, "session/end-seed", '{"inherited":true}'), made.line(2)]
    put(broken(rows, 1), header=made.header_line(isSeeded=True, parentSession="p"))
    report = salvage(JsonlLogStore(root), "s", new)
    assert (report.header_made, new.read("s").header.is_seeded) == (True, False)
    require_whole(new, report)


def test_where_nothing_may_be_written(put: Callable[..., Path], made: Any, root: Path, new: JsonlLogStore) -> None:
    """The source's own root and folder are refused, and a root that has the session; of nothing comes nothing."""
    log = put([made.line(0)])
    store = JsonlLogStore(root)
    for place in (root, log.parent, log.parent / "deeper"):
        with pytest.raises(StoreUnusable, match="where the damaged session lies"):
            salvage(store, "s", JsonlLogStore(place))
    salvage(store, SessionLocation(kind="jsonl", path=str(log)), new)
    before = new.read("s").revision
    with pytest.raises(SessionAlreadyStored):
        salvage(store, "s", new)
    assert new.read("s").revision == before
    put([])
    with pytest.raises(SessionCorrupt, match="no event of it is intact"):
        salvage(store, "s", new)
    with pytest.raises(SessionNotFound):
        salvage(store, "t", new)


def test_half_a_salvaged_log_is_taken_back(
    put: Callable[..., Path], made: Any, root: Path, new: JsonlLogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the disk is full after the first batch nothing is left that could pass for the session."""
    put([made.line(seq) for seq in range(2_500)])

    def full(fd: int, data: bytes, offset: int) -> int:
        raise OSError(28, "No space left on device")

    real, calls = os.fdatasync, [0]

    def fdatasync(fd: int) -> None:
        calls[0] += 1
        if calls[0] == 1:
            monkeypatch.setattr(os, "pwrite", full)
        real(fd)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    with pytest.raises(OSError, match="No space"):
        salvage(JsonlLogStore(root), "s", new)
    monkeypatch.undo()
    assert (calls[0] >= 1, list(new.list())) == (True, [])
    salvage(JsonlLogStore(root), "s", new)
    assert len(new.read("s").events) == 2_500


@given(seed=st.integers(0, 2**32), flips=st.integers(1, 4))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_is_flipped(
    made: Any, tmp_path_factory: pytest.TempPathFactory, encoding: Encoding, seed: int, flips: int
) -> None:
    """Of a log with any flipped bits behind its header something loads, and every intact row is in it, as it was."""
    chance, raw = random.Random(seed), encoding == "raw"
    session = conversation(4)
    rows = rows_of(session)
    texts = [made.header, *(b"".join(rows[at : at + 3]) for at in range(0, len(rows), 3))]
    content = bytearray(b"".join(texts if raw else map(made.frame, texts)))
    first = len(texts[0] if raw else made.frame(texts[0]))
    for _ in range(flips):
        content[chance.randrange(first, len(content))] ^= 1 << chance.randrange(8)
    folder = tmp_path_factory.mktemp("flips")
    log = type(made)(folder / "root").put(bytes(content), name=made.name(raw=raw))
    new = JsonlLogStore(folder / "new", encoding=encoding)
    try:
        report = salvage(JsonlLogStore(folder / "root"), "s", new)
    except SessionForked:
        return  # a flipped digit near the end looks like a second writer
    assert log.read_bytes() == content
    there = set(bytes(content).split(b"\n")) if raw else {text for text in texts if made.frame(text) in content}
    intact = [row for row in rows if row[:-1] in there or any(row in text for text in texts if text in there)]
    text = b"".join(new.raw_text("s"))
    assert [row for row in intact if row[:-1] not in text] == []
    require_whole(new, report)


def corpus() -> Iterator[Path]:
    for parent in Path(__file__).resolve().parents[4:5]:
        yield from sorted((parent / "shared/corpus/v4").glob("*/sessions/*/*/session.v4.jsonl*"))


@pytest.mark.usefixtures("shared")
def test_real_logs_with_a_flipped_bit(tmp_path: Path) -> None:
    """A flipped bit in any real log costs what it hit; the rest loads, and most of it stands as it was."""
    chance = random.Random(4)
    for number, log in enumerate(corpus()):
        original = JsonlLogStore(log.parents[2]).read(SessionLocation(kind="jsonl", path=str(log)))
        content = bytearray(log.read_bytes())
        begin = content.find(b"\x28\xb5\x2f\xfd" if log.suffix == ".zstd" else b"\n", 4) + 1
        content[chance.randrange(begin, len(content))] ^= 1 << chance.randrange(8)
        damaged = tmp_path / str(number) / log.relative_to(log.parents[2])
        damaged.parent.mkdir(parents=True)
        damaged.write_bytes(content)
        new = JsonlLogStore(tmp_path / f"new{number}")
        try:
            report = salvage(
                JsonlLogStore(tmp_path / str(number)), SessionLocation(kind="jsonl", path=str(damaged)), new
            )
        except SessionCorrupt as nothing:
            assert "no event of it is intact" in str(nothing)  # noqa: PT017  # few logs are that short
            continue
        stored = new.read(original.header.id)
        stored.events.validate(stored.header)
        assert report.events >= len(original.events) - (report.branches[0].next_seq < len(original.events)) * 40
        same: list[SessionEvent] = [
            one for one, other in zip(stored.events, original.events, strict=False) if one == other
        ]
        assert len(same) >= report.kept - 1
