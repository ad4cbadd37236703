"""Connections that are refused, break, stall, or are not wanted any more."""

from __future__ import annotations

import asyncio
import socket

import pytest

from dsh_agent import ModelRequest, ModelRoute
from dsh_model_openai import OpenAIModel
from dsh_session import BlockStart, TextDelta

HELD_S = 30
"""How long a test waits for what should come at once."""

BEGUN = b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n'
DONE = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
REQUEST = ModelRequest(
    route=ModelRoute(provider="test", model="test-model"),
    messages=[{"role": "user", "content": [{"type": "text", "text": "Hello."}]}],
    tools=[],
)


async def test_nobody_listens(failure):
    """A refused connection is a failure that tells the reason, and not the address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        told = await failure(model=OpenAIModel(api_key=None, base_url=url))

    assert "TRANSPORT" == told["code"]
    assert url not in told["message"]


@pytest.mark.parametrize("end", ["cut", "whole"])
async def test_no_answer_at_all(server, failure, end):
    """A server that takes the request and hangs up, or talks something else, is a failure."""
    server.will_do(status="", end=end)

    assert "TRANSPORT" == (await failure())["code"]


@pytest.mark.parametrize(("end", "code"), [("cut", "TRANSPORT"), ("hold", "TIMEOUT")])
async def test_an_error_whose_text_breaks_off(server, failure, end, code):
    """A refusal of which only the beginning comes is a failure of the connection."""
    server.will_do(status="500 Internal Server Error", parts=(b'{"error"',), end=end)

    timeout_s = 0.5 if end == "hold" else HELD_S
    assert code == (await failure(model=OpenAIModel(api_key=None, base_url=server.url, timeout_s=timeout_s)))["code"]


@pytest.mark.parametrize("sent", [(), (BEGUN,)], ids=["before", "within"])
async def test_a_server_that_falls_silent(server, ask, sent):
    """Silence beyond the timeout ends the request as a failure, before the reply or within it, and the connection."""
    server.will_do(status="200 OK" if sent else "", parts=sent, end="hold")

    finish = (await ask(model=OpenAIModel(api_key=None, base_url=server.url, timeout_s=0.5)))[-1]

    assert "TIMEOUT" == finish.reason["failure"]["code"]
    async with asyncio.timeout(HELD_S):
        await server.gone.wait()


async def test_keep_alives_are_signs_of_life(server, ask):
    """A server that is slow, but says that it is there, is waited for beyond the timeout."""
    server.will_send(*([b": keep-alive\n\n", 0.25] * 12), BEGUN, DONE)

    finish = (await ask(model=OpenAIModel(api_key=None, base_url=server.url, timeout_s=2)))[-1]

    assert {"kind": "stop"} == finish.reason


@pytest.mark.parametrize("sent", [None, (), (BEGUN,)], ids=["unanswered", "headers", "text"])
async def test_a_cancelled_request_closes_the_connection(server, model, sent):
    """Cancelling the task hangs up, wherever the reply is; the server sees it, and the task ends as cancelled."""
    server.will_do(status="" if sent is None else "200 OK", parts=sent or (), end="hold")
    chunks = []
    begun = asyncio.Event()

    async def read():
        async for chunk in model.stream(REQUEST):
            chunks.append(chunk)
            begun.set()

    async with asyncio.timeout(HELD_S):
        task = asyncio.create_task(read())
        await server.arrived.wait()
        if sent:
            await begun.wait()
        assert not server.gone.is_set()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.gone.wait()

    assert [BlockStart(index=0, block_type="text"), TextDelta(index=0, text="x")][: len(chunks)] == chunks


async def test_a_reader_that_leaves_closes_the_connection(server, model):
    """Closing the iterator hangs up."""
    server.will_send(BEGUN, end="hold")

    async with asyncio.timeout(HELD_S):
        chunks = model.stream(REQUEST)
        await anext(chunks)
        await chunks.aclose()
        await server.gone.wait()

    assert 1 == len(server.requests)


async def test_requests_do_not_mix(server, model):
    """One model serves many at a time, and each gets its own reply to its end."""
    words = [f"word-{number}" for number in range(8)]
    for word in words:
        server.will_send(BEGUN.replace(b'"x"', f'"{word}"'.encode()), 0.05, DONE)

    async def read():
        return [chunk.text async for chunk in model.stream(REQUEST) if isinstance(chunk, TextDelta)]

    async with asyncio.timeout(HELD_S):
        replies = await asyncio.gather(*(read() for _ in words))

    assert sorted([word] for word in words) == sorted(replies)


async def test_a_model_outlives_its_event_loop(server, model):
    """A model is bound to no loop: it serves one that runs in a thread as well."""

    async def read():
        return [chunk.text async for chunk in model.stream(REQUEST) if isinstance(chunk, TextDelta)]

    for _ in range(3):
        server.will_send(BEGUN, DONE)

    assert [["x"]] * 3 == [await read(), await asyncio.to_thread(asyncio.run, read()), await read()]
