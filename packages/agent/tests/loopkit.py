"""What tests of the loop share: a log in short words, models and tools that do what a test tells them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from dsh_agent import ToolExecution, ToolResult
from dsh_session import Session


def echo(text: str = "x", **more: Any) -> dict[str, Any]:
    return {"name": "echo", "arguments": {"text": text, **more}}


def told(session: Session, first: int = 0) -> list[str]:
    """Return one line for each event: its type and what tells it from others of the type."""
    calls: dict[str, str] = {}
    return [_line(event.type, event.data, calls) for event in session.events[first:]]


def _line(type: str, data: Any, calls: dict[str, str]) -> str:
    name = {"assistant/message": "message", "assistant/attempt": "attempt"}.get(type, type)
    match type:
        case "agent/inbox/spliced":
            name = f"IN{'+' if data['inserted'] else '-'} {data['target']}{' canceled' if data.get('outcome') else ''}"
        case "turn/start":
            name = f"{type} {data['turn']}"
        case "step/start":
            name = f"{type} {data['turn']}.{data['step']}"
        case "request/header":
            name = f"{type} {data['reason']}"
        case "assistant/message" if data.get("interrupted"):
            name = "message interrupted"
        case "tool/call":
            name = f"call {calls.setdefault(data['callId'], f'c{len(calls) + 1}')}"
        case "tool/result":
            name = f"result {calls[data['message']['toolCallId']]}{' error' if data['message']['isError'] else ''}"
        case "turn/end":
            name = f"{type} {data['reason']['kind']}"
        case _:
            pass
    return name


class Chunks:
    """A model that yields given chunks, then waits for ever if asked to."""

    def __init__(self, *chunks: Any, hang: bool = False) -> None:
        self.chunks, self.hang = chunks, hang
        self.is_waiting = asyncio.Event()

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        for chunk in self.chunks:
            yield chunk
        self.is_waiting.set()
        if self.hang:
            await asyncio.Event().wait()


class Overlapping:
    """A tool whose calls may overlap; each waits until it is released."""

    name = "overlap"
    description = "Wait."
    parameters: Mapping[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

    def __init__(self) -> None:
        self.released: dict[str, asyncio.Event] = {}
        self.order: list[str] = []

    def is_concurrency_safe(self, arguments: Mapping[str, Any]) -> bool:
        return True

    async def execute(self, execution: ToolExecution) -> ToolResult:
        text = execution.arguments["text"]
        released = self.released.setdefault(text, asyncio.Event())
        self.order.append(f"+{text}")
        await released.wait()
        self.order.append(f"-{text}")
        return ToolResult.of_text(text)


def overlap(text: str) -> dict[str, Any]:
    return {"name": "overlap", "arguments": {"text": text}}


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until ``condition`` holds; the bound only prevents a hang."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0)
