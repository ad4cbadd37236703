"""A small harness for the loop: a real session store, a real (memory) log store, a scripted model, tools of ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from dsh_agent import (
    AGENTS,
    MODEL,
    PERSISTENCE,
    SESSIONS,
    TOOLS,
    Agents,
    AgentsConfig,
    ModelAdapter,
    ScriptedModel,
    ToolExecution,
    ToolResult,
    Tools,
    agents,
    turn_end_flush,
)
from dsh_context import App
from dsh_persistence import LogStore, MemoryLogStore, SessionPersistence
from dsh_session import Sessions


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
    app: App
    agents: Agents
    sessions: Sessions
    persistence: SessionPersistence
    tools: Tools
    echo: EchoTool


Open = Callable[..., AbstractAsyncContextManager[Rig]]


@pytest.fixture
def rig() -> Open:
    """Return ``open(replies, model=…, store=…, system_prompt=…)``: a running loop over a script."""

    @asynccontextmanager
    async def open_rig(
        replies: Sequence[Mapping[str, Any]] = (),
        *,
        model: ModelAdapter | None = None,
        store: LogStore | None = None,
        system_prompt: str = "You test.",
        window_ms: float = 0,
    ) -> AsyncIterator[Rig]:
        scripted = ScriptedModel.from_replies(replies)
        async with App() as app:
            sessions, tools, echo = Sessions(), Tools(), EchoTool()
            persistence = SessionPersistence(store or MemoryLogStore(), window_ms=window_ms)
            app.effect(persistence.close)
            sessions.observe(persistence.attach)
            tools.register(echo)
            await app.provide(SESSIONS, sessions)
            await app.provide(PERSISTENCE, persistence)
            await app.provide(TOOLS, tools)
            await app.provide(MODEL, model or scripted)
            await app.plugin(turn_end_flush, None)
            await app.plugin(agents, AgentsConfig(route=scripted.route, system_prompt=system_prompt))
            yield Rig(
                app=app,
                agents=app.require(AGENTS),
                sessions=sessions,
                persistence=persistence,
                tools=tools,
                echo=echo,
            )

    return open_rig


@pytest.fixture
def types() -> Callable[[Any], list[str]]:
    """Return a function that gives the event types of a session, in order."""
    return lambda session: [event.type for event in session.events]
