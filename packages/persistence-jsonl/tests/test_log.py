"""The events of a log, decoded when they are asked for: they are what decoding all of it at once would give."""

from __future__ import annotations

import json
import random
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh_persistence import SessionCorrupt
from dsh_persistence_jsonl import _log
from dsh_persistence_jsonl._frames import PIECE_BYTES
from dsh_persistence_jsonl._rows import decode_row

TYPES = [
    "todo/write",
    "user/message",
    "tool/result",
    "turn/end",
    "plugin:a/b",
    "x\\/y",
    'q"uote',
    "ü",
    "新/聞",
    "😀",
    "",
]


def spelled(type: str, how: str) -> str:
    """A type as JSON text: as a harness writes it, or with some of its characters escaped."""
    if how == "slash":
        return json.dumps(type, ensure_ascii=False).replace("/", "\\/")
    if how == "lower":
        return '"' + "".join(f"\\u{unit:04x}" for unit in units(type)) + '"'
    if how == "upper":
        return '"' + "".join(f"\\u{unit:04X}" for unit in units(type)) + '"'
    return json.dumps(type, ensure_ascii=how == "ascii")


def units(text: str) -> list[int]:
    encoded = text.encode("utf-16-le")
    return [int.from_bytes(encoded[at : at + 2], "little") for at in range(0, len(encoded), 2)]


@st.composite
def rows(draw: st.DrawFn) -> str:
    """A row with ``%d`` where its seq belongs: any type however spelled, keys in any order, with or without spaces."""
    type = spelled(draw(st.sampled_from(TYPES)), draw(st.sampled_from(["plain", "ascii", "slash", "lower", "upper"])))
    data = draw(st.sampled_from(["{}", "null", '{"type":"user/message"}', r'"\ud800 \/"', '"surfaceOp"', "[[1],2]"]))
    parts = [f'"type":{type}', '"seq":%d', '"time":5', f'"data":{data}']
    parts += draw(st.sampled_from([[], ['"surfaceOp":"append"'], ['"surface\\u004fp":"append"'], ['"ignorable":true']]))
    if draw(st.booleans()):
        parts = draw(st.permutations(parts))
    return "{" + draw(st.sampled_from([",", " , "])).join(parts) + "}" + draw(st.sampled_from(["", "", "\r"]))


LARGE = '{"type":"todo/write","seq":%d,"time":5,"data":"' + "large " * 200_000 + '"}'
BATCHES = st.lists(st.lists(rows(), max_size=5), max_size=6)


def written(batches: list[list[str]]) -> list[bytes]:
    """Each batch as text, with its rows numbered through."""
    firsts = accumulate(map(len, batches), initial=0)
    return [
        "".join(row % seq + "\n" for seq, row in enumerate(batch, first)).encode()
        for first, batch in zip(firsts, batches, strict=False)
    ]


@settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
@given(batches=BATCHES, large=st.none() | st.integers(0, 5), raw=st.booleans(), data=st.data())
def test_a_log_is_its_rows(
    made: Any, batches: list[list[str]], large: int | None, raw: bool, data: st.DataObject
) -> None:
    """DESIGN: length, positions, slices, iteration and types are those of the decoded list, whatever the frames.

    Frames of many rows, of none and of more than a piece; types with escapes; raw text and zstd.
    """
    if large is not None and large < len(batches):
        batches[large].append(LARGE)
    texts = written(batches)
    model = [decode_row(line) for text in texts for line in text.split(b"\n")[:-1]]
    scan = made.scan(made.log(*texts, raw=raw), raw=raw)
    assert (scan.torn, scan.salvaged, scan.log.first_seq) == (None, 0, 0)
    for log in (scan.log, scan.log.suffix(data.draw(st.integers(0, len(model) + 1)))):
        expected = model[log.first_seq :]
        assert (len(log), list(log), list(reversed(log))) == (len(expected), expected, expected[::-1])
        for position in range(-len(expected), len(expected)):
            assert log[position] == expected[position]
        for position in (len(expected), -len(expected) - 1):
            with pytest.raises(IndexError):
                log[position]
        part = data.draw(st.slices(len(expected)))
        assert list(log[part]) == expected[part]
        for _ in range(2):
            wanted = data.draw(st.sets(st.sampled_from(TYPES)))
            assert list(log.of_type(*wanted)) == [event for event in expected if event.type in wanted]


@pytest.mark.parametrize("how", ["plain", "ascii", "slash", "lower", "upper"])
@pytest.mark.parametrize("type", TYPES)
def test_a_type_is_found_however_it_is_spelled(made: Any, type: str, how: str) -> None:
    r"""FORMAT §1.1: a type is what its JSON text says, ``\/`` and ``\u00xx`` and all, also alone in its frame."""
    row = b'{"type":%b,"seq":1,"time":5,"data":{}}\n' % spelled(type, how).encode()
    log = made.scan(made.log(made.line(0, "a"), row, made.line(2, "a"))).log
    assert [event.seq for event in log.of_type(type)] == [1]
    assert [event.seq for event in log.of_type(type, "a")] == [0, 1, 2]


