"""Faults that people have reported of agent harnesses (CASES.md), as inputs for whole logs in files."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_persistence import ForeignChange, SessionCorrupt, SessionIdTooLong, SessionNotFound, StoreUnusable
from dsh_persistence.contract._material import hard_events
from dsh_persistence_jsonl import Encoding, JsonlLogStore
from dsh_persistence_jsonl._frames import FrameDecoder
from dsh_session import EncodedBatch, HeaderInvalid, Session, SessionHeader


def save(store: JsonlLogStore, session: Session) -> Path:
    with store.create(session.header) as writer:
        writer.append(session.batch(0))
    return Path(store.locate(session.header).path)


def note(session: Session, data: Any) -> None:
    session.append("plugin:cases/note", data)


def test_a02_the_good_prefix(made: Any, root: Path, encoding: Encoding) -> None:
    """CASES A02: 300 events and a 301st cut in its middle give 300 events and a note of the cut, never none."""
    raw = encoding == "raw"
    intact = made.log(*(made.lines(at, at + 100) for at in (0, 100, 200)), raw=raw)
    last = made.line(300, data='"' + os.urandom(300).hex() + '"')
    last = last if raw else made.frame(last)
    made.put(intact + last[: len(last) // 2], name=made.name(raw=raw))
    stored = JsonlLogStore(root).read("s")
    assert (len(list(stored.events)), stored.salvaged) == (300, 0)
    assert stored.torn is not None
    assert (stored.torn.offset, stored.torn.size_bytes) == (len(intact), len(last) // 2)


def test_a21_leftovers(made: Any, root: Path) -> None:
    """CASES A21: a blank line or the end of an older line is damage with its place; nothing rewrites the log."""
    for odd in (b"\n", b'ole":"user"}}\n'):
        before = made.header + made.line(0) + made.line(1)
        content = before + odd + made.line(2) + made.turn_end(3)
        log = made.put(content, name="session.v4.jsonl")
        listed = next(JsonlLogStore(root).list())
        assert listed.problem is None
        found: list[int] = []
        with pytest.raises(SessionCorrupt, match=f"at byte {len(before)}, line 4: no event"):
            found.extend(event.seq for event in JsonlLogStore(root).scan("s"))
        assert found == [0, 1]
        assert log.read_bytes() == content


def test_b01_lone_surrogates(store: JsonlLogStore, root: Path, made: Any, encoding: Encoding) -> None:
    """CASES B01: half a surrogate pair is written as its escape, comes back equal, and harms no neighbour."""
    session = Session(SessionHeader(id="s", created_at=7, cwd="/w"))
    hard = [
        {"t": "before"},
        {"t": "x\ud83d…"},
        {"name": os.fsdecode(b"\x9f")},
        {"\udc9f": ["\ud800\ud800"]},
        {"t": "ü"},
    ]
    for data in hard:
        note(session, data)
    log = save(store, session)
    text = b"".join(store.raw_text("s"))
    assert rb'{"t":"x\ud83d' in text
    text.decode()  # it is UTF-8
    assert [event.data for event in store.read("s").events] == hard
    assert [event.data for event in store.scan("s")] == hard
    with store.open("s") as writer:
        theirs = session.events[1].encoded
        writer.append(EncodedBatch(first_seq=5, events=(made.event(5, encoded=theirs), made.event(6))))
    assert store.read("s").events[5].data == hard[1]
    assert repr(store.read("s").events[5])
    assert log.exists()


def test_b02_line_separators(store: JsonlLogStore, made: Any) -> None:
    """CASES B02: U+2028, U+2029, U+0085, VT, FF and CR are content: one record, exact text, the next seq right."""
    text = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\x1eh\ri"
    session = Session(SessionHeader(id="s", created_at=7, cwd="/w"))
    note(session, {"t": text})
    note(session, text)
    save(store, session)
    with store.open("s") as writer:
        assert writer.next_seq == 2
        writer.append(made.batch(2))
    assert [event.data for event in store.read("s").events][:2] == [{"t": text}, text]
    assert [event.seq for event in store.scan("s")] == [0, 1, 2]
    assert [event.seq for event in store.tail("s").events] == [0, 1, 2]
    raw_text = b"".join(store.raw_text("s"))
    assert raw_text.count(b"\n") == 4
    assert "a\u2028b\u2029c\u0085d".encode() in raw_text


def test_b06_the_caller_changes_an_event(store: JsonlLogStore) -> None:
    """CASES B06: what happens to the data after ``append`` cannot reach the disk."""
    session = Session(SessionHeader(id="s", created_at=7, cwd="/w"))
    data: dict[str, Any] = {"n": 1, "in": [1]}
    note(session, data)
    data["n"] = 2
    data["in"].append(object())
    data["self"] = data
    save(store, session)
    read = store.read("s").events[0].data
    assert read == {"n": 1, "in": [1]}
    read["n"] = 3
    assert store.read("s").events[0].data == {"n": 1, "in": [1]}


def test_b07_nothing_is_lost_on_the_way(store: JsonlLogStore, tmp_path: Path, encoding: Encoding) -> None:
    """CASES B07: what was loaded and appended to a copy gives the same bytes: unknown types, keys and all envelopes."""
    events = hard_events()
    header = SessionHeader(id="s", created_at=7, cwd="/w", agent_preset="p", delegation_depth=2, origin="subagent")
    with store.create(header) as writer:
        writer.append(EncodedBatch(first_seq=0, events=events[:9]))
        writer.append(EncodedBatch(first_seq=9, events=events[9:]))
    stored = store.read("s")
    copies = JsonlLogStore(tmp_path / "copy", encoding=encoding)
    with copies.create(stored.header) as writer:
        writer.append(EncodedBatch(first_seq=0, events=tuple(stored.events[:9])))
        writer.append(EncodedBatch(first_seq=9, events=tuple(store.read("s", from_seq=9).events)))
    assert tuple(stored.events) == events
    assert Path(store.locate(header).path).read_bytes() == Path(copies.locate(header).path).read_bytes()


def test_c03_directories_that_share_a_folder(store: JsonlLogStore, made: Any) -> None:
    """CASES C03: sessions of directories whose folder names coincide stay their own, told apart by the header."""
    cwds = ["/w/新聞", "/w/暫存", "/w/a-b/c", "/w/a/b-c", "/w/my_p", "/w/my-p", "/w/my.p"]
    for number, cwd in enumerate(cwds):
        for copy in range(2):
            with store.create(made.session_header(f"s{number}-{copy}", cwd)) as writer:
                writer.append(made.batch(0))
    assert len(list(store.root.iterdir())) < len(cwds)
    found = defaultdict(list)
    for one in store.list():
        assert one.header is not None
        found[one.header.cwd].append(one.header.id)
    assert found == {cwd: [f"s{number}-0", f"s{number}-1"] for number, cwd in enumerate(cwds)}
    for number, cwd in enumerate(cwds):
        assert store.read(f"s{number}-1").header.cwd == cwd


def test_c04_a_linked_directory(
    store: JsonlLogStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Any
) -> None:
    """CASES C04: a session is found by its id wherever one stands, whatever became of the link it was made through."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    with store.create(made.session_header(cwd=str(link))) as writer:
        writer.append(made.batch(0))
    for place in (real, link):
        monkeypatch.chdir(place)
        assert store.read("s").header.cwd == str(link)
    monkeypatch.chdir(tmp_path)
    link.unlink()
    link.mkdir()
    with store.open("s") as writer:
        writer.append(made.batch(1))
    assert [one.header.cwd for one in store.list() if one.header] == [str(link)]


