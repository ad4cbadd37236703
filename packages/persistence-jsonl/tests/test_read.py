"""The ways to read a log besides taking all of it: as a stream, following it as it grows, and its text."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dsh_persistence import ForeignChange, LogTail, PersistenceError, SessionCorrupt, SessionLocation, SessionNotFound
from dsh_persistence_jsonl import JsonlLogStore, _read
from dsh_session import SessionEvent


@pytest.fixture(params=[False, True], ids=["zstd", "raw"])
def raw(request: pytest.FixtureRequest) -> bool:
    found: bool = request.param
    return found


@pytest.fixture
def store(root: Path) -> JsonlLogStore:
    return JsonlLogStore(root)


def outcome(events: Iterator[SessionEvent]) -> tuple[list[int], str]:
    """The seqs that came, and the error that ended them if one did."""
    found: list[int] = []
    try:
        found.extend(event.seq for event in events)
    except PersistenceError as error:
        return found, f"{type(error).__name__}: {error}"
    return found, ""


# As a stream.


def test_a_stream_ends_where_the_log_does(made: Any, raw: bool) -> None:
    """Issue 3: for every truncation ``scan`` gives what ``read`` gives, torn tails and salvaged rows included."""
    body = [made.lines(0, 2), made.turn_end(2), made.lines(3, 9)]
    content = made.log(*body, raw=raw)
    first = len(made.log(raw=raw))
    for length in range(first, len(content) + 1):
        read = list(made.scan(content[:length], raw=raw).log)
        assert list(made.stream(content[:length], raw=raw)) == read


@pytest.mark.parametrize("bad", [b"junk\n", b"\n", b'{"type":"turn/end","seq":9,"time":5,"data":{}}\n'])
def test_a_stream_raises_where_reading_does(made: Any, store: JsonlLogStore, raw: bool, bad: bytes) -> None:
    """Issue 3: damage comes out of a stream as out of ``read``, after what precedes it; what ends the log ends it."""
    for after in (b"", made.line(4), made.turn_end(4)):
        made.put(made.log(made.lines(0, 3), bad, after, raw=raw), name=made.name(raw=raw))
        try:
            expected = ([event.seq for event in store.read("s").events], "")
        except SessionCorrupt as error:
            expected = ([0, 1, 2], f"SessionCorrupt: {error}")
        assert outcome(store.scan("s")) == expected


@pytest.mark.parametrize("checksum", [True, False], ids=["summed", "bare"])
@pytest.mark.parametrize("text", ["%s\n%s", "%s\n\n%s", "%s\n%s\n\n", "\n%s\n%s", "%s%s\n"])
def test_lines_and_rows_are_counted_alike(made: Any, store: JsonlLogStore, text: str, checksum: bool) -> None:
    """WRITING trap 2: blank lines and a missing last line end are seen, in every way of reading, also together."""
    first, second = (made.line(seq).decode().rstrip() for seq in (0, 1))
    frames = (made.header, (text % (first, second)).encode(), made.turn_end(2))
    made.put(b"".join(made.frame(part, checksum=checksum) for part in frames))
    for ask in (lambda: store.read("s"), lambda: list(store.scan("s")), lambda: store.tail("s")):
        with pytest.raises(SessionCorrupt):
            ask()


def test_damage_is_not_read_to_its_end(made: Any, store: JsonlLogStore) -> None:
    """Issue 3, Bounded: bytes that can be no frame are damage at once, however many follow them."""
    log = made.put(made.log(made.line(0)) + b"junk")
    os.truncate(log, 300 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(SessionCorrupt):
            list(store.scan("s"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_a_stream_keeps_nothing(made: Any, store: JsonlLogStore, raw: bool) -> None:
    """Issue 3: a log of 40 MB passes through a stream in a few MiB, also in one frame of many rows."""
    data = '"' + "n" * 1_000 + '"'
    rows = [made.line(seq, data=data) for seq in range(40_000)]
    small = [b"".join(rows[at : at + 20]) for at in range(0, 20_000, 20)]
    made.put(made.log(*small, b"".join(rows[20_000:]), raw=raw), name=made.name(raw=raw))
    del rows, small
    tracemalloc.start()
    try:
        assert sum(1 for _ in store.scan("s")) == 40_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_a_stream_left_half_way_holds_no_file(made: Any, store: JsonlLogStore) -> None:
    """A stream that nobody reads to its end lets go of its file."""
    made.put(made.log(made.lines(0, 3), made.lines(3, 6)))
    before = len(list(Path("/proc/self/fd").iterdir()))
    stream = store.scan("s")
    assert next(stream).seq == 0
    del stream
    assert len(list(Path("/proc/self/fd").iterdir())) == before


# Following.


def follow(store: JsonlLogStore, cursor: Mapping[str, int] | None) -> LogTail:
    """Follow through JSON, as a cursor that is kept in a file is."""
    return store.tail("s", None if cursor is None else json.loads(json.dumps(dict(cursor))))


def seqs(tail: LogTail) -> list[int]:
    return [event.seq for event in tail.events]


def test_following_a_log_as_it_grows(made: Any, store: JsonlLogStore, root: Path) -> None:
    """Issue 3: batch by batch each event comes once, in order; between batches nothing comes; a new store goes on."""
    with store.create(made.session_header()) as writer:
        with pytest.raises(SessionNotFound):
            store.tail("s")
        writer.append(made.batch(0, 3))
        tail = follow(store, None)
        assert seqs(tail) == [0, 1, 2]
        for first, count in ((3, 1), (4, 30), (34, 2)):
            assert seqs(follow(store, tail.cursor)) == []
            assert follow(store, tail.cursor).cursor == tail.cursor
            writer.append(made.batch(first, count))
            tail = follow(JsonlLogStore(root), tail.cursor)
            assert seqs(tail) == list(range(first, first + count))
    assert seqs(follow(store, None)) == list(range(36))


def test_a_half_written_stretch_waits(made: Any, store: JsonlLogStore, raw: bool) -> None:
    """Issue 3: what is half written is not handed out, and comes whole once it is: at every length of it."""
    intact, more = made.log(made.lines(0, 3), raw=raw), made.lines(3, 5) if raw else made.frame(made.lines(3, 5))
    log = made.put(intact, name=made.name(raw=raw))
    cursor = follow(store, None).cursor
    for length in range(len(more)):
        with log.open("r+b") as file:
            file.seek(len(intact))
            file.write(more[:length])
        tail = follow(store, cursor)
        whole = more[:length].count(b"\n") if raw else 0
        assert seqs(tail) == [3, 4][:whole]
        assert seqs(follow(store, tail.cursor)) == []
    with log.open("ab") as file:
        file.write(more[-1:])
    assert seqs(follow(store, cursor)) == [3, 4]
    assert seqs(follow(store, tail.cursor)) == [3, 4][whole:]


def test_a_damaged_frame_is_not_passed_over(made: Any, store: JsonlLogStore) -> None:
    """CASES A11: what precedes a damaged frame comes; then it raises every time, and what follows never comes."""
    frames = [made.frame(part) for part in (made.header, made.line(0), made.lines(1, 3), made.line(3), made.line(4))]
    offset = len(b"".join(frames[:3]))
    for position in (len(frames[3]) - 1, 9, 0):
        broken = bytearray(frames[3])
        broken[position] ^= 1
        log = made.put(b"".join([*frames[:3], broken, frames[4]]))
        tail = follow(store, None)
        assert seqs(tail) == [0, 1, 2]
        for _ in range(3):
            with pytest.raises(SessionCorrupt) as caught:
                follow(JsonlLogStore(made.root), tail.cursor)
            assert (caught.value.path, caught.value.offset) == (str(log), offset)
        with log.open("r+b") as file:  # mended, for example from a copy
            file.seek(offset)
            file.write(frames[3])
        assert seqs(follow(store, tail.cursor)) == [3, 4]


@pytest.mark.parametrize("bad", [b"junk\n", b"\n", b'{"type":"a","seq":9,"time":5,"data":{}}\n'])
def test_a_bad_row_is_not_passed_over(made: Any, store: JsonlLogStore, raw: bool, bad: bytes) -> None:
    """Issue 3: a follower is told of a bad row, with offset and line, where ``read`` might take it for a torn tail."""
    content = made.log(made.lines(0, 3), raw=raw)
    made.put(content + (bad if raw else made.frame(bad)), name=made.name(raw=raw))
    with JsonlLogStore(made.root).open("s") as writer:
        assert writer.next_seq == 3
    cursor: Mapping[str, int] | None = None
    if not raw:
        tail = follow(store, cursor)
        assert seqs(tail) == [0, 1, 2]
        cursor = tail.cursor
    for _ in range(2):
        with pytest.raises(SessionCorrupt) as caught:
            follow(store, cursor)
        assert (caught.value.offset, caught.value.line) == (len(content), 5)


def test_a_log_that_is_another(made: Any, store: JsonlLogStore, raw: bool) -> None:
    """Issue 3: a log that was replaced or cut since is ``ForeignChange``, also under the same inode and size."""
    content = made.log(made.lines(0, 3), made.line(3), raw=raw)
    other = made.log(made.lines(0, 3), made.line(3, data='{"todos":[7]}'), made.lines(4, 9), raw=raw)
    log = made.put(content, name=made.name(raw=raw))
    cursor = follow(store, None).cursor

    def replace() -> None:
        log.with_name("new").write_bytes(content)
        log.with_name("new").rename(log)

    changes = [lambda: log.write_bytes(other), lambda: os.truncate(log, len(content) - 1), replace]
    for change in changes:
        log.write_bytes(content)
        assert seqs(follow(store, cursor)) == []
        change()
        with pytest.raises(ForeignChange) as caught:
            follow(store, cursor)
        assert caught.value.path == str(log)
    log.unlink()
    with pytest.raises(SessionNotFound):
        follow(store, cursor)


@pytest.mark.parametrize(
    "change", [{"offset": 0}, {"offset": 5}, {"offset": 10**9}, {"offset": -1}, {"seen": 7}, {"inode": 1}]
)
def test_a_cursor_that_is_none(made: Any, store: JsonlLogStore, change: dict[str, int]) -> None:
    """A cursor of another log, or one that somebody made up, is refused and reads nothing."""
    made.put(made.log(made.lines(0, 3)))
    cursor = dict(follow(store, None).cursor)
    for wrong in (cursor | change, {"seq": 3}, {}):
        with pytest.raises(ForeignChange):
            store.tail("s", wrong)


def test_a_long_log_comes_in_parts(made: Any, store: JsonlLogStore, raw: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 3: one call takes in a bounded part of the log, by its stored and by its decoded size."""
    monkeypatch.setattr(_read, "_FOLLOWED_BYTES", 20_000)
    data = '"' + "n" * 1_000 + '"'
    rows = [made.line(seq, data=data) for seq in range(300)]
    made.put(made.log(*rows, raw=raw), name=made.name(raw=raw))
    found: list[int] = []
    cursor: Mapping[str, int] | None = None
    calls = 0
    while part := (tail := follow(store, cursor)).events:
        found += [event.seq for event in part]
        assert sum(len(event.encoded) for event in part) < 100_000
        cursor, calls = tail.cursor, calls + 1
    assert found == list(range(300))
    assert calls > 3


