"""Homes and projects with skills in them, and a loop over a scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dsh_agent import (
    AGENTS,
    MODEL,
    SESSIONS,
    TOOLS,
    Agents,
    AgentsConfig,
    ModelRequest,
    ScriptedModel,
    Tools,
    agents,
)
from dsh_context import App, Fiber
from dsh_session import Sessions, StreamChunk
from dsh_skills_local import LocalSkills, SkillsLocalConfig, skills_local

Write = Callable[..., Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A harness home, and a project that is a repository."""

    home: Path
    project: Path
    skills: LocalSkills

    @property
    def cwd(self) -> str:
        return str(self.project)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    (project / ".git").mkdir(parents=True)
    return Place(home=home, project=project, skills=LocalSkills(str(home)))


@pytest.fixture
def write() -> Write:
    """Return ``write(root, name, text=…, **fields)``: a skill's folder below ``root``."""

    def write_skill(root: Path, name: str, *, text: str = "Do it.", folder: str | None = None, **fields: str) -> Path:
        path = root / (folder or name)
        path.mkdir(parents=True, exist_ok=True)
        fields = {"name": name, "description": f"For {name}.", **fields}
        header = "".join(f"{key.replace('_', '-')}: {value}\n" for key, value in fields.items())
        (path / "SKILL.md").write_text(f"---\n{header}---\n\n{text}\n")
        return path

    return write_skill


class Recorder:
    """A scripted model that remembers what it was asked."""

    def __init__(self, replies: Sequence[Mapping[str, Any]]) -> None:
        self._scripted = ScriptedModel.from_replies(replies)
        self.requests: list[ModelRequest] = []

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamChunk]:
        self.requests.append(request)
        return self._scripted.stream(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    app: App
    agents: Agents
    model: Recorder
    fiber: Fiber


Open = Callable[..., AbstractAsyncContextManager[Rig]]


@pytest.fixture
def rig(place: Place) -> Open:
    """Return ``open(replies)``: a loop whose agents are told of the skills of ``place``."""

    @asynccontextmanager
    async def open_rig(replies: Sequence[Mapping[str, Any]] = ()) -> AsyncIterator[Rig]:
        model = Recorder(replies)
        async with App() as app:
            await app.provide(SESSIONS, Sessions())
            await app.provide(TOOLS, Tools())
            await app.provide(MODEL, model)
            fiber = await app.plugin(skills_local, SkillsLocalConfig(dsh_home=str(place.home)))
            await app.plugin(agents, AgentsConfig(route=ScriptedModel.route))
            yield Rig(app=app, agents=app.require(AGENTS), model=model, fiber=fiber)

    return open_rig
