"""The plugins that put implementations behind the seams; nobody else does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dsh_agent import MODEL, PERSISTENCE, SESSIONS, TOOLS, ModelAdapter, Tools
from dsh_bash import BASH
from dsh_bash_local import LocalBash, LocalBashConfig
from dsh_context import Context, plugin
from dsh_persistence import SessionPersistence
from dsh_persistence_jsonl import Encoding, JsonlLogStore
from dsh_session import Sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonlPersistenceConfig:
    """Where logs lie and how long they wait."""

    root: str
    encoding: Encoding | None = None
    """None: what the root holds, zstd when it holds nothing."""
    window_ms: float = 0
    """How long the first event of a batch waits for company, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalBashPluginConfig:
    """How commands run on this machine."""

    limits: LocalBashConfig = field(default_factory=LocalBashConfig)
    parent_env: Mapping[str, str] | None = field(default=None, repr=False)
    """What children inherit from, after the scrub; None is this process's environment."""


@plugin(name="sessions")
async def sessions(ctx: Context, _config: None) -> None:
    """Provide ``SESSIONS``."""
    await ctx.provide(SESSIONS, Sessions())


@plugin(name="tools")
async def tools(ctx: Context, _config: None) -> None:
    """Provide ``TOOLS``."""
    await ctx.provide(TOOLS, Tools())


@plugin(name="model")
async def model(ctx: Context, adapter: ModelAdapter) -> None:
    """Provide ``MODEL``."""
    await ctx.provide(MODEL, adapter)


@plugin(SESSIONS, name="persistence-jsonl")
async def jsonl_persistence(ctx: Context, config: JsonlPersistenceConfig) -> None:
    """Provide ``PERSISTENCE`` over JSONL files and follow every live session, those included that exist already."""
    live = ctx.require(SESSIONS)
    store = JsonlLogStore(config.root, encoding=config.encoding)
    persistence = SessionPersistence(store, window_ms=config.window_ms)
    ctx.effect(persistence.close)
    for session in live:
        persistence.attach(session)
    ctx.effect(live.observe(persistence.attach))
    await ctx.provide(PERSISTENCE, persistence)


@plugin(name="bash-local")
async def local_bash(ctx: Context, config: LocalBashPluginConfig) -> None:
    """Provide ``BASH`` on this machine."""
    bash = LocalBash(config.limits, parent_env=config.parent_env)
    ctx.effect(bash.close)
    await ctx.provide(BASH, bash)
