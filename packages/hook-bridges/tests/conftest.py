"""A real executor, a home with hooks in it, and a loop over a scripted model."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dsh_agent import (
    AGENTS,
    APPROVAL,
    MODEL,
    PERSISTENCE,
    SESSIONS,
    TOOLS,
    Agents,
    AgentsConfig,
    ApprovalAnswer,
    ApprovalRequest,
    ScriptedModel,
    ToolExecution,
    ToolResult,
    Tools,
    agents,
)
from dsh_bash import BASH, BashExecRequest, BashRunResult
from dsh_bash_local import LocalBash, LocalBashConfig
from dsh_context import App
from dsh_hook_bridges import DialectName, HookBridgesConfig, HookNotice, TrustStore, hook_bridges, trust_path
from dsh_persistence import SessionPersistence
from dsh_persistence_jsonl import JsonlLogStore
from dsh_session import Sessions

# Test modules cannot import each other under importlib mode; this makes ``hookkit`` importable.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spill files outlive their host on purpose; here they go where the tests' files go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.getbasetemp()))


@pytest.fixture
def parent_env() -> Mapping[str, str]:
    """What commands inherit from; nothing in it is dropped."""
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


@pytest.fixture
async def bash(tmp_path: Path, parent_env: Mapping[str, str]) -> AsyncIterator[LocalBash]:
    async with LocalBash(LocalBashConfig(cwd=str(tmp_path)), parent_env=parent_env) as opened:
        yield opened


@pytest.fixture
def run(bash: LocalBash) -> Callable[..., Awaitable[BashRunResult]]:
    """Return ``run(command, **fields)``: what a command comes to."""

    async def run_command(command: str, **fields: Any) -> BashRunResult:
        return await bash.run(bash.resolve(BashExecRequest(command=command, **fields)))

    return run_command


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A harness home, a user's home folder, and a project that is a repository."""

    home: Path
    user: Path
    project: Path

    @property
    def trust(self) -> TrustStore:
        return TrustStore(trust_path(str(self.home)))

    def write(self, name: str, value: Any) -> Path:
        """Write a file, named from the folder in which all three are; what is no text becomes JSON."""
        path = self.home.parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    def hooks(self, dialect: DialectName, commands: Mapping[str, str], **fields: Any) -> None:
        """Give the user one hook for each of some points."""
        name = {"claude-code": "user/.claude/settings.json", "codex": "user/.codex/hooks.json"}[dialect]
        groups = {
            point: [{"hooks": [{"type": "command", "command": command, **fields}]}]
            for point, command in commands.items()
        }
        self.write(name, {"hooks": groups})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(home=tmp_path / "home", user=tmp_path / "user", project=tmp_path / "project")
    found.home.mkdir()
    found.user.mkdir()
    (found.project / ".git").mkdir(parents=True)
    return found


class FakeTool:
    """A tool by any name, which does nothing and answers as it is told."""

    description = "Do it."
    parameters: Mapping[str, Any] = {"type": "object", "properties": {}, "required": []}

    def __init__(self, name: str, result: ToolResult) -> None:
        self.name = name
        self._result = result
        self.ran: list[Mapping[str, Any]] = []

    def is_concurrency_safe(self, arguments: Mapping[str, Any]) -> bool:
        return False

    async def execute(self, execution: ToolExecution) -> ToolResult:
        self.ran.append(execution.arguments)
        return self._result


class SaysYes:
    """Somebody who allows everything."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        return ApprovalAnswer(is_allowed=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    app: App
    agents: Agents
    tools: Tools
    persistence: SessionPersistence | None
    notices: list[HookNotice]


OpenRig = Callable[..., AbstractAsyncContextManager[Rig]]


@pytest.fixture
def rig(place: Place, bash: LocalBash) -> OpenRig:
    """Return ``open(replies, stored=…, **config)``: a loop with the hooks of ``place``."""

    @asynccontextmanager
    async def open_rig(
        replies: Sequence[Mapping[str, Any]] = (), *, stored: bool = True, **config: Any
    ) -> AsyncIterator[Rig]:
        sessions, tools, notices = Sessions(), Tools(), list[HookNotice]()
        persistence = SessionPersistence(JsonlLogStore(place.home / "sessions")) if stored else None
        async with App() as app:
            app.on(HookNotice, notices.append)
            if persistence is not None:
                app.effect(persistence.close)
                sessions.observe(persistence.attach)
                await app.provide(PERSISTENCE, persistence)
            await app.provide(SESSIONS, sessions)
            await app.provide(TOOLS, tools)
            await app.provide(MODEL, ScriptedModel.from_replies(replies))
            await app.provide(APPROVAL, SaysYes())
            await app.provide(BASH, bash)
            settings = {"home": str(place.home), "user_home": str(place.user), "parent_env": {}, **config}
            await app.plugin(hook_bridges, HookBridgesConfig(**settings))
            await app.plugin(agents, AgentsConfig(route=ScriptedModel.route))
            yield Rig(app=app, agents=app.require(AGENTS), tools=tools, persistence=persistence, notices=notices)

    return open_rig


@pytest.fixture
def tool() -> Callable[[str, ToolResult], FakeTool]:
    return FakeTool
