"""Torn tail or damage: the rules for a log as dsh leaves it (FORMAT §2.8, §2.9; GENERATIONS §1)."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_persistence import FormatNotSupported, PersistenceError, SessionCorrupt, StoredPrefix
from dsh_persistence_jsonl import JsonlLogStore
from dsh_persistence_jsonl._frames import FrameEncoder
from dsh_persistence_jsonl._layout import LogFile
from dsh_persistence_jsonl._read import _complete, _cut
from dsh_persistence_jsonl._scan import read_header, scan_log
from dsh_session import EventRefused

encode_frame = FrameEncoder().encode


def read(made: Any, content: bytes, *, raw: bool = False) -> StoredPrefix:
    made.put(content, name="session.v4.jsonl" if raw else "session.v4.jsonl.zstd")
    return JsonlLogStore(made.root).read("s")


def test_frames_and_batches(made: Any) -> None:
    """CASES A09: one frame for the header, then one a batch; every frame is read, not only the first."""
    content = made.frame(made.header) + made.frame(made.line(0)) + made.frame(made.lines(1, 3))
    stored = read(made, content)
    assert ([event.seq for event in stored.events], stored.torn, stored.protected) == ([0, 1, 2], None, True)
    assert (stored.generation, stored.header) == (4, made.session_header())


@pytest.mark.parametrize("checksum", [True, False], ids=["summed", "bare"])
def test_frames_without_size_or_checksum(made: Any, checksum: bool) -> None:
    """CASES A10: frames without content size read; a log without any checksum reads and is reported unprotected."""
    pieces = (made.header, made.line(0), made.lines(1, 3))
    stored = read(made, b"".join(made.frame(piece, checksum=checksum) for piece in pieces))
    assert (len(stored.events), stored.protected) == (3, checksum)


def test_a_frame_without_the_checksum_of_the_others(made: Any) -> None:
    """DESIGN: where the header frame has a checksum every frame has one; a missing one is damage."""
    first = made.frame(made.header)
    with pytest.raises(SessionCorrupt, match="no checksum") as caught:
        read(made, first + made.frame(made.line(0), checksum=False))
    assert caught.value.offset == len(first)


@pytest.mark.parametrize("lines", [0, 1, 2])
def test_the_first_frame_is_the_header_line(made: Any, lines: int) -> None:
    """CASES A08: a first frame with no line end, or with an event in it, is refused and says what it holds."""
    plain = made.header.rstrip() if lines == 0 else made.header + made.lines(0, lines)
    with pytest.raises(SessionCorrupt, match=f"exactly the header line; it holds .* with {lines and lines + 1} line"):
        read(made, made.frame(plain))


def test_half_a_frame_keeps_what_is_before_it(made: Any) -> None:
    """CASES A02: a last frame cut at half its bytes loses itself only: 300 events come back, with a note of the cut."""
    intact = made.frame(made.header) + made.frame(made.lines(0, 150)) + made.frame(made.lines(150, 300))
    last = made.frame(made.lines(300, 400))
    stored = read(made, intact + last[: len(last) // 2])
    assert (stored.next_seq, stored.salvaged) == (300, 0)
    assert stored.torn is not None
    assert (stored.torn.offset, stored.torn.size_bytes) == (len(intact), len(last) // 2)


def test_a_frame_that_lacks_part_of_its_checksum(made: Any) -> None:
    """FORMAT §2.8: whole lines of a cut frame are salvaged, and counted, for nobody vouches for them."""
    intact = made.frame(made.header) + made.frame(made.line(0))
    last = made.frame(made.lines(1, 4))
    stored = read(made, intact + last[:-2])
    assert ([event.seq for event in stored.events], stored.salvaged) == ([0, 1, 2, 3], 3)
    assert stored.torn is not None
    assert stored.torn.offset == len(intact)


def test_stray_bytes_of_a_magic(made: Any) -> None:
    """FORMAT §2.8: fewer than four bytes of a frame's beginning are a torn start."""
    intact = made.frame(made.header) + made.frame(made.line(0))
    for length in (1, 2, 3):
        stored = read(made, intact + b"\x28\xb5\x2f\xfd"[:length])
        assert stored.torn is not None
        assert (stored.next_seq, stored.torn.size_bytes) == (1, length)


