"""From one configuration to a running harness."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from dsh_agent import (
    AGENTS,
    PERSISTENCE,
    SESSIONS,
    Agents,
    AgentsConfig,
    JobsConfig,
    ModelAdapter,
    ModelRoute,
    agents,
    checkpoints,
    jobs,
    turn_end_flush,
)
from dsh_bash_local import LocalBashConfig
from dsh_context import App, Context
from dsh_hook_bridges import HookBridgesConfig, hook_bridges
from dsh_persistence import SessionPersistence
from dsh_persistence_jsonl import Encoding
from dsh_session import Sessions
from dsh_skills_local import SkillsLocalConfig, skills_local
from dsh_tool_bash import ToolBashConfig, tool_bash
from dsh_tool_files import tool_files

from ._home import one_home
from ._plugins import (
    LocalBashPluginConfig,
    PersistenceConfig,
    local_bash,
    model,
    persistence,
    sessions,
    tools,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillsConfig:
    """Where skills come from."""

    local: SkillsLocalConfig = field(default_factory=SkillsLocalConfig)
    """Folders of the home and the project. Its ``dsh_home`` is the harness's, whichever of the two is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessConfig:
    """Everything a harness is made from; nothing else is read, the home's default excepted."""

    model: ModelAdapter
    route: ModelRoute
    dsh_home: str | None = None
    """None: that of ``skills.local``, then ``$DSH_HOME`` unless blank, then ``~/.dsh``. Resolved once, when the harness
    is composed."""
    sessions_root: str | None = field(default=None, repr=False)
    """A folder of JSONL logs, a SQLite database, or a database URL (see ``open_store``); None: ``sessions`` below the
    home."""
    encoding: Encoding | None = None
    """Of JSONL logs; None: what the folder holds, zstd when it holds nothing."""
    window_ms: float = 0
    """How long the first event of a batch waits for company; 0 writes at once."""
    checkpoints: Literal["step", "turn"] = "step"
    """When the log must be durable before anything goes on: also before each step, request and call, or only after each
    turn, so that a crash takes what it likes of the turn that runs."""
    system_prompt: str = ""
    bash: LocalBashConfig = field(default_factory=LocalBashConfig)
    parent_env: Mapping[str, str] | None = field(default=None, repr=False)
    """What shell children inherit from, after the scrub; None is this process's environment."""
    jobs: JobsConfig = field(default_factory=JobsConfig)
    """How an agent learns that a background job of its has ended."""
    skills: SkillsConfig | None = field(default_factory=SkillsConfig)
    """None: no skills, no skill tool."""
    hooks: HookBridgesConfig | None = None
    """Whose hooks run; None: nobody's. Its ``home`` and ``parent_env`` are the harness's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Harness:
    """A running harness; ``context`` has every service, the other fields are the ones most callers want."""

    context: Context
    home: str
    """Absolute path of the harness home."""
    sessions: Sessions
    persistence: SessionPersistence
    agents: Agents


@asynccontextmanager
async def harness(config: HarnessConfig) -> AsyncGenerator[Harness, None]:
    """Compose a harness and run it until the block is left.

    Raises ``HomesDiffer`` for two homes and ``DshPathsError`` for one that is none, before anything is mounted, and
    ``StoreUnusable`` for a root that is none; nothing has been made on disk then. Leaving raises an ``ExceptionGroup``
    when events stayed unwritten.
    """
    skills = config.skills
    home = one_home(config.dsh_home, None if skills is None else skills.local.dsh_home)
    root = config.sessions_root or os.path.join(home, "sessions")
    async with App() as app:
        await app.plugin(sessions, None)
        await app.plugin(tools, None)
        await app.plugin(model, config.model)
        stored = PersistenceConfig(root=root, encoding=config.encoding, window_ms=config.window_ms)
        await app.plugin(persistence, stored)
        await app.plugin(local_bash, LocalBashPluginConfig(limits=config.bash, parent_env=config.parent_env))
        await app.plugin(jobs, config.jobs)
        await app.plugin(tool_bash, ToolBashConfig(home=home))
        await app.plugin(tool_files, None)
        if skills is not None:
            await app.plugin(skills_local, replace(skills.local, dsh_home=home))
        await app.plugin(checkpoints if config.checkpoints == "step" else turn_end_flush, None)
        if config.hooks is not None:
            bridged = replace(config.hooks, home=home, parent_env=config.parent_env)
            await app.plugin(hook_bridges, bridged)
        await app.plugin(agents, AgentsConfig(route=config.route, system_prompt=config.system_prompt))
        yield Harness(
            context=app,
            home=home,
            sessions=app.require(SESSIONS),
            persistence=app.require(PERSISTENCE),
            agents=app.require(AGENTS),
        )