def texts_of(count: int, size: int) -> list[bytes]:
    """``count`` batches of 5 rows and about ``size`` bytes."""
    note = "n" * (size // 5)
    rows = ['{"type":"todo/write","seq":%d,"time":5,"data":"' + note + '"}'] * 5
    return written([rows] * count)


@pytest.mark.parametrize("raw", [False, True], ids=["zstd", "raw"])
def test_the_cache_is_bounded(made: Any, raw: bool) -> None:
    """DESIGN: at most 8 MiB of decoded stretches are kept, the last ones used; passing over a log keeps none."""
    log = made.scan(made.log(*texts_of(30, 700_000), raw=raw), raw=raw).log
    assert [event.seq for event in log] == list(range(150))
    assert log._cached_bytes == 0
    for _ in range(2):
        for position in range(149, -1, -1):
            assert log[position].seq == position
            assert log._cached_bytes == sum(size for size, _ in log._cache.values())
            assert 0 < log._cached_bytes <= 8 << 20
    assert log._cached_bytes > 6 << 20


def test_a_large_frame_is_streamed(made: Any) -> None:
    """DESIGN: a frame over 1 MiB is streamed at each access: nothing of it is kept, and memory stays small."""
    data = '"' + "n" * 2_000 + '"'
    rows = (made.line(seq, "turn/end" if seq == 7_000 else "todo/write", data) for seq in range(8_000))
    text = b"".join(rows)
    assert len(text) > 15 * PIECE_BYTES
    content = made.log(b"", text, made.line(8_000))
    del text
    tracemalloc.start()
    try:
        scan = made.scan(content)
        log = scan.log
        assert sum(1 for _ in log) == len(log) == 8_001
        assert [log[seq].seq for seq in (0, 5_000, 7_999, 8_000)] == [0, 5_000, 7_999, 8_000]
        assert [event.seq for event in log[-3:]] == [7_998, 7_999, 8_000]
        assert [event.seq for event in log.of_type("turn/end")] == [7_000]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6 * PIECE_BYTES
    assert log._cached_bytes < 1_000


def test_many_threads(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """DESIGN: any thread may ask a log, also while others do and the cache is too small for all of them."""
    monkeypatch.setattr(_log, "CACHE_BYTES", 30_000)
    log = made.scan(made.log(*texts_of(60, 5_000))).log

    def ask(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(150):
            at = chance.randrange(300)
            assert log[at].seq == at
            assert [event.seq for event in log[at : at + 7]] == list(range(at, min(300, at + 7)))
        assert [event.seq for event in log] == list(range(300))
        assert sum(1 for _ in log.of_type("todo/write")) == 300

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(ask, range(6)))
    assert 0 < log._cached_bytes == sum(size for size, _ in log._cache.values()) <= 30_000


BAD_ROWS = [
    b'{"type":"todo/write","seq":41,"time":"late","data":{}}\n',
    b'{"type":"todo/write","seq":7,"time":5,"data":{}}\n',
    b"\n",
]


@pytest.mark.parametrize("bad", BAD_ROWS, ids=["value", "seq", "blank"])
def test_a_bad_row_inside_an_intact_frame(made: Any, bad: bytes) -> None:
    """DESIGN, Two levels: ``read`` does not see a bad row between good ones; whoever reaches it is told where it is."""
    frames = [made.header, made.lines(0, 40), made.line(40) + bad + made.lines(42, 44), made.turn_end(44)]
    content = b"".join(map(made.frame, frames))
    offset = len(b"".join(map(made.frame, frames[:2])))
    log = made.scan(content).log
    assert len(log) == 45
    assert [event.seq for event in log[:40]] == list(range(40))
    assert log[44].type == "turn/end"
    for ask in (lambda: log[41], lambda: log[38:43], lambda: list(log), lambda: list(log.of_type("todo/write"))):
        with pytest.raises(SessionCorrupt) as caught:
            ask()
        assert (caught.value.path, caught.value.offset, caught.value.line) == (log._blocks.log.path, offset, 43)
    reached = []
    with pytest.raises(SessionCorrupt) as caught:
        reached.extend(made.stream(content))
    assert (caught.value.offset, caught.value.line) == (offset, 43)


def test_a_bad_row_ends_a_stream_where_it_ends_the_log(made: Any) -> None:
    """Whatever the way of reading: a row that ``read`` has counted is reported, not taken for the end of the log."""
    content = made.log(made.lines(0, 40), made.line(40) + b"{}\n" + made.line(42))
    log = made.scan(content).log
    assert len(log) == 43
    found = []
    with pytest.raises(SessionCorrupt, match="no event") as listed:
        list(log)
    with pytest.raises(SessionCorrupt, match="no event") as streamed:
        found.extend(made.stream(content))
    assert (str(streamed.value), [event.seq for event in found]) == (str(listed.value), list(range(41)))
