"""The plugins that put implementations behind the seams; nobody else does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from dsh_agent import MODEL, PERSISTENCE, SESSIONS, TOOLS, ModelAdapter, Tools
from dsh_bash import BASH
from dsh_bash_local import LocalBash, LocalBashConfig
from dsh_context import Context, plugin
from dsh_persistence import LogStore, SessionCorrupt, SessionNotFound, SessionPersistence
from dsh_persistence_jsonl import Encoding
from dsh_session import Sessions

from ._open_store import open_store


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistenceConfig:
    """Where logs lie and how long they wait."""

    root: str = field(repr=False)
    """A folder of JSONL logs, a SQLite database, or a database URL, which may hold a password; see ``open_store``."""
    encoding: Encoding | None = None
    """Of JSONL logs; None: what the folder holds, zstd when it holds nothing."""
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


@plugin(SESSIONS, name="persistence")
async def persistence(ctx: Context, config: PersistenceConfig) -> None:
    """Provide ``PERSISTENCE`` over the configured store and follow every live session, those included that exist.

    Raises ``StoreUnusable`` for a place that cannot be used, and ``OSError`` for a database that is out of reach.
    """
    live = ctx.require(SESSIONS)
    store = open_store(config.root, encoding=config.encoding)
    service = SessionPersistence(store, window_ms=config.window_ms)
    ctx.effect(service.close)
    await asyncio.to_thread(_require_usable, store)
    for session in live:
        service.attach(session)
    ctx.effect(live.observe(service.attach))
    await ctx.provide(PERSISTENCE, service)


def _require_usable(store: LogStore) -> None:
    """Ask for what cannot be there: a database that is none says so now, and not when the first turn is written.

    Damage of one session, which may show here, is no reason to refuse the others.
    """
    with contextlib.suppress(SessionNotFound, SessionCorrupt):
        store.read("")


@plugin(name="bash-local")
async def local_bash(ctx: Context, config: LocalBashPluginConfig) -> None:
    """Provide ``BASH`` on this machine."""
    bash = LocalBash(config.limits, parent_env=config.parent_env)
    ctx.effect(bash.close)
    await ctx.provide(BASH, bash)
