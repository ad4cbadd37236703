"""The plugin: one service, one tool, one list for each agent."""

from __future__ import annotations

from dataclasses import dataclass

from dsh_agent import EXTENSIONS, TOOLS
from dsh_context import Context, ServiceKey, plugin
from dsh_paths import resolve_dsh_home

from ._catalog_extension import CatalogExtension
from ._local import LocalSkills
from ._tool import SkillTool

SKILLS: ServiceKey[LocalSkills] = ServiceKey("skills")
"""Where the skills of a session can be asked for: ``ctx.require(SKILLS).catalog(cwd)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillsLocalConfig:
    """Where skills are looked for, beside the project."""

    dsh_home: str | None = None
    """None: ``$DSH_HOME`` unless blank, then ``~/.dsh``. Resolved once, when the plugin starts."""


@plugin(TOOLS, name="skills-local")
async def skills_local(ctx: Context, config: SkillsLocalConfig | None) -> None:
    """Provide ``SKILLS``, offer the skill tool, and tell every agent which skills there are.

    None is the default configuration. Raises ``DshPathsError`` for a home that is none.
    """
    skills = LocalSkills(resolve_dsh_home(None if config is None else config.dsh_home))
    await ctx.provide(SKILLS, skills)
    ctx.effect(ctx.require(TOOLS).register(SkillTool(skills)))
    await ctx.plugin(_catalog, skills)


@plugin(EXTENSIONS, name="skill-catalog")
async def _catalog(ctx: Context, skills: LocalSkills) -> None:
    """Tell every agent, as soon as there can be agents."""
    ctx.effect(ctx.require(EXTENSIONS).register(CatalogExtension(skills)))
