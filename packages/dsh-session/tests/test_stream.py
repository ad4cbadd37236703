from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dsh_session import (
    BlockEnd,
    BlockStart,
    Finish,
    ReasoningDelta,
    StreamChunk,
    StreamRecorder,
    TextDelta,
    ToolCallDelta,
    Usage,
    encode_data,
)


def record(*timed: tuple[StreamChunk, int]) -> list[dict[str, Any]]:
    recorder = StreamRecorder()
    for chunk, time in timed:
        recorder.add(chunk, time)
    return recorder.records


def expand(records: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], int]]:
    """Turn records back into chunks and times, as GENERATIONS §3 defines them."""
    kinds = {"text-chunks": "text-delta", "reasoning-chunks": "reasoning-delta", "tool-call-chunks": "tool-call-delta"}
    for one in records:
        if one["type"] == "chunk":
            yield one["chunk"], one["time"]
            continue
        times = accumulate(one["dt"], initial=one["time0"])
        payload, key = (one["args"], "argumentsDelta") if "args" in one else (one["texts"], "text")
        assert len(one["dt"]) == len(payload) - 1
        same = {"type": kinds[one["type"]], "index": one["index"]}
        same |= {name: one[name] for name in ("id", "name") if name in one}
        for piece, time in zip(payload, times, strict=True):
            yield {**same, key: piece}, time


TEXT = st.text(max_size=4)
INDEX = st.integers(0, 2)
CHUNKS = st.one_of(
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
    st.builds(Usage, usage=st.just({"inputTokens": 1, "outputTokens": 2})),
    st.builds(Finish, reason=st.just({"kind": "stop"})),
)


TIMES = st.lists(st.integers(0, 2**40), min_size=1, max_size=5)


@given(st.lists(st.tuples(CHUNKS, TIMES)))
def test_expanding_gives_back_chunks_and_times(runs: list[tuple[StreamChunk, list[int]]]) -> None:
    """GENERATIONS §3: nothing is lost: the records expand to the chunks and times that were recorded."""
    timed = [(chunk, time) for chunk, times in runs for time in times]
    records = record(*timed)
    assert list(expand(records)) == [(msgspec.to_builtins(chunk), time) for chunk, time in timed]
    encode_data("assistant/attempt", records)


def test_golden_records() -> None:
    """GENERATIONS §3: exact keys in order, also of a run of one; a step back in time is a negative gap."""
    records = record(
        (BlockStart(index=0, block_type="text"), 10),
        (TextDelta(index=0, text="a"), 11),
        (TextDelta(index=0, text="b"), 9),
        (TextDelta(index=0, text="e"), 12),
        (TextDelta(index=1, text="c"), 12),
        (ReasoningDelta(index=1, text="d"), 13),
        (ToolCallDelta(index=2, id="x", name="bash", arguments_delta="{"), 14),
        (ToolCallDelta(index=2, id="x", name="bash", arguments_delta="}"), 15),
        (ToolCallDelta(index=2, id="x", arguments_delta=" "), 16),
        (ToolCallDelta(index=2, id="", arguments_delta="?"), 17),
        (Finish(reason={"kind": "tool-calls"}), 18),
    )
    assert [encode_data("t", one).decode() for one in records] == [
        '{"type":"chunk","time":10,"chunk":{"type":"block-start","index":0,"blockType":"text"}}',
        '{"type":"text-chunks","time0":11,"index":0,"dt":[-2,3],"texts":["a","b","e"]}',
        '{"type":"text-chunks","time0":12,"index":1,"dt":[],"texts":["c"]}',
        '{"type":"reasoning-chunks","time0":13,"index":1,"dt":[],"texts":["d"]}',
        '{"type":"tool-call-chunks","time0":14,"index":2,"dt":[1],"id":"x","name":"bash","args":["{","}"]}',
        '{"type":"tool-call-chunks","time0":16,"index":2,"dt":[],"id":"x","args":[" "]}',
        '{"type":"chunk","time":17,"chunk":{"type":"tool-call-delta","index":2,"id":"","argumentsDelta":"?"}}',
        '{"type":"chunk","time":18,"chunk":{"type":"finish","reason":{"kind":"tool-calls"}}}',
    ]


def test_a_run_does_not_resume() -> None:
    """GENERATIONS §3: records are in time order; a delta after something else begins a new record."""
    records = record(
        (TextDelta(index=0, text="a"), 1), (ReasoningDelta(index=0, text="b"), 2), (TextDelta(index=0, text="c"), 3)
    )
    assert [one["type"] for one in records] == ["text-chunks", "reasoning-chunks", "text-chunks"]