@pytest.mark.parametrize("tail", [b"\0" * 64, b"junk junk", b"\x50\x2a\x4d\x18\0\0\0\0"])
def test_bytes_that_are_no_frame(made: Any, tail: bytes) -> None:
    """FORMAT §2.7: without a mark anything but a frame or the start of one is damage, as for dsh, with its offset."""
    intact = made.frame(made.header) + made.frame(made.line(0))
    with pytest.raises(SessionCorrupt) as caught:
        read(made, intact + tail)
    assert caught.value.offset == len(intact)


def test_a_flipped_bit(made: Any) -> None:
    """CASES A11: a frame whose checksum fails is damage, named by its offset, also when later frames are fine."""
    pieces = [made.frame(piece) for piece in (made.header, made.line(0), made.lines(1, 3), made.line(3))]
    broken = bytearray(pieces[2])
    broken[-1] ^= 1
    with pytest.raises(SessionCorrupt, match="damaged") as caught:
        read(made, pieces[0] + pieces[1] + bytes(broken) + pieces[3])
    assert caught.value.offset == len(pieces[0] + pieces[1])


def test_a_whole_frame_ends_its_line(made: Any) -> None:
    """FORMAT §2.7: a complete frame that ends inside a line is damage."""
    first = made.frame(made.header)
    with pytest.raises(SessionCorrupt, match="inside a line") as caught:
        read(made, first + made.frame(made.line(0) + b'{"type":'))
    assert caught.value.offset == len(first)


TAILS = [b"{", b'{"type":"todo/write","seq":3', b'{"a":"\xe2\x82', b"\xff\xfe\n", b"\n", b" \n", b"junk\nmore\n"]


@pytest.mark.parametrize("tail", TAILS)
def test_raw_torn_tails(made: Any, tail: bytes) -> None:
    """CASES A04, FORMAT §2.9: a bad line after the last turn end is a torn tail, cut characters and blanks included."""
    body = made.header + made.lines(0, 2) + made.turn_end(2)
    stored = read(made, body + tail, raw=True)
    assert (stored.next_seq, stored.salvaged, stored.protected) == (3, 0, False)
    assert stored.torn is not None
    assert (stored.torn.offset, stored.torn.size_bytes) == (len(body), len(tail))


def test_a_last_line_without_its_end(made: Any) -> None:
    """CASES A05: a raw line that lacks only its newline is not durable: it is dropped whole, and its seq used again."""
    body = made.header + made.line(0)
    stored = read(made, body + made.line(1).rstrip(), raw=True)
    assert stored.next_seq == 1
    with JsonlLogStore(made.root).open("s") as writer:
        writer.append(made.batch(1, 2))
    assert [event.seq for event in JsonlLogStore(made.root).read("s").events] == [0, 1, 2]


def test_events_after_a_bad_line_are_not_taken(made: Any) -> None:
    """FORMAT §2.9: nothing after the first bad line counts, however well-formed it is."""
    body = made.header + made.line(0)
    for bad in (b"junk\n", made.line(2), made.line(0)):
        stored = read(made, body + bad + made.lines(1, 3), raw=True)
        assert stored.next_seq == 1
        assert stored.torn is not None
        assert stored.torn.offset == len(body)


@pytest.mark.parametrize("bad", [b"junk\n", b"\n", b'{"type":"acme","seq":3,"da\n'])
def test_a_bad_line_before_a_turn_end(made: Any, bad: bytes) -> None:
    """CASES A03, A21, FORMAT §2.9: a bad line that a turn end follows is damage, with path, offset and line."""
    body = made.header + made.lines(0, 3)
    with pytest.raises(SessionCorrupt, match="no event") as caught:
        read(made, body + bad + made.lines(4, 6) + made.turn_end(6), raw=True)
    assert (caught.value.offset, caught.value.line) == (len(body), 5)
    assert caught.value.path == str(made.root / "--w--/s/session.v4.jsonl")


