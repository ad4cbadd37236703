"""The skill tool: the instructions of one skill."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from dsh_agent import ToolError, ToolExecution, ToolResult

from ._document import is_skill_name
from ._local import LocalSkills
from ._render import skill_text, skill_value
from .errors import SkillsLocalError

_MAX_ECHO = 64


class SkillTool:
    """Loads a skill for a model, as it stands on disk at the time of the call. Implements ``dsh_agent.Tool``."""

    name = "skill"
    description = (
        "Loads the instructions of a skill: what to do for one kind of task, and which files lie beside it. Call it "
        "with a name from the list of available skills before you begin a task that the skill is for."
    )
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "The exact name of an available skill."}},
        "required": ["name"],
    }

    def __init__(self, skills: LocalSkills) -> None:
        self._skills = skills

    def is_concurrency_safe(self, arguments: Mapping[str, Any]) -> bool:  # noqa: ARG002 - the seam's signature
        """Answer yes: it only reads."""
        return True

    async def execute(self, execution: ToolExecution) -> ToolResult:
        """Read the skill. Raises ``ToolError`` for a name that is none, and for a skill that cannot be used."""
        name: str = execution.arguments["name"]
        if not is_skill_name(name):
            wanted = "a skill's name is lower-case words joined by hyphens; use one from the list of available skills"
            raise ToolError(f'invalid skill name "{name[:_MAX_ECHO]}"; {wanted}')
        cwd = None if execution.agent is None else execution.agent.session.header.cwd
        try:
            loaded = await asyncio.to_thread(self._skills.load, name, cwd)
        except SkillsLocalError as error:
            raise ToolError(str(error)) from error
        if not loaded.skill.for_model:
            advice = "only the user may ask for it, with its text"
            raise ToolError(f'skill "{name}" is not available for model invocation; {advice}')
        return ToolResult.of_text(skill_text(loaded), value=skill_value(loaded))
