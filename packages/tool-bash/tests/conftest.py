"""Sessions, executions and an executor that records, or runs real commands."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dsh_agent import (
    AGENTS,
    JOBS,
    MODEL,
    PERSISTENCE,
    SESSIONS,
    TOOLS,
    Agent,
    Agents,
    AgentsConfig,
    Jobs,
    Lineage,
    ModelRoute,
    ScriptedModel,
    ToolExecution,
    Tools,
    agents,
)
from dsh_agent import (
    jobs as jobs_plugin,
)
from dsh_bash import BASH, BashDelta, BashExecRequest, BashExecSpec, BashOutput, BashRunResult, BashStatus
from dsh_bash_local import LocalBash, LocalBashConfig
from dsh_context import App
from dsh_persistence import SessionPersistence
from dsh_persistence_jsonl import JsonlLogStore
from dsh_session import Session, SessionHeader, Sessions
from dsh_tool_bash import ToolBashConfig, tool_bash

# Test modules cannot import each other under importlib mode; this makes ``waiting`` importable.
sys.path.insert(0, str(Path(__file__).parent))


@dataclass
class RecordedProcess:
    """A background command that ends when the test says so, or when it is killed."""

    status: BashStatus = "running"
    exit_code: int | None = None
    signal: str | None = None
    deltas: list[BashDelta] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self) -> None:
        await self.ended.wait()

    async def wait_gone(self) -> None:
        await self.gone.wait()

    def read_output(self) -> BashDelta:
        return self.deltas.pop(0)

    def kill(self) -> bool:
        was_running = self.status == "running"
        if was_running:
            self.status = "killed"
        self.ended.set()
        self.gone.set()
        return was_running


class RecordingBash:
    """An executor that runs nothing and remembers what it was asked; a test sets what it answers."""

    def __init__(self) -> None:
        self.requests: list[BashExecRequest] = []
        self.ran: list[BashExecSpec] = []
        self.started: list[BashExecSpec] = []
        self.aborted = False
        self.error: Exception | None = None

    def resolve(self, request: BashExecRequest) -> BashExecSpec:
        self.requests.append(request)
        return BashExecSpec(
            command=request.command,
            workdir=request.workdir or "/executor",
            timeout_ms=request.timeout_ms or 1000,
            stdout_max_bytes=request.stdout_max_bytes or 1000,
            grace_ms=request.grace_ms or 1000,
            stdin=request.stdin,
            env=request.env,
            dsh_env=request.dsh_env,
            cancel=request.cancel,
        )

    async def run(self, spec: BashExecSpec) -> BashRunResult:
        if self.error is not None:
            raise self.error
        self.ran.append(spec)
        nothing = BashOutput(text="", truncated=False, spill_path=None, total_bytes=0)
        return BashRunResult(
            exit_code=0,
            signal=None,
            timed_out=False,
            aborted=self.aborted,
            timeout_ms=spec.timeout_ms,
            stdout=nothing,
            stderr=nothing,
            pipes_held=False,
        )

    def start(self, spec: BashExecSpec) -> RecordedProcess:
        if self.error is not None:
            raise self.error
        self.started.append(spec)
        return RecordedProcess()


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    app: App
    agents: Agents
    jobs: Jobs


OpenLoop = Callable[[Sequence[Mapping[str, Any]]], AbstractAsyncContextManager[Loop]]


@pytest.fixture
def open_loop(tmp_path: Path, parent_env: Mapping[str, str]) -> OpenLoop:
    """A loop with jobs; leaving it ends everything in order."""

    @asynccontextmanager
    async def start(replies: Sequence[Mapping[str, Any]]) -> AsyncIterator[Loop]:
        model, sessions = ScriptedModel.from_replies(replies), Sessions()
        async with App() as app:
            persistence = SessionPersistence(JsonlLogStore(tmp_path / "sessions"))
            app.effect(persistence.close)
            sessions.observe(persistence.attach)
            local = LocalBash(LocalBashConfig(cwd=str(tmp_path), grace_ms=400), parent_env=parent_env)
            app.effect(local.close)
            await app.provide(SESSIONS, sessions)
            await app.provide(PERSISTENCE, persistence)
            await app.provide(TOOLS, Tools())
            await app.provide(MODEL, model)
            await app.provide(BASH, local)
            await app.plugin(jobs_plugin, None)
            await app.plugin(tool_bash, ToolBashConfig(home=str(tmp_path / "home")))
            await app.plugin(agents, AgentsConfig(route=model.route))
            yield Loop(app=app, agents=app.require(AGENTS), jobs=app.require(JOBS))

    return start


Call = Callable[..., ToolExecution]


@pytest.fixture
def recording() -> RecordingBash:
    return RecordingBash()


@pytest.fixture
def process() -> RecordedProcess:
    return RecordedProcess()


@pytest.fixture
def parent_env() -> Mapping[str, str]:
    """What commands inherit from: it carries the facts of another harness."""
    return {"PATH": os.environ["PATH"], "DSH_SESSION_ID": "outer", "DSH_STALE_SENTINEL": "stale"}


@pytest.fixture
async def local(tmp_path: Path, parent_env: Mapping[str, str]) -> AsyncIterator[LocalBash]:
    """Real commands."""
    config = LocalBashConfig(cwd=str(tmp_path), grace_ms=400)
    async with LocalBash(config, parent_env=parent_env) as bash:
        yield bash


@pytest.fixture
async def app() -> AsyncIterator[App]:
    async with App() as running:
        yield running


@pytest.fixture
def agent(app: App) -> Callable[..., Agent]:
    """Make an agent over a bare session."""

    def make(session_id: str = "s1", cwd: str | None = None, lineage: Lineage | None = None) -> Agent:
        session = Session(SessionHeader.new(session_id=session_id, cwd=cwd))
        return Agent(app, session, route=ModelRoute(provider="p", model="m"), system_prompt="", lineage=lineage)

    return make


@pytest.fixture
async def jobs(local: LocalBash) -> AsyncIterator[Jobs]:
    """A registry of jobs, closed before the executor is."""
    registry = Jobs()
    yield registry
    await registry.close()


@pytest.fixture
def call() -> Call:
    """Make an execution of bash: ``call("ls", agent=…, workdir=…)``."""

    def make(command: str = "true", *, agent: Agent | None = None, **arguments: Any) -> ToolExecution:
        given: Mapping[str, Any] = {"command": command, "description": "test", **arguments}
        return ToolExecution(call_id="c1", name="bash", arguments=given, agent=agent)

    return make