def test_a_gap_before_a_turn_end(made: Any) -> None:
    """CASES A14, FORMAT §2.9: a seq out of order before a turn end, or in one, is damage that says what was due."""
    body = made.header + made.lines(0, 3)
    for rest in (made.lines(4, 6) + made.turn_end(6), made.turn_end(4), made.turn_end(1)):
        with pytest.raises(SessionCorrupt, match=r"seq \d where 3 is due") as caught:
            read(made, body + rest, raw=True)
        assert (caught.value.offset, caught.value.line) == (len(body), 5)


def test_the_same_rule_in_frames(made: Any) -> None:
    """FORMAT §2.9: in frames the first bad row begins the torn tail at its frame, and a turn end proves damage."""
    first, good = made.frame(made.header), made.frame(made.line(0))
    bad = made.frame(made.line(1) + made.line(7))
    stored = read(made, first + good + bad)
    assert ([event.seq for event in stored.events], stored.salvaged) == ([0, 1], 1)
    assert stored.torn is not None
    assert stored.torn.offset == len(first + good)
    with pytest.raises(SessionCorrupt, match="seq 7 where 2 is due") as caught:
        read(made, first + good + bad + made.frame(made.turn_end(8)))
    assert (caught.value.offset, caught.value.line) == (len(first + good), 4)


def test_line_separators_are_content(made: Any) -> None:
    """CASES B02: records end at byte 0x0A only; CRLF happens to read, as for dsh."""
    text = "a\u2028b\u2029c\u0085d\u000be\u000cf\u001cg"
    data = f'{{"t":"{text}"}}'.replace("\u000b", "\\u000b").replace("\u000c", "\\f").replace("\u001c", "\\u001c")
    body = made.header + made.line(0, data=data).replace(b"\n", b"\r\n") + made.line(1)
    events = read(made, body, raw=True).events
    assert ([event.seq for event in events], events[0].data) == ([0, 1], {"t": text})


@pytest.mark.parametrize("raw", [True, False], ids=["raw", "zstd"])
def test_no_header(made: Any, raw: bool) -> None:
    """CASES A07: an empty log, or one without a whole header, is damage with a plain reason; it is never empty."""
    whole = made.header if raw else made.frame(made.header)
    for content in (b"", whole[:-1], whole[:10]):
        with pytest.raises(SessionCorrupt, match="no whole header") as caught:
            read(made, content, raw=raw)
        assert (caught.value.offset, caught.value.line) == (0, 1)
    assert read(made, whole, raw=raw).next_seq == 0


@pytest.mark.parametrize(
    ("line", "kind", "reason"),
    [
        (b"\xef\xbb\xbf", SessionCorrupt, "not JSON"),
        (b'{"type":"session","version":3}\n', FormatNotSupported, "v3"),
        (b'{"type":"session","version":5,"new":1}\n', FormatNotSupported, "upgrade dsh-py"),
        (b'{"type":"turn/start"}\n', SessionCorrupt, "session header"),
    ],
)
@pytest.mark.parametrize("raw", [True, False], ids=["raw", "zstd"])
def test_bad_headers(made: Any, line: bytes, kind: type[PersistenceError], reason: str, raw: bool) -> None:
    """GENERATIONS §1: a malformed header is damage; one of another generation is named with its number."""
    plain = line if line.endswith(b"\n") else line + made.header
    with pytest.raises(kind, match=reason):
        read(made, plain if raw else made.frame(plain), raw=raw)


def test_an_inherited_part_has_its_mark(made: Any) -> None:
    """GENERATIONS §1.1: a seeded log marks the end of its inherited part, and no other log does."""
    marker = made.line(1, "session/end-seed", '{"inherited":true}')
    seeded = made.header_line(isSeeded=True)
    stored = read(made, seeded + made.line(0) + marker + made.line(2), raw=True)
    assert (stored.cut, stored.header.seed_length) == (1, 1)
    with pytest.raises(SessionCorrupt, match="inherit"):
        read(made, seeded + made.lines(0, 2), raw=True)
    foreign = read(made, made.header + made.line(0) + marker, raw=True)
    with pytest.raises(EventRefused, match="inherit"):  # found by whoever reads every row
        foreign.events.validate(foreign.header)
    plain = read(made, made.header + made.line(0, "session/end-seed", "{}"), raw=True)
    assert (plain.cut, plain.header.seed_length) == (0, None)


