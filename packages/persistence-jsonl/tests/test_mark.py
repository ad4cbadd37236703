"""The mark decides between a torn write and damage (DESIGN, "One rule decides"; DURABILITY §3)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dsh_persistence import PersistenceError, SessionCorrupt
from dsh_persistence_jsonl import JsonlLogStore
from dsh_persistence_jsonl._frames import FrameEncoder
from dsh_persistence_jsonl._mark import read_mark
from dsh_session import SessionEvent

encode_frame = FrameEncoder().encode


Outcome = tuple[list[SessionEvent], int | None, int] | SessionCorrupt


class Marked:
    """A log of a header and three frames, and where its parts end."""

    def __init__(self, made: Any) -> None:
        self.made = made
        self.frames = [made.frame(part) for part in (made.header, made.lines(0, 2), made.turn_end(2), made.lines(3, 5))]
        self.content = b"".join(self.frames)
        self.before_last = len(self.content) - len(self.frames[-1])
        self.events = list(made.scan(self.content).log)

    def outcome(self, content: bytes, marked: int | None) -> Outcome:
        """The events, where a torn tail begins, and how many of it were salvaged; or the damage. Streams agree."""
        found = self.ask(content, marked)
        streamed: list[SessionEvent] = []
        try:
            streamed.extend(self.made.stream(content, marked=marked))
            assert not isinstance(found, SessionCorrupt)
            assert streamed == found[0]
        except SessionCorrupt as damage:
            assert str(damage) == str(found)  # noqa: PT017  # which of the two outcomes it is, is the question
        return found

    def ask(self, content: bytes, marked: int | None) -> Outcome:
        try:
            scan = self.made.scan(content, marked=marked)
        except SessionCorrupt as damage:
            return damage
        return list(scan.log), None if scan.torn is None else scan.torn.offset, scan.salvaged


@pytest.fixture
def log(made: Any) -> Marked:
    return Marked(made)


def flips(content: bytes) -> Any:
    """Every single-bit flip of some bytes, as (byte, changed bytes)."""
    for at in range(len(content)):
        for bit in range(8):
            flipped = bytearray(content)
            flipped[at] ^= 1 << bit
            yield at, bytes(flipped)


def test_every_flip_below_the_mark(log: Marked) -> None:
    """DURABILITY G5: where all of a log is acknowledged no flipped bit is silent: damage, or exactly everything."""
    refused = 0
    for _, flipped in flips(log.content):
        found = log.outcome(flipped, len(log.content))
        if isinstance(found, SessionCorrupt):
            refused += 1
            assert found.path
            assert found.offset is not None
        else:
            assert found == (log.events, None, 0)
    assert refused > 0.95 * 8 * len(log.content)


def test_every_truncation_below_the_mark(log: Marked) -> None:
    """DURABILITY G5: an acknowledged log that has become shorter is damage, at every length."""
    for length in range(len(log.content)):
        found = log.outcome(log.content[:length], len(log.content))
        assert isinstance(found, SessionCorrupt)
        if length >= len(log.frames[0]):
            assert f"{len(log.content)} bytes were acknowledged" in found.reason
    assert log.outcome(log.content, len(log.content)) == (log.events, None, 0)


def test_every_flip_around_the_mark(log: Marked) -> None:
    """DESIGN: a fault in what was not acknowledged leaves the prefix and a torn tail; one before it is damage."""
    torn = 0
    for at, flipped in flips(log.content):
        found = log.outcome(flipped, log.before_last)
        if at < log.before_last:
            assert isinstance(found, SessionCorrupt) or found == (log.events, None, 0)
        elif found != (log.events, None, 0):
            assert not isinstance(found, SessionCorrupt), found
            # A longer last block eats into its checksum: all blocks are there, and what they give is the same.
            assert found in ((log.events[:3], log.before_last, 0), (log.events, log.before_last, 2))
            torn += 1
    assert torn > 0.95 * 8 * len(log.frames[-1])


def test_every_truncation_around_the_mark(log: Marked) -> None:
    """DESIGN: a cut frame above the mark is no part of the log, and counts whole where only its checksum is cut."""
    for length in range(len(log.content)):
        found = log.outcome(log.content[:length], log.before_last)
        if length < log.before_last:
            assert isinstance(found, SessionCorrupt)
        elif length == log.before_last:
            assert found == (log.events[:3], None, 0)
        elif length < len(log.content) - 4:
            assert found == (log.events[:3], log.before_last, 0)
        else:
            assert found == (log.events, log.before_last, 2)


def test_every_flip_of_two_unacknowledged_frames(log: Marked) -> None:
    """DESIGN: above the mark, too, a fault that an intact frame follows is damage, wherever the walk goes astray."""
    marked = len(log.frames[0]) + len(log.frames[1])
    for at, flipped in flips(log.content):
        found = log.outcome(flipped, marked)
        if at < log.before_last:
            assert isinstance(found, SessionCorrupt) or found == (log.events, None, 0)
        else:
            assert not isinstance(found, SessionCorrupt)


TAILS = [
    b"\0" * 64,
    b"junk junk junk",
    b"\x28\xb5\x2f\xfd",
    b"\x28\xb5\x2f\xfd\x04\x58",
    b"{}\n",
    bytes(range(256)) * 9,
]


@pytest.mark.parametrize("tail", TAILS, ids=["zeros", "junk", "magic", "head", "text", "bytes"])
@pytest.mark.parametrize("zeroed", [False, True], ids=["after", "over"])
def test_any_tail_above_the_mark(log: Marked, tail: bytes, zeroed: bool) -> None:
    """DESIGN: what follows the last intact frame above the mark is torn, whatever its bytes are."""
    start = log.content[: log.before_last + 6] if zeroed else log.content
    end = log.before_last if zeroed else len(log.content)
    expected = log.events[:3] if zeroed else log.events
    assert log.outcome(start + tail, log.before_last) == (expected, end, 0)
    assert log.outcome(start + tail, end) == (expected, end, 0)
    assert isinstance(log.outcome(start + tail, end + 1), SessionCorrupt)
    found = log.outcome(start + tail + log.frames[-1], log.before_last)
    assert isinstance(found, SessionCorrupt)
    assert "an intact frame follows at byte" in found.reason
    assert found.offset == end


def test_frames_that_vouch_for_nothing(log: Marked, made: Any) -> None:
    """DESIGN: above the mark a frame with a wrong checksum or none is torn; an empty frame or half a row proves nil."""
    wrong = log.frames[-1][:-1] + bytes([log.frames[-1][-1] ^ 1])
    bare = made.frame(made.lines(3, 5), checksum=False)
    for broken in (wrong, bare, wrong + bare, wrong + encode_frame(b""), wrong + encode_frame(b"half")):
        assert log.outcome(log.content[: log.before_last] + broken, log.before_last) == (
            log.events[:3],
            log.before_last,
            0,
        )
    for rows in (made.lines(3, 5), made.lines(5, 6), b"other\n"):
        found = log.outcome(log.content[: log.before_last] + wrong + encode_frame(rows), log.before_last)
        assert isinstance(found, SessionCorrupt)


def test_a_large_frame_above_the_mark(log: Marked, made: Any) -> None:
    """No row of a frame is believed, or handed out, before its checksum is: also where it is decoded in pieces."""
    big = b"".join(made.line(seq, data='"' + "x" * 1_000 + '"') for seq in range(3, 4_000))
    frame = made.frame(big)
    assert len(big) > 3 << 20
    intact = log.content[: log.before_last]
    for at in (len(frame) // 2, len(frame) - 1):
        wrong = bytearray(frame)
        wrong[at] ^= 0x40
        assert log.outcome(intact + bytes(wrong), log.before_last) == (log.events[:3], log.before_last, 0)
        reached = []
        with pytest.raises(SessionCorrupt, match="damaged"):
            reached.extend(made.stream(intact + bytes(wrong)))
        assert reached == log.events[:3]


def test_a_cut_frame_counts_whole_or_not_at_all(log: Marked, made: Any) -> None:
    """DESIGN: above the mark, of a frame that lacks a block, a whole row or its seq, nothing is salvaged."""
    noise = Random(1)
    rows = b"".join(made.line(seq, data=f'"{noise.randbytes(30_000).hex()}"') for seq in range(3, 9))
    frame = made.frame(rows)
    intact = log.content[: log.before_last]
    assert made.scan(intact + frame[:-2], marked=len(intact)).salvaged == 6
    assert made.scan(intact + frame[: len(frame) // 2]).salvaged > 0
    for cut in (len(frame) // 2, len(frame) - 5, 140_000):
        assert log.outcome(intact + frame[:cut], len(intact)) == (log.events[:3], len(intact), 0)
    for plain in (made.lines(3, 5) + b"half", made.lines(4, 5), b"junk\n"):
        assert log.outcome(intact + made.frame(plain)[:-1], len(intact)) == (log.events[:3], len(intact), 0)


def test_a_bad_row_in_an_intact_frame_above_the_mark(log: Marked, made: Any) -> None:
    """A checksum says that the rows were written so: what is wrong with them is no torn write."""
    for plain in (made.lines(4, 5), b"junk\n", made.lines(3, 5) + b"half", b"\n"):
        found = log.outcome(log.content[: log.before_last] + made.frame(plain), log.before_last)
        assert isinstance(found, SessionCorrupt)
        assert found.offset == log.before_last


@pytest.mark.parametrize("tail", [b"junk\n", b"\0" * 40, b'{"half":', b"\n"])
def test_a_raw_log(made: Any, tail: bytes) -> None:
    """DESIGN: in a raw log FORMAT §2.9 holds above the mark, line by line, and every fault below it is damage."""
    body = made.header + made.lines(0, 3)
    for marked in (0, len(made.header), len(body)):
        scan = made.scan(body + tail, raw=True, marked=marked)
        assert ([event.seq for event in scan.log], scan.salvaged) == ([0, 1, 2], 0)
        assert scan.torn is not None
        assert (scan.torn.offset, scan.torn.size_bytes) == (len(body), len(tail))
    for marked in (len(body) + 1, len(body + tail)):
        with pytest.raises(SessionCorrupt) as caught:
            made.scan(body + tail, raw=True, marked=marked)
        assert caught.value.offset == len(body)
    if tail.endswith(b"\n"):
        with pytest.raises(SessionCorrupt):
            made.scan(body + tail + made.turn_end(4), raw=True, marked=len(body))


def test_a_log_without_checksums(made: Any) -> None:
    """A log that carries no checksum has a mark like any other once we wrote to it; above it a bad frame is torn."""
    frames = [made.frame(part, checksum=False) for part in (made.header, made.lines(0, 2), made.lines(2, 4))]
    content = b"".join(frames[:2])
    cut = bytearray(frames[2])
    cut[9] = 0xFF
    with contextlib.suppress(SessionCorrupt):
        made.scan(content + bytes(cut))
    for tail in (frames[2][:-3], b"\0" * 30, b"junk"):
        scan = made.scan(content + tail, marked=len(content))
        assert [event.seq for event in scan.log] == [0, 1]
        assert scan.torn is not None
        assert scan.torn.offset == len(content)


# The mark's own file.


def read(made: Any, path: Path) -> list[int]:
    return [event.seq for event in JsonlLogStore(made.root).read("s").events]


def acknowledged(log: Path) -> int | None:
    mark = read_mark(str(log))
    return None if mark is None else mark.length


def test_the_later_slot_counts(made: Any) -> None:
    """DURABILITY §3: of two slots of 28 bytes at 0 and 512 the one that says more counts, and each may be broken."""
    log = made.put(made.log(made.line(0), made.line(1)))
    assert acknowledged(log) is None
    for slot, length, expected in ((0, 100, 100), (1, 200, 200), (0, 150, 200), (0, 300, 300)):
        made.mark(log, length, slot=slot)
        assert acknowledged(log) == expected
    mark = log.with_name(f"{log.name}.mark")
    whole = mark.read_bytes()
    assert len(whole) == 540
    for at in range(28):
        broken = bytearray(whole)
        broken[at] ^= 1
        mark.write_bytes(broken)
        assert acknowledged(log) == 200
        broken[512 + at] ^= 1
        mark.write_bytes(broken)
        assert acknowledged(log) is None
    for length in range(540):
        mark.write_bytes(whole[:length])
        assert acknowledged(log) == (300 if length >= 28 else None)


def test_a_mark_beyond_the_end(made: Any) -> None:
    """DESIGN: a log shorter than what was acknowledged is damage that says so, for every way to read it."""
    log = made.put(made.log(made.line(0), made.line(1)))
    made.mark(log, log.stat().st_size + 9)
    store = JsonlLogStore(made.root)
    asks: list[Callable[[], Any]] = [
        lambda: store.read("s"),
        lambda: store.read("s", from_seq=1),
        lambda: list(store.scan("s")),
        lambda: store.open("s"),
    ]
    for ask in asks:
        with pytest.raises(SessionCorrupt, match=f"{log.stat().st_size + 9} bytes were acknowledged") as caught:
            ask()
        assert (caught.value.path, caught.value.offset) == (str(log), log.stat().st_size)
    assert [one.problem for one in store.list()] == [None]
    made.mark(log, 0)
    made.mark(log, 0, slot=1)
    store.open("s").close()


@pytest.mark.parametrize("kind", ["absent", "garbage", "empty", "folder", "pipe", "link"])
def test_no_mark(made: Any, kind: str) -> None:
    """DESIGN: without a mark, that is in a log of dsh's alone, FORMAT §2.7 to §2.9 hold as dsh holds them."""
    content = made.log(made.line(0), made.line(1))
    log = made.put(content)
    mark = log.with_name(f"{log.name}.mark")
    if kind in ("garbage", "empty"):
        mark.write_bytes(os.urandom(540) if kind == "garbage" else b"")
    elif kind == "folder":
        mark.mkdir()
    elif kind == "pipe":
        os.mkfifo(mark)
    elif kind == "link":
        made.mark(log, len(content))
        mark.rename(log.parent / "moved")
        mark.symlink_to(log.parent / "moved")
    assert acknowledged(log) is None
    assert read(made, log) == [0, 1]
    log.write_bytes(content[:-2])
    assert read(made, log) == [0, 1]
    log.write_bytes(content[:-6])
    assert read(made, log) == [0]
    for bad in (content + b"\0" * 40, content[:-1] + b"\xff"):
        log.write_bytes(bad)
        with pytest.raises(SessionCorrupt):
            read(made, log)


def test_with_a_mark_the_same_bytes_are_torn(made: Any) -> None:
    """DESIGN: the mark in its file reaches reading, streaming and opening, which cuts what it allows to cut."""
    intact = made.log(made.line(0), made.line(1))
    log = made.put(intact + b"\0" * 40)
    made.mark(log, len(intact), slot=1)
    store = JsonlLogStore(made.root)
    assert [event.seq for event in store.scan("s")] == read(made, log) == [0, 1]
    with store.open("s") as writer:
        repair = writer.repair()
        assert repair is not None
        assert (repair.cut.offset, repair.salvaged) == (len(intact), 0)
        writer.append(made.batch(2))
    assert read(made, log) == [0, 1, 2]


def test_a_mark_that_is_behind(made: Any) -> None:
    """WRITING trap 6: dsh appends beyond our mark, so a mark that is behind the log's end is normal."""
    parts = [made.line(0), made.turn_end(1), made.lines(2, 4)]
    content = made.log(*parts)
    log = made.put(content)
    for count in range(4):
        made.mark(log, len(made.log(*parts[:count])), slot=count % 2)
        assert read(made, log) == [0, 1, 2, 3]
    with pytest.raises(PersistenceError):
        made.scan(content, marked=len(content) + 1)
