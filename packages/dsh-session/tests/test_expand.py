from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_session import (
    BlockEnd,
    BlockStart,
    Finish,
    ReasoningDelta,
    StreamInvalid,
    StreamRecorder,
    TextDelta,
    ToolCallDelta,
    Usage,
    decode_json,
    encode_data,
    expand_stream,
)

TEXT = st.text(max_size=4)
INDEX = st.integers(0, 2)
CHUNKS: st.SearchStrategy[Any] = st.one_of(
    st.builds(TextDelta, index=INDEX, text=TEXT),
    st.builds(ReasoningDelta, index=INDEX, text=TEXT),
    st.builds(
        ToolCallDelta,
        index=INDEX,
        id=st.sampled_from(["", "a", "b"]),
        name=st.sampled_from([None, "", "bash"]),
        arguments_delta=TEXT,
    ),
    st.builds(BlockStart, index=INDEX, block_type=st.just("text")),
    st.builds(BlockEnd, index=INDEX, block=st.just({"type": "text", "text": "x"})),
    st.builds(Usage, usage=st.just({"inputTokens": 1})),
    st.builds(Finish, reason=st.just({"kind": "stop"}), replay_state=st.none() | st.just({"a": 1})),
    st.fixed_dictionaries({"type": st.just("usage"), "usage": st.just({}), "extra": TEXT}),
    st.fixed_dictionaries({"type": st.sampled_from(["new", "text-delta", "usage"]), "extra": TEXT}),
)


def record(timed: list[tuple[Any, int]]) -> list[dict[str, Any]]:
    recorder = StreamRecorder()
    for chunk, time in timed:
        recorder.add(chunk, time)
    return recorder.records


def plain(chunk: Any) -> Any:
    return msgspec.to_builtins(chunk)


@settings(deadline=None)
@given(st.lists(st.tuples(CHUNKS, st.integers(0, 2**40)), max_size=12))
def test_round_trip(timed: list[tuple[Any, int]]) -> None:
    """GENERATIONS §3: chunks survive as records, and records survive as chunks, through their JSON too."""
    records = decode_json(encode_data("assistant/attempt", record(timed)))
    expanded = list(expand_stream(records))
    assert [(plain(chunk), time) for chunk, time in expanded] == [(plain(chunk), time) for chunk, time in timed]
    assert record(expanded) == records


RUN = {"type": "text-chunks", "time0": 5, "index": 0, "dt": [1], "texts": ["a", "b"]}
CALL = {"type": "tool-call-chunks", "time0": 5, "index": 0, "dt": [], "id": "x", "name": "bash", "args": ["{"]}
ONE = {"type": "chunk", "time": 5, "chunk": {"type": "finish", "reason": {"kind": "stop"}}}


def test_the_shapes_themselves() -> None:
    """GENERATIONS §3: the three shapes of records, and what they hold."""
    assert list(expand_stream([RUN, CALL, ONE])) == [
        (TextDelta(index=0, text="a"), 5),
        (TextDelta(index=0, text="b"), 6),
        (ToolCallDelta(index=0, id="x", name="bash", arguments_delta="{"), 5),
        (Finish(reason={"kind": "stop"}), 5),
    ]
    nameless = {key: value for key, value in CALL.items() if key != "name"}
    assert list(expand_stream([nameless])) == [(ToolCallDelta(index=0, id="x", arguments_delta="{"), 5)]


@pytest.mark.parametrize(
    "bad",
    [
        None,
        [],
        {},
        {"type": "new"},
        {**RUN, "extra": 1},
        {key: value for key, value in RUN.items() if key != "dt"},
        {**RUN, "dt": []},
        {**RUN, "dt": [0.5]},
        {**RUN, "dt": [True]},
        {**RUN, "dt": [2**53 - 1]},
        {**RUN, "texts": ["a", 1]},
        {**RUN, "texts": [], "dt": []},
        {**RUN, "texts": "ab"},
        {**RUN, "index": -1},
        {**RUN, "time0": "5"},
        {**CALL, "id": ""},
        {**CALL, "name": ""},
        {**CALL, "name": None},
        {key: value for key, value in CALL.items() if key != "id"},
        {**ONE, "chunk": []},
        {**ONE, "time": 2**53},
        {**ONE, "time0": 1},
    ],
)
def test_what_is_no_record(bad: Any) -> None:
    """GENERATIONS §3: exact keys and shapes; the position of the bad record is named."""
    with pytest.raises(StreamInvalid) as caught:
        list(expand_stream([RUN, bad]))
    assert caught.value.position == 1