def test_a_frame_without_the_checksum_of_the_others(made: Any, store: JsonlLogStore) -> None:
    """DESIGN: a follower, too, takes no frame without a checksum where the header has one."""
    made.put(made.log(made.line(0)) + made.frame(made.line(1), checksum=False))
    tail = follow(store, None)
    assert seqs(tail) == [0]
    with pytest.raises(SessionCorrupt, match="no checksum"):
        follow(store, tail.cursor)


# Its text.


def test_raw_text(made: Any, store: JsonlLogStore, raw: bool) -> None:
    """Issue 3: the decoded text comes verbatim, header included; a cut frame is left out, a cut raw line is not.

    Damage raises.
    """
    parts = [made.lines(0, 2), b' { "odd" :  1 }\r\n', made.line(2, data='"' + "x" * 3_000_000 + '"')]
    content = made.log(*parts, raw=raw)
    log = made.put(content, name=made.name(raw=raw))
    assert b"".join(store.raw_text("s")) == made.header + b"".join(parts)
    location = SessionLocation(kind="jsonl", path=str(log))
    assert b"".join(store.raw_text(location)) == made.header + b"".join(parts)
    log.write_bytes(content[:-1])
    expected = content[:-1] if raw else made.header + b"".join(parts[:2])
    assert b"".join(store.raw_text("s")) == expected
    if not raw:
        for broken in (content[:-1] + b"\xff", content + b"junk"):
            log.write_bytes(broken)
            with pytest.raises(SessionCorrupt) as caught:
                list(store.raw_text("s"))
            assert caught.value.offset in (len(made.log(*parts[:2])), len(content))