@pytest.mark.parametrize("data", ["null", "[]", '"x"', '{"source":"delegation"}', '{"source":"delegation","mode":1}'])
@pytest.mark.parametrize("type", ["session/end-seed", "sandbox/mode", "approval/policy"])
def test_odd_data_where_the_header_is_filled_from(made: Any, type: str, data: str) -> None:
    """What such events should hold is a question of what the log means; reading it does not fail over it."""
    stored = read(made, made.header + made.line(0, type, data), raw=True)
    assert (stored.next_seq, stored.header) == (1, made.session_header())


def contents(made: Any) -> dict[str, tuple[bytes, bool]]:
    body = [made.lines(0, 2), made.line(2, data=r'{"t":"\ud800 \u0000 é"}') + made.turn_end(3), made.lines(4, 9)]
    raw = made.header + b"".join(body)
    return {"raw": (raw, True), "zstd": (b"".join(map(made.frame, (made.header, *body))), False)}


@pytest.mark.parametrize("kind", ["raw", "zstd"])
def test_any_truncation(made: Any, kind: str) -> None:
    """For every length a truncated log gives a prefix of its events, or is refused; never anything else."""
    content, raw = contents(made)[kind]
    whole = list(read(made, content, raw=raw).events)
    longest = -1
    for length in range(len(content) + 1):
        try:
            stored = read(made, content[:length], raw=raw)
        except SessionCorrupt:
            assert longest == -1, "a longer piece of a log holds at least what a shorter one does"
            continue
        assert list(stored.events) == whole[: stored.next_seq]
        assert stored.next_seq >= longest
        longest = stored.next_seq
    assert longest == len(whole)


HYPOTHESIS_LOGS = {
    "raw": b"".join(
        [
            b'{"type":"session","version":4,"id":"s","createdAt":7,"isSeeded":true,"delegationDepth":0}\n',
            b'{"type":"sandbox/mode","seq":0,"time":1,"data":{"mode":"x","source":"delegation"}}\n',
            b'{"type":"session/end-seed","seq":1,"time":1,"data":{"inherited":true}}\n',
            b'{"type":"turn/end","seq":2,"time":1,"data":{"t":"\\ud800"},"sourceEventSeqs":[[0,1]]}\n',
        ]
    )
}


@given(
    kind=st.sampled_from(["raw", "zstd"]),
    position=st.integers(0, 400),
    gone=st.integers(0, 6),
    marked=st.none() | st.integers(0, 500),
    put=st.binary(max_size=6) | st.sampled_from([b"[" * 5_000, b"\\ud800", b"NaN", b"null", b"\n", b'{"a":', b"1e999"]),
)
def test_any_damage(kind: str, position: int, gone: int, put: bytes, marked: int | None) -> None:
    """Whatever bytes are changed, a log reads or is refused with an error of the seam; nothing else escapes."""
    content = HYPOTHESIS_LOGS["raw"]
    if kind == "raw":
        content = content[:position] + put + content[position + gone :]
    else:
        frames = b"".join(map(encode_frame, content.splitlines(keepends=True)))
        content = frames[:position] + put + frames[position + gone :]
    file = LogFile(folder="/r/_no-cwd/s", name="session.v4.jsonl", generation=4, encoding=kind)  # type: ignore[arg-type]
    with contextlib.suppress(PersistenceError):
        header, begin, protected = read_header(file, content)
        scan = scan_log(file, content, base=0, begin=begin, due=0, protected=protected, marked=marked)
        _complete(header, scan.log, _cut(file, header, scan.log))
        assert [event.seq for event in scan.log] == list(range(len(scan.log)))