def test_c05_hostile_ids(store: JsonlLogStore, made: Any, tmp_path: Path) -> None:
    """CASES C05: every id is refused with a reason or has a place of its own inside the root."""
    ids = ["../../x", "a/b", ".", "A", "a", "x\0y", "é", "e\u0301", "con", "a.jsonl"]
    for number, session_id in enumerate(ids, 1):
        with store.create(made.session_header(session_id)) as writer:
            writer.append(made.batch(0, number))
    with (
        store.create(made.session_header("n" * 300)) as writer,
        pytest.raises(SessionIdTooLong, match="300 bytes of 255"),
    ):
        writer.append(made.batch(0))
    with pytest.raises(HeaderInvalid, match="empty"):
        made.session_header("")
    with pytest.raises(SessionNotFound):
        store.read("")
    assert [store.read(session_id).next_seq for session_id in ids] == list(range(1, len(ids) + 1))
    assert len(list(store.list())) == len(ids)
    assert {path.name for path in tmp_path.iterdir()} == {store.root.name}
    assert {len(path.relative_to(store.root).parts) for path in store.root.rglob("*") if path.is_file()} == {3}


def test_c06_unknown_events_first(made: Any, root: Path, encoding: Encoding) -> None:
    """CASES C06: a log that begins with events nobody knows is found, loads, and keeps them verbatim."""
    raw = encoding == "raw"
    data = [f'{{ "x" : {seq} }}' for seq in range(3)]
    rows = [made.line(seq, "acme/thing", text) for seq, text in enumerate(data)]
    unknown = [row.replace(b"}\n", b',"ignorable":true}\n') for row in rows]
    turn = made.line(3, "turn/start", '{"turn":1}') + made.turn_end(4)
    text = b"".join(unknown) + turn
    made.put(made.log(text, raw=raw), name=made.name(raw=raw))
    store = JsonlLogStore(root)
    stored = store.read("s")
    assert [event.type for event in stored.events] == ["acme/thing"] * 3 + ["turn/start", "turn/end"]
    assert [event.encoded for event in stored.events[:3]] == [text.encode() for text in data]
    assert b"".join(store.raw_text("s")) == made.header + text
    with store.open("s") as writer:
        writer.append(made.batch(5))
    assert b"".join(store.raw_text("s")) == made.header + text + made.line(5)


