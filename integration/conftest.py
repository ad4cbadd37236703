"""The real composition, over whatever persistence a test asks for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dsh_agent import (
    AGENTS,
    PERSISTENCE,
    SESSIONS,
    TOOLS,
    Agents,
    AgentsConfig,
    ScriptedModel,
    Tools,
    agents,
    jobs,
    turn_end_flush,
)
from dsh_agent_core import LocalBashPluginConfig, local_bash, model, sessions, tools
from dsh_context import App, Provision
from dsh_persistence import LogStore, SessionPersistence
from dsh_persistence_jsonl import JsonlLogStore
from dsh_tool_bash import ToolBashConfig, tool_bash

LONG_WINDOW_MS = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A running loop."""

    app: App
    agents: Agents
    tools: Tools
    home: str
    persistence: SessionPersistence | None
    provision: Provision[SessionPersistence] | None


@pytest.fixture
def shared() -> Path:
    """Return the folder of shared material, or skip."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("the shared corpus is not beside the project")
    return folder


@pytest.fixture
def open_loop(tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[Loop]]:
    """Return ``open_loop(replies, store=…)``: everything real but the model; only the turn-end flush, a long window.

    ``store`` is a log store, None for the JSONL store below the home, False for no persistence at all.
    """

    @asynccontextmanager
    async def open_it(
        replies: Sequence[Mapping[str, Any]], *, store: LogStore | bool | None = None, system_prompt: str = "Test."
    ) -> AsyncIterator[Loop]:
        home = str(tmp_path / "home")
        scripted = ScriptedModel.from_replies(replies)
        async with App() as app:
            await app.plugin(sessions, None)
            await app.plugin(tools, None)
            await app.plugin(model, scripted)
            persistence, provision = None, None
            if store is not False:
                chosen = JsonlLogStore(f"{home}/sessions") if store in (None, True) else store
                persistence = SessionPersistence(chosen, window_ms=LONG_WINDOW_MS)
                app.effect(persistence.close)
                app.effect(app.require(SESSIONS).observe(persistence.attach))
                provision = await app.provide(PERSISTENCE, persistence)
            await app.plugin(local_bash, LocalBashPluginConfig())
            await app.plugin(jobs, None)
            await app.plugin(tool_bash, ToolBashConfig(home=home))
            await app.plugin(turn_end_flush, None)
            await app.plugin(agents, AgentsConfig(route=scripted.route, system_prompt=system_prompt))
            yield Loop(
                app=app,
                agents=app.require(AGENTS),
                tools=app.require(TOOLS),
                home=home,
                persistence=persistence,
                provision=provision,
            )

    return open_it
