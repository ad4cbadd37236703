"""A reply as it comes over the wire, and the chunks it becomes."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from dsh_session import (
    BlockEnd,
    BlockStart,
    Finish,
    ReasoningDelta,
    StreamRecorder,
    TextDelta,
    ToolCallDelta,
    Usage,
    expand_stream,
)


def sse(*, ending: bytes = b"\n", **piece) -> bytes:
    return b"data: " + json.dumps(piece, ensure_ascii=False).encode() + ending * 2


def event(delta=None, *, finish=None, ending: bytes = b"\n", **more) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish, "logprobs": None}
    shared = {"id": "9f", "object": "chat.completion.chunk", "created": 1, "model": "test-model"}
    return sse(ending=ending, **shared, choices=[choice], **more)


def call(index=0, id=None, name=None, arguments=None) -> dict:
    function = {"name": name, "arguments": arguments}
    piece = {"index": index, "id": id, "type": "function", "function": function}
    piece["function"] = {key: value for key, value in function.items() if value is not None}
    return {"tool_calls": [{key: value for key, value in piece.items() if value is not None}]}


DONE = b"data: [DONE]\n\n"
COUNTS = {"prompt_tokens": 103, "completion_tokens": 20, "total_tokens": 123, "prompt_cache_hit_tokens": 64}


def recording(ending: bytes = b"\n") -> list[bytes]:
    """A whole reply as DeepSeek sends one, event by event."""
    return [
        b": keep-alive" + ending * 2,
        event({"role": "assistant", "content": None, "reasoning_content": ""}, ending=ending),
        event({"content": None, "reasoning_content": "思考"}, ending=ending),
        event({"content": None, "reasoning_content": " 🤔…"}, ending=ending),
        b": keep-alive" + ending * 2,
        event({"content": "Gr", "reasoning_content": None}, ending=ending),
        event({"content": "üße 👩‍👧", "reasoning_content": None}, ending=ending),
        event(call(0, "call_a", "bash", ""), ending=ending),
        event(call(0, arguments='{"command":'), ending=ending),
        event(call(0, arguments='"echo é"}'), ending=ending),
        event({"content": ""}, finish="tool_calls", usage=COUNTS, ending=ending),
        b"data: [DONE]" + ending * 2,
    ]


RECORDED = [
    BlockStart(index=0, block_type="reasoning"),
    ReasoningDelta(index=0, text="思考"),
    ReasoningDelta(index=0, text=" 🤔…"),
    BlockStart(index=1, block_type="text"),
    TextDelta(index=1, text="Gr"),
    TextDelta(index=1, text="üße 👩‍👧"),
    BlockStart(index=2, block_type="tool-call"),
    ToolCallDelta(index=2, id="call_a", name="bash", arguments_delta='{"command":'),
    ToolCallDelta(index=2, id="call_a", name="bash", arguments_delta='"echo é"}'),
    BlockEnd(index=0, block={"type": "reasoning", "text": "思考 🤔…"}),
    BlockEnd(index=1, block={"type": "text", "text": "Grüße 👩‍👧"}),
    BlockEnd(
        index=2,
        block={"type": "tool-call", "id": "call_a", "name": "bash", "arguments": '{"command":"echo é"}'},
    ),
    Usage(usage={"inputTokens": 39, "outputTokens": 20, "cacheReadTokens": 64, "totalTokens": 123}),
    Finish(reason={"kind": "tool-calls"}),
]


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
async def test_a_recorded_reply(server, ask, ending):
    """Reasoning, text, a call and usage come out as blocks, whatever ends the lines; comments say nothing."""
    server.will_send(*recording(ending))

    assert await ask() == RECORDED


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("size", [1, 2, 3, 13])
async def test_boundaries_are_anywhere(server, ask, size, ending):
    """The same reply in pieces of any size, each byte being the first of a piece in turn, is the same reply."""
    wire = b"".join(recording(ending))
    for offset in range(size):
        cuts = [0, *range(offset or size, len(wire), size), len(wire)]
        server.will_send(*[wire[start:end] for start, end in pairwise(cuts)])

        assert await ask() == RECORDED, f"pieces of {size} from {offset}"


async def test_every_byte_splits_a_stream_in_two(server, ask):
    """One boundary alone may be at every byte, also inside a character and between CR and LF."""
    wire = event({"content": "ü👩‍👧"}, ending=b"\r\n") + event(finish="stop", ending=b"\r\n")
    text = "ü👩‍👧"
    expected = [
        BlockStart(index=0, block_type="text"),
        TextDelta(index=0, text=text),
        BlockEnd(index=0, block={"type": "text", "text": text}),
        Finish(reason={"kind": "stop"}),
    ]
    for boundary in range(1, len(wire)):
        server.will_send(wire[:boundary], wire[boundary:])

        assert await ask() == expected, f"boundary at {boundary}"


@pytest.mark.parametrize("kept", range(len(recording())))
async def test_a_cut_at_every_event_is_a_failure(server, ask, kept):
    """However far a reply came, a connection that breaks before its end makes it a failed one."""
    server.will_send(*recording()[:kept], end="cut", headers={"x-ds-trace-id": "trace-1"})

    *chunks, finish = await ask()

    assert RECORDED[: len(chunks)] == chunks
    failure = finish.reason["failure"]
    assert ("error", "TRANSPORT", "trace-1") == (finish.reason["kind"], failure["code"], failure["requestId"])


@pytest.mark.parametrize("kept", range(len(recording()) - 2))
async def test_a_silent_end_at_every_event_is_a_failure(server, ask, kept):
    """A stream that ends in good order, but without a finish reason, did not finish."""
    server.will_send(*recording()[:kept])

    *_, finish = await ask()

    assert ("error", "TRANSPORT") == (finish.reason["kind"], finish.reason["failure"]["code"])


async def test_an_end_without_done(server, ask):
    """A server that never says [DONE] has finished when it gave a reason and ended in good order."""
    server.will_send(*recording()[:-1])

    assert await ask() == RECORDED


async def test_nothing_follows_done(server, ask):
    """What a server sends after [DONE] is no part of the reply."""
    server.will_send(*recording(), event({"content": "more"}))

    assert await ask() == RECORDED


async def test_parallel_calls(server, ask):
    """Deltas of several calls come mixed; the index sorts them, the id is told once, a name may come in pieces."""
    server.will_send(
        event(call(0, "call_a", "ba")),
        event(call(1, "call_b", "read", "")),
        event(call(0, name="sh")),
        event(call(1, arguments='{"path"')),
        event(call(0, arguments='{"command"')),
        event(call(1, arguments=':"a"}')),
        event(call(0, arguments=':"ls"}')),
        event(call(2, "call_c", "now")),
        event(finish="tool_calls"),
        DONE,
    )

    chunks = await ask()

    assert [
        BlockEnd(index=0, block={"type": "tool-call", "id": "call_a", "name": "bash", "arguments": '{"command":"ls"}'}),
        BlockEnd(index=1, block={"type": "tool-call", "id": "call_b", "name": "read", "arguments": '{"path":"a"}'}),
        BlockEnd(index=2, block={"type": "tool-call", "id": "call_c", "name": "now", "arguments": ""}),
        Finish(reason={"kind": "tool-calls"}),
    ] == chunks[-4:]
    deltas = [chunk for chunk in chunks if isinstance(chunk, ToolCallDelta)]
    assert [("call_b", "read"), ("call_a", "bash"), ("call_b", "read"), ("call_a", "bash")] == [
        (delta.id, delta.name) for delta in deltas
    ]


async def test_calls_that_share_an_index(server, ask):
    """A second id is a second call, also from a server that gives all of them the index 0, or none."""
    first, second = call(0, "call_a", "bash", "{}"), call(0, "call_b", "bash", "{}")
    del second["tool_calls"][0]["index"]
    server.will_send(event(first), event(second), event(finish="tool_calls"), DONE)

    chunks = await ask()

    assert ["call_a", "call_b"] == [chunk.block["id"] for chunk in chunks if isinstance(chunk, BlockEnd)]


@pytest.mark.parametrize("lacks", ["id", "name"])
async def test_a_call_that_cannot_be_made(server, ask, lacks):
    """A call without an id or a name is a failure; its result could not be given back."""
    given = {"id": "call_a", "name": "bash"}
    del given[lacks]
    server.will_send(event(call(0, **given, arguments="{}")), event(finish="tool_calls"), DONE)

    finish = (await ask())[-1]

    assert "MALFORMED_RESPONSE" == finish.reason["failure"]["code"]


@pytest.mark.parametrize(
    ("reason", "delta", "expected"),
    [
        ("stop", {"content": "x"}, "stop"),
        ("stop", call(0, "a", "bash", "{}"), "tool-calls"),
        ("tool_calls", {"content": "x"}, "stop"),
        ("length", {"content": "x"}, "max-tokens"),
        ("length", {}, "max-tokens"),
    ],
)
async def test_finish_reasons(server, ask, reason, delta, expected):
    """A finish is what the reply is: servers report a stop after calls, and calls where there are none."""
    server.will_send(event(delta), event(finish=reason), DONE)

    assert Finish(reason={"kind": expected}) == (await ask())[-1]


@pytest.mark.parametrize(
    ("reason", "delta", "code"),
    [
        ("content_filter", {"content": "x"}, "CONTENT_FILTER"),
        ("insufficient_system_resource", {"content": "x"}, "SERVER"),
        ("out_of_ideas", {"content": "x"}, "MALFORMED_RESPONSE"),
        ("stop", {}, "EMPTY_RESPONSE"),
        ("tool_calls", {"content": ""}, "EMPTY_RESPONSE"),
    ],
)
async def test_finish_reasons_that_are_failures(server, ask, reason, delta, code):
    """A reply that was stopped, or holds nothing, is a failure; its tokens are counted all the same."""
    server.will_send(event(delta), event(finish=reason, usage=COUNTS), DONE)

    *chunks, usage, finish = await ask()

    assert [] == [chunk for chunk in chunks if isinstance(chunk, BlockEnd)]
    assert (123, code) == (usage.usage["totalTokens"], finish.reason["failure"]["code"])


async def test_a_call_cut_by_the_token_limit_is_not_whole(server, ask):
    """Text that ends at the limit is a block; a call that ends there is none."""
    server.will_send(event({"content": "x"}), event(call(0, "a", "bash", '{"comm')), event(finish="length"), DONE)

    chunks = await ask()

    assert [{"type": "text", "text": "x"}] == [chunk.block for chunk in chunks if isinstance(chunk, BlockEnd)]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (
            {"prompt_tokens": 10, "completion_tokens": 5},
            {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15},
        ),
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 50,
                "prompt_tokens_details": {"cached_tokens": 40, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 30},
            },
            {"inputTokens": 60, "outputTokens": 50, "cacheReadTokens": 40, "reasoningTokens": 30, "totalTokens": 150},
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": None, "prompt_cache_hit_tokens": 0},
            {"inputTokens": 10, "outputTokens": 5, "cacheReadTokens": 0, "totalTokens": 15},
        ),
    ],
)
async def test_usage_in_an_event_of_its_own(server, ask, counts, expected):
    """Token counts that come last, without a choice, stand before the finish, each token counted once."""
    server.will_send(event({"content": "x"}, usage=None), event(finish="stop"), sse(choices=[], usage=counts), DONE)

    assert [Usage(usage=expected), Finish(reason={"kind": "stop"})] == (await ask())[-2:]


async def test_only_the_first_choice_counts(server, ask):
    """A server that sends alternatives nobody asked for does not mix them into the reply."""
    other = sse(choices=[{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}])
    server.will_send(event({"content": "yes"}), other, event(finish="stop"), DONE)

    assert {"type": "text", "text": "yes"} == (await ask())[-2].block


@pytest.mark.parametrize(
    "junk",
    [
        b'data: {"choices": [\n\n',
        b"data: nothing\n\n",
        b'data: {"choices": 1}\n\n',
        b'data: ["choices"]\n\n',
        b'data: {"choices": [{"delta": {"content": {"text": "x"}}}]}\n\n',
        b'data: {"choices": [{"delta": {"content": "\xff"}}]}\n\n',
    ],
)
async def test_malformed_events(server, ask, junk):
    """What is no JSON, no UTF-8 or not the shape is a failure with the request's id; what came before stays."""
    server.will_send(event({"content": "x"}), junk, event(finish="stop"), DONE, headers={"x-request-id": "req-1"})

    *chunks, finish = await ask()

    assert [BlockStart(index=0, block_type="text"), TextDelta(index=0, text="x")] == chunks
    failure = finish.reason["failure"]
    assert ("MALFORMED_RESPONSE", "req-1") == (failure["code"], failure["requestId"])


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"message": "overloaded", "type": "server_error"}, {"code": "SERVER"}),
        ({"message": "overloaded", "code": 503}, {"code": "SERVER", "status": 503}),
        ({"message": "slow down", "type": "rate_limit_error"}, {"code": "RATE_LIMIT"}),
        ({"message": "no", "type": "invalid_request_error"}, {"code": "INVALID_REQUEST"}),
        ({"message": "long", "code": "context_length_exceeded"}, {"code": "CONTEXT_WINDOW_EXCEEDED"}),
    ],
)
@pytest.mark.parametrize("prefix", [b"", b"event: error\n"], ids=["data", "named"])
async def test_an_error_inside_the_stream(server, ask, prefix, error, expected):
    """A server that fails after it began says so in an event; that ends the reply as a failure."""
    server.will_send(event({"content": "x"}), prefix + sse(error=error))

    finish = (await ask())[-1]

    assert {"message": error["message"], **expected} == finish.reason["failure"]


async def test_the_log_keeps_the_stream(server, ask):
    """A reply's chunks survive the log's records."""
    server.will_send(*recording())
    recorder = StreamRecorder()
    chunks = await ask()
    for chunk in chunks:
        recorder.add(chunk, 1_700_000_000_000)

    assert chunks == [chunk for chunk, _ in expand_stream(recorder.records)]
