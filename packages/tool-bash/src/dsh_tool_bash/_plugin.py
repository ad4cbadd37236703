"""The plugin: one registry, one translation, one tool."""

from __future__ import annotations

from dataclasses import dataclass

from dsh_agent import JOBS, TOOLS
from dsh_bash import BASH
from dsh_context import Context, ServiceKey, plugin

from ._persistence import session_persistence
from ._registry import BashEnvRegistry
from ._tool import BashTool

BASH_ENV: ServiceKey[BashEnvRegistry] = ServiceKey("bash-env")
"""Where plugins register what commands may know: ``ctx.effect(ctx.require(BASH_ENV).register(contributor))``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolBashConfig:
    """How the tool is offered."""

    home: str
    """The harness home, as ``dsh_paths.resolve_dsh_home`` gives it."""
    enable_run_in_background: bool = True


@plugin(TOOLS, BASH, name="tool-bash")
async def tool_bash(ctx: Context, config: ToolBashConfig) -> None:
    """Offer the bash tool and provide the registry of managed variables."""
    registry = BashEnvRegistry(config.home)
    ctx.effect(registry.register_built_in(session_persistence(ctx)))
    await ctx.provide(BASH_ENV, registry)
    tool = BashTool(
        ctx.require(BASH),
        registry,
        jobs=lambda: ctx.get(JOBS),
        enable_run_in_background=config.enable_run_in_background,
    )
    ctx.effect(ctx.require(TOOLS).register(tool))
