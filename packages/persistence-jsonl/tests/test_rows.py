from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_persistence_jsonl._rows import RowInvalid, decode_row, encode_row
from dsh_session import Replace, SessionEvent, encode_data


def event(**fields: Any) -> SessionEvent:
    return SessionEvent(**({"type": "a/b", "seq": 50, "time": 7, "encoded": b"{}"} | fields))


INTERRUPTED = encode_data("tool/result", {"turn": 1, "step": 1, "message": {"id": "interrupted-tool-result-a-5"}})
FORKED = encode_data("tool/result", {"turn": 1, "step": 1, "message": {"id": "forked-tool-result-a-5"}})
QUOTED = encode_data("tool/result", {"turn": 1, "note": '"message":{"id":"interrupted-tool-result-a-5"}'})

REPLACING = (
    b'{"type":"a/b","seq":50,"time":7,"data":{},"sourceEventSeqs":[[3,6],9],'
    b'"surfaceOp":{"op":"replace","startSeq":3,"endSeq":9}}'
)

GOLDEN = [
    (event(), b'{"type":"a/b","seq":50,"time":7,"data":{}}'),
    (event(time=-3, encoded=b"null"), b'{"type":"a/b","seq":50,"time":-3,"data":null}'),
    (event(ignorable=True), b'{"type":"a/b","seq":50,"time":7,"data":{},"ignorable":true}'),
    (event(type='q"ü'), '{"type":"q\\"ü","seq":50,"time":7,"data":{}}'.encode()),
    (
        event(source_event_seqs=(1, 9), surface_op="append"),
        b'{"type":"a/b","seq":50,"time":7,"data":{},"sourceEventSeqs":[1,9],"surfaceOp":"append"}',
    ),
    (
        event(source_event_seqs=(3, 4, 5, 6, 9), surface_op=Replace(start_seq=3, end_seq=9)),
        REPLACING,
    ),
    (
        event(source_event_seqs=(4,), surface_op="append", encoded=INTERRUPTED),
        b'{"type":"a/b","seq":50,"time":7,"data":' + INTERRUPTED + b',"surfaceOp":"append","sourceEventSeqs":[4]}',
    ),
    (
        event(source_event_seqs=(4,), surface_op="append", encoded=FORKED),
        b'{"type":"a/b","seq":50,"time":7,"data":' + FORKED + b',"surfaceOp":"append","sourceEventSeqs":[4]}',
    ),
    (
        event(source_event_seqs=(4,), surface_op="append", encoded=QUOTED),
        b'{"type":"a/b","seq":50,"time":7,"data":' + QUOTED + b',"sourceEventSeqs":[4],"surfaceOp":"append"}',
    ),
]


@pytest.mark.parametrize(("one", "line"), GOLDEN, ids=[str(number) for number in range(len(GOLDEN))])
def test_golden_lines(one: SessionEvent, line: bytes) -> None:
    """FORMAT §1.1, WRITING trap 1: the order of the keys; closers of a crash or a fork swap the last two."""
    assert encode_row(one) == line + b"\n"
    assert decode_row(line) == one


@pytest.mark.parametrize(
    ("seqs", "text"),
    [
        ((0,), "[0]"),
        ((0, 1), "[0,1]"),
        ((0, 1, 2), "[[0,2]]"),
        ((0, 1, 2, 4, 5, 7, 8, 9), "[[0,2],4,5,[7,9]]"),
        ((3, 2, 1), "[3,2,1]"),
        ((1, 2, 3, 2), "[1,2,3,2]"),
        ((1, 3, 5), "[1,3,5]"),
    ],
)
def test_ranges(seqs: tuple[int, ...], text: str) -> None:
    """GENERATIONS §1.2: only strictly increasing lists are packed, and only runs of three and more."""
    line = encode_row(event(source_event_seqs=seqs))
    assert b'"sourceEventSeqs":' + text.encode() in line
    assert decode_row(line) == event(source_event_seqs=seqs)


