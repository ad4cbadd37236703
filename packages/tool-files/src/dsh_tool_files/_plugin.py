"""The plugin: five tools."""

from __future__ import annotations

from dataclasses import dataclass

from dsh_agent import TOOLS
from dsh_context import Context, plugin

from ._edit import EDIT
from ._glob import GLOB
from ._grep import grep_tool
from ._read import READ
from ._tool import FileTool
from ._write import WRITE


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFilesConfig:
    """How the tools work."""

    grep_limit_s: float = 20
    """Seconds a search may take; a pattern that would take for ever is ended then."""


def file_tools(config: ToolFilesConfig | None = None) -> tuple[FileTool, ...]:
    """Return the tools. None is the default configuration."""
    config = config or ToolFilesConfig()
    return (READ, WRITE, EDIT, GLOB, grep_tool(config.grep_limit_s))


@plugin(TOOLS, name="tool-files")
async def tool_files(ctx: Context, config: ToolFilesConfig | None) -> None:
    """Offer the tools. None is the default configuration."""
    tools = ctx.require(TOOLS)
    for tool in file_tools(config):
        ctx.effect(tools.register(tool))
