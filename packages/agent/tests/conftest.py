"""A small harness for the loop: a real session store, a real (memory) log store, a scripted model, tools of ours."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dsh_agent import (
    AGENTS,
    APPROVAL,
    EXTENSIONS,
    MODEL,
    PERSISTENCE,
    SESSIONS,
    TOOLS,
    Agents,
    AgentsConfig,
    Approval,
    Extensions,
    ModelAdapter,
    ModelRequest,
    ScriptedModel,
    ToolExecution,
    ToolResult,
    Tools,
    agents,
    turn_end_flush,
)
from dsh_context import App, Plugin, Provision
from dsh_persistence import LogStore, MemoryLogStore, SessionPersistence
from dsh_session import EventRun, Session, Sessions, StreamChunk

# Test modules cannot import each other under importlib mode; this makes ``loopkit`` importable.
sys.path.insert(0, str(Path(__file__).parent))


def check_log(session: Session) -> None:
    """Hold a log against what every log must be: the rules of the format, balance, a history a provider takes."""
    state = EventRun(session.events).validate(session.header)
    assert (None, None, {}) == (state.turn, state.step, state.calls)
    started = [event.data["callId"] for event in session.events.of_type("tool/call")]
    settled = [event.data["message"]["toolCallId"] for event in session.events.of_type("tool/result")]
    assert Counter(started) <= Counter(settled)  # the closers of a cut turn settle calls that never started
    due: list[str] = []
    for message in session.messages():
        if message["role"] == "tool":
            due.remove(message["toolCallId"])
            continue
        assert due == [], "a call without a result"
        due = [block["id"] for block in message["content"] if block["type"] == "tool-call"]
    assert due == []


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[Session]]:
    """The sessions of a test, each checked at its end; a test that leaves one unbalanced takes it out."""
    sessions: list[Session] = []
    yield sessions
    for session in sessions:
        check_log(session)


class EchoTool:
    """Says back what it is told; ``hold`` keeps a call open until it is set."""

    name = "echo"
    description = "Say it back."
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {"text": {"type": "string"}, "fail": {"type": "boolean"}},
        "required": ["text"],
    }

    def __init__(self) -> None:
        self.seen: list[ToolExecution] = []
        self.started = asyncio.Event()
        self.hold: asyncio.Event | None = None

    def is_concurrency_safe(self, arguments: Mapping[str, Any]) -> bool:
        return False

    async def execute(self, execution: ToolExecution) -> ToolResult:
        self.seen.append(execution)
        self.started.set()
        if self.hold is not None:
            await self.hold.wait()
        if execution.arguments.get("fail"):
            raise RuntimeError("kaboom")
        return ToolResult.of_text(execution.arguments["text"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """A running loop."""

    app: App
    agents: Agents
    sessions: Sessions
    persistence: SessionPersistence
    tools: Tools
    echo: EchoTool
    model: Recorder
    provision: Provision[ModelAdapter]
    """The hold on the model."""
    extensions: Extensions


Open = Callable[..., AbstractAsyncContextManager[Rig]]


class Recorder:
    """A model that answers as another one does, and remembers what it was asked."""

    def __init__(self, model: ModelAdapter) -> None:
        self.model = model
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamChunk]:
        self.requests.append(request)
        async with contextlib.aclosing(self.model.stream(request)) as chunks:
            async for chunk in chunks:
                yield chunk

    @property
    def heard(self) -> list[list[str]]:
        """What each request said: the role and the text of its messages, the system's left out."""
        return [[_line(message) for message in request.messages[1:]] for request in self.requests]


def _line(message: Mapping[str, Any]) -> str:
    told = [block.get("text", f"({block.get('name')})") for block in message["content"]]
    return f"{message['role']}: {' '.join(told)}"


@pytest.fixture
def rig(logs: list[Session]) -> Open:
    """Return ``open(replies, model=…, store=…, system_prompt=…)``: a running loop over a script.

    ``plugins`` are mounted before the agents; ``config`` goes to them.
    """

    @asynccontextmanager
    async def open_rig(
        replies: Sequence[Mapping[str, Any]] = (),
        *,
        model: ModelAdapter | None = None,
        store: LogStore | None = None,
        system_prompt: str = "You test.",
        window_ms: float = 0,
        plugins: Sequence[Plugin[None]] = (turn_end_flush,),
        approval: Approval | None = None,
        **config: Any,
    ) -> AsyncIterator[Rig]:
        scripted = ScriptedModel.from_replies(replies)
        recorder = Recorder(model or scripted)
        async with App() as app:
            sessions, tools, echo = Sessions(), Tools(), EchoTool()
            persistence = SessionPersistence(store or MemoryLogStore(), window_ms=window_ms)
            app.effect(persistence.close)
            sessions.observe(persistence.attach)
            sessions.observe(logs.append)
            tools.register(echo)
            await app.provide(SESSIONS, sessions)
            await app.provide(PERSISTENCE, persistence)
            await app.provide(TOOLS, tools)
            provision = await app.provide(MODEL, recorder)
            if approval is not None:
                await app.provide(APPROVAL, approval)
            for each in plugins:
                await app.plugin(each, None)
            settings = {"route": scripted.route, "system_prompt": system_prompt, **config}
            await app.plugin(agents, AgentsConfig(**settings))
            yield Rig(
                app=app,
                agents=app.require(AGENTS),
                sessions=sessions,
                persistence=persistence,
                tools=tools,
                echo=echo,
                model=recorder,
                provision=provision,
                extensions=app.require(EXTENSIONS),
            )

    return open_rig


@pytest.fixture
def types() -> Callable[[Any], list[str]]:
    """Return a function that gives the event types of a session, in order."""
    return lambda session: [event.type for event in session.events]
