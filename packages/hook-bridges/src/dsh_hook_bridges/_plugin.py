"""The plugin: an extension for each dialect, and the hooks of every session."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dsh_agent import EXTENSIONS, PERSISTENCE
from dsh_bash import BASH
from dsh_context import Context, ServiceKey, plugin

from ._behaviour import behaviour_of
from ._bridge import HookBridge
from ._claude import Claude
from ._codex import Codex
from ._config import HookBridgesConfig
from ._detached import DetachedRuns
from ._dialect import Dialect
from ._engine import HookEngine
from ._library import HookLibrary, cache_path
from ._mirror import TranscriptMirror
from ._notice import Notices
from ._runner import HookRunner
from ._transcripts import Transcripts
from ._values import DialectName

HOOKS: ServiceKey[HookLibrary] = ServiceKey("hooks")
"""Where the hooks of a session can be asked for: ``(await ctx.require(HOOKS).of(agent)).count``."""


@plugin(EXTENSIONS, BASH, name="hook-bridges")
async def hook_bridges(ctx: Context, config: HookBridgesConfig) -> None:
    """Run people's hooks. Mounted before ``agents``, so that it stops after them and hears of the end of each session.

    Provides ``HOOKS``; tells the user with ``HookNotice`` events. Raises ``ValueError`` without an absolute home.
    """
    if not Path(config.home).is_absolute():
        msg = f"hook-bridges: home must be the absolute path of the harness home, not {config.home!r}"
        raise ValueError(msg)
    notices = Notices(ctx.emit)
    detached = DetachedRuns()
    bash = ctx.require(BASH)
    library = HookLibrary(config, bash, notices)
    behaviour = behaviour_of(config.compat)
    folder = cache_path(config.home)
    mirror = TranscriptMirror(folder) if config.mirror else None
    transcripts = Transcripts(lambda: ctx.get(PERSISTENCE), mirror)

    async def drain() -> None:
        await detached.drain(config.drain_s)

    ctx.effect(drain)
    await ctx.provide(HOOKS, library)
    for name in config.dialects:
        dialect = dialect_of(name)
        engine = HookEngine(
            dialect,
            behaviour,
            library=library,
            runner=HookRunner(bash, dialect, is_real=behaviour.is_real, parent_env=config.parent_env),
            transcripts=transcripts,
            detached=detached,
            notices=notices,
            home=config.home,
            texts_folder=folder,
            permission_mode=config.permission_mode,
        )
        bridge = HookBridge(engine, start_wait_s=config.start_wait_s, drain_s=config.drain_s)
        ctx.effect(ctx.require(EXTENSIONS).register(bridge))


_DIALECTS: Final[dict[DialectName, type[Dialect]]] = {"claude-code": Claude, "codex": Codex}


def dialect_of(name: DialectName) -> Dialect:
    """Return how a harness speaks to its hooks."""
    return _DIALECTS[name]()
