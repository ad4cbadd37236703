"""Sessions, executions and an executor that records, or runs real commands."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dsh_agent import Agent, Jobs, Lineage, ModelRoute, ToolExecution
from dsh_bash import BashDelta, BashExecRequest, BashExecSpec, BashOutput, BashRunResult, BashStatus
from dsh_bash_local import LocalBash, LocalBashConfig
from dsh_context import App
from dsh_session import Session, SessionHeader


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


Call = Callable[..., ToolExecution]


@pytest.fixture
def recording() -> RecordingBash:
    return RecordingBash()


@pytest.fixture
def process() -> RecordedProcess:
    return RecordedProcess()


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[LocalBash]:
    """Real commands, whose parent environment carries the facts of another harness."""
    parent = {"PATH": os.environ["PATH"], "DSH_SESSION_ID": "outer", "DSH_STALE_SENTINEL": "stale"}
    config = LocalBashConfig(cwd=str(tmp_path), grace_ms=400)
    async with LocalBash(config, parent_env=parent) as bash:
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