@pytest.mark.parametrize("members", ["[[5,4]]", "[[0,50]]", "[[3,5],4]", "[[-1,2]]", "[4,[1,3]]", "[[1,2,3]]", '["1"]'])
def test_bad_ranges(members: str) -> None:
    """GENERATIONS §1.2: a pair is start and end before the event's own seq, and nothing falls back after a pair."""
    with pytest.raises(RowInvalid):
        decode_row(b'{"type":"a/b","seq":50,"time":7,"data":{},"sourceEventSeqs":%b}' % members.encode())


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"   ",
        b"null",
        b"[]",
        b"{}",
        b'{"type":"a","seq":0,"time":1}',
        b'{"type":"a","seq":0,"data":{}}',
        b'{"type":"a","seq":"0","time":1,"data":{}}',
        b'{"type":"a","seq":0,"time":1.5,"data":{}}',
        b'{"type":1,"seq":0,"time":1,"data":{}}',
        b'{"type":"a","seq":0,"time":1,"data":{},"host":"x"}',
        b'{"type":"a","seq":0,"time":1,"data":{},"ignorable":false}',
        b'{"type":"a","seq":0,"time":1,"data":{},"ignorable":null}',
        b'{"type":"a","seq":0,"time":1,"data":{},"surfaceOp":"prepend"}',
        b'{"type":"a","seq":0,"time":1,"data":{},"surfaceOp":{"op":"replace","start":1,"end":2}}',
        b'{"type":"a","seq":0,"time":1,"data":{},"surfaceOp":{"op":"replace","startSeq":1,"endSeq":2,"x":3}}',
        b'{"type":"a","seq":0,"time":1,"data":NaN}',
        b'{"type":"a","seq":0,"time":1,"data":{"x":"\\ud800","y":NaN}}',
        b'{"type":"a","seq":0,"time":1,"data":{"x":"\\ud800"}',
        b'{"type":"a\\ud800","seq":0,"time":1,"data":{}}',
        b'{"type":"a","seq":0,"time":1,"x":"\\ud800","data":{}}',
        b'{"a":"\\ud800","seq":0,"time":1}',
        b'{"type":"a","seq":0,"time":1,"data":' + b"[" * 5_000,
        b'{"type":"a","seq":0,"time":1,"data":{}} {}',
        b'\xef\xbb\xbf{"type":"a","seq":0,"time":1,"data":{}}',
    ],
)
def test_bad_rows(line: bytes) -> None:
    """FORMAT §1.1, CASES B04: what is no event of this generation is refused with a reason, whatever it is instead."""
    with pytest.raises(RowInvalid) as caught:
        decode_row(line)
    assert str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        rb'"\ud800"',
        rb'{"t":"x\ud83d\u2026"}',
        rb'{"\udc9f":["\udc9f","}],\"{"],"data":"\ud800"}',
        rb'{"data":{"data":"\uDBFF \\"}}',
        b"[" * 5_000 + b"]" * 5_000,
        b'{"deep":' + b'[{"a":"}]"},' * 3_000 + b"1" + b"]" * 3_000 + b"}",
    ],
    ids=["alone", "cut", "brackets", "nested", "deep", "deep-with-text"],
)
@pytest.mark.parametrize(
    "form",
    [
        b'{"type":"data","seq":5,"time":7,"data":%b,"sourceEventSeqs":[[1,3]],"surfaceOp":"append"}',
        b'{ "data" : %b , "surfaceOp":"append", "time":7, "sourceEventSeqs":[1,2,3], "seq":5, "type":"data" }\r',
    ],
    ids=["compact", "spaced"],
)
def test_data_that_msgspec_cannot_pass_over(data: bytes, form: bytes) -> None:
    """CASES B01, WRITING traps 2 and 7: lone surrogates and depth are ordinary data; the bytes are kept as they are."""
    found = decode_row(form % data)
    expected = event(type="data", seq=5, encoded=data, source_event_seqs=(1, 2, 3), surface_op="append")
    assert found == expected
    assert decode_row(encode_row(found)) == found


def test_key_order_and_spaces_do_not_matter() -> None:
    """FORMAT §1.1: readers do not depend on the order of the keys; the data's own bytes stay as they were."""
    line = b' { "data" : { "x" : 1 } , "time":7, "seq":50, "type":"a/b" } \r'
    assert decode_row(line) == event(encoded=b'{ "x" : 1 }')


TEXT = st.text(st.characters(exclude_categories=())).filter(
    lambda text: text == text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
)
DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)
SEQ = st.integers(0, 10_000)
EVENTS = st.builds(
    SessionEvent,
    type=st.text(min_size=1),
    seq=st.integers(10_001, 2**53 - 1),
    time=st.integers(-(2**53) + 1, 2**53 - 1),
    encoded=DATA.map(lambda data: encode_data("t", data)),
    source_event_seqs=st.none() | (st.lists(SEQ, unique=True) | st.lists(SEQ, unique=True).map(sorted)).map(tuple),
    surface_op=st.sampled_from([None, "append"]) | st.builds(Replace, start_seq=SEQ, end_seq=SEQ),
    ignorable=st.booleans(),
)


@given(EVENTS)
def test_round_trip(one: SessionEvent) -> None:
    """Every event comes back equal from its line, data bytes included, and the line is plain JSON."""
    line = encode_row(one)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode_row(line[:-1]) == one
    assert json.loads(line)["data"] == one.data