def test_c07_no_clock_decides(store: JsonlLogStore, made: Any) -> None:
    """CASES C07: appends in one tick and after the clock went back succeed; a stale writer is refused all the same."""
    with store.create(made.session_header()) as writer:
        writer.append(made.batch(0))
        log = Path(store.locate(made.session_header()).path)
        seen = set()
        for seq, time_ns in ((1, 10**18), (2, 10**18), (3, 10**18 - 300 * 10**9)):
            os.utime(log, ns=(time_ns, time_ns))
            seen.add(store.read("s").revision)
            writer.append(made.batch(seq))
        assert len(seen) == 3
        status, text = log.stat(), made.line(4)
        with log.open("ab") as file:
            file.write(made.frame(text) if store.encoding == "zstd" else text)
        os.utime(log, ns=(status.st_atime_ns, status.st_mtime_ns))
        with pytest.raises(ForeignChange):
            writer.append(made.batch(4))
    assert store.read("s").next_seq == 5


def test_d03_another_encoding_is_configured(made: Any, root: Path) -> None:
    """CASES D03: a root of raw logs under a store of frames lists and reads them, and refuses new ones with advice."""
    log = made.put(made.log(made.line(0), raw=True), name="session.v4.jsonl")
    store = JsonlLogStore(root, encoding="zstd")
    assert [one.header for one in store.list()] == [made.session_header()]
    assert store.read("s").next_seq == 1
    with store.create(made.session_header("t")) as writer, pytest.raises(StoreUnusable, match="write raw") as caught:
        writer.append(made.batch(0))
    assert str(log) in str(caught.value)
    assert [path.name for path in root.rglob("*.zstd")] == []


class Counter:
    """Counts what one function is asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, weight: Callable[..., int]) -> None:
        self.total = 0
        real = getattr(owner, name)

        def call(*arguments: Any) -> Any:
            result = real(*arguments)
            self.total += weight(result)
            return result

        monkeypatch.setattr(owner, name, call)


def test_e01_a_large_log(made: Any, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CASES E01, scaled down: listing reads a few KB of a log of 40,000 events, and the last 100 a few frames."""
    store = JsonlLogStore(root)
    noise = [os.urandom(300).hex() for _ in range(7)]
    with store.create(made.session_header()) as writer:
        for first in range(0, 40_000, 400):
            data = [json.dumps({"n": seq, "t": noise[seq % 7]}).encode() for seq in range(first, first + 400)]
            events = tuple(made.event(seq, encoded=one) for seq, one in enumerate(data, first))
            writer.append(EncodedBatch(first_seq=first, events=events))
    size = Path(store.locate(made.session_header()).path).stat().st_size
    assert size > 200_000
    read = Counter(monkeypatch, os, "pread", len)
    frames = Counter(monkeypatch, FrameDecoder, "decode", lambda _: 1)
    assert [one.header for one in store.list()] == [made.session_header()]
    assert (read.total < 9_000, frames.total) == (True, 1)
    read.total = frames.total = 0
    assert [event.seq for event in store.read("s", from_seq=39_900).events] == list(range(39_900, 40_000))
    assert read.total < 30_000
    assert frames.total < 12
    read.total = frames.total = 0
    log = store.read("s").events
    assert (len(log), frames.total <= 103, read.total < size + 70_000) == (40_000, True, True)
    assert log[39_999].seq == 39_999
    assert frames.total <= 104


def test_e02_many_small_frames(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """CASES E02: with twice the frames twice as much is decoded, each frame once a pass, by one decoder."""
    decoded = Counter(monkeypatch, FrameDecoder, "decode", lambda _: 1)
    ordinary = Counter(monkeypatch, FrameDecoder, "decode_ordinary", lambda _: 1)
    streamed = Counter(monkeypatch, FrameDecoder, "stream", lambda _: 1)
    made_decoders = Counter(monkeypatch, FrameDecoder, "__init__", lambda _: 1)
    counts = []
    frames = [made.frame(made.line(seq, data='"' + "n" * 250 + '"')) for seq in range(8_000)]
    for count in (2_000, 4_000, 8_000):
        content = made.frame(made.header) + b"".join(frames[:count])
        decoded.total = ordinary.total = streamed.total = made_decoders.total = 0
        log = made.scan(content).log
        scanned = decoded.total + ordinary.total
        assert sum(1 for _ in log) == count
        again = decoded.total + ordinary.total - scanned
        counts.append((scanned - count, again - count, streamed.total, made_decoders.total))
    assert counts[0] == counts[1] == counts[2]
    assert all(constant < 5 for constant in counts[0])
