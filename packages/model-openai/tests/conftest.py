"""A model server of ours on a real socket: it speaks HTTP/1.1 by hand and keeps what it received."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import pytest

from dsh_agent import ModelRequest, ModelRoute
from dsh_model_openai import OpenAIModel
from dsh_session import StreamChunk

KEY = "sk-0123456789abcdef"


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A request as it came in."""

    line: str
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the server does with the next request."""

    status: str = "200 OK"
    headers: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[bytes | float, ...] = ()
    """Each is sent as one HTTP chunk; a number is a pause in seconds."""
    end: str = "whole"
    """``whole``, or ``cut`` without the last HTTP chunk, or ``hold`` until the client goes."""


class ChatServer:
    """Answers each request as it was told beforehand, in order."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.arrived = asyncio.Event()
        self.gone = asyncio.Event()
        """Set when a client closed the connection while its answer was held."""
        self.url = ""
        self._answers: list[Answer] = []

    def will_send(self, *parts: bytes | float, end: str = "whole", headers: Mapping[str, str] | None = None) -> None:
        """Answer the next request with an event stream of these parts."""
        told = {"content-type": "text/event-stream", **(headers or {})}
        self._answers.append(Answer(headers=told, parts=parts, end=end))

    def will_refuse(self, status: str, body: object, headers: Mapping[str, str] | None = None) -> None:
        """Answer the next request with an HTTP error; ``body`` is sent as JSON, or as it is when it is text."""
        text = body if isinstance(body, str) else json.dumps(body)
        self._answers.append(Answer(status=status, headers=headers or {}, parts=(text.encode(),) if text else ()))

    def will_do(self, *, status: str = "200 OK", parts: tuple[bytes, ...] = (), end: str = "whole") -> None:
        """Answer the next request with this; without a status there is no head, only what follows."""
        self._answers.append(Answer(status=status, parts=parts, end=end))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.gone.set()
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, *fields = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields if field)}
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.requests.append(Received(line=line, headers=headers, body=body))
        self.arrived.set()
        answer = self._answers.pop(0)
        if answer.status:
            told = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
            writer.write(f"HTTP/1.1 {answer.status}\r\n{told}transfer-encoding: chunked\r\n\r\n".encode())
        for part in answer.parts:
            if isinstance(part, float):
                await asyncio.sleep(part)
                continue
            writer.write(b"%x\r\n%b\r\n" % (len(part), part))
            await writer.drain()
        if answer.end == "whole":
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        if answer.end == "hold":
            assert await reader.read() == b""
            self.gone.set()


@pytest.fixture
async def server() -> AsyncIterator[ChatServer]:
    chat = ChatServer()
    async with await asyncio.start_server(chat.serve, "127.0.0.1", 0) as listening:
        host, port = listening.sockets[0].getsockname()
        chat.url = f"http://{host}:{port}/v1"
        yield chat


Ask = Callable[..., Awaitable[list[StreamChunk]]]


@pytest.fixture
def model(server: ChatServer) -> OpenAIModel:
    return OpenAIModel(api_key=KEY, base_url=server.url, timeout_s=60)


@pytest.fixture
def ask(model: OpenAIModel) -> Ask:
    """Return ``ask(*messages, tools=…, model=…)``: every chunk of the reply."""
    default = model

    async def whole(*messages: Mapping[str, Any], tools: Any = (), model: OpenAIModel | None = None) -> list[Any]:
        spoken = messages or ({"role": "user", "content": [{"type": "text", "text": "Hello."}]},)
        route = ModelRoute(provider="test", model="test-model")
        request = ModelRequest(route=route, messages=spoken, tools=tools)
        async with aclosing((model or default).stream(request)) as chunks:
            return [chunk async for chunk in chunks]

    return whole


@pytest.fixture
def failure(ask: Ask) -> Callable[..., Awaitable[Mapping[str, Any]]]:
    """Return ``failure(…)``: asks, expects nothing but a failure, and returns it."""

    async def failed(**given: Any) -> Mapping[str, Any]:
        (finish,) = await ask(**given)
        assert finish.reason["kind"] == "error"
        return finish.reason["failure"]

    return failed
