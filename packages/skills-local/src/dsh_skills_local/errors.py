"""What can go wrong with skills. What a model did wrong reaches it as ``dsh_agent.ToolError``.

::

    SkillsLocalError
    ├── SkillInvalid    path, reason: a folder that is no usable skill; it is listed, and the others load
    └── SkillUnknown    name, nearest: no skill has that name here
"""

from __future__ import annotations

from collections.abc import Sequence


class SkillsLocalError(Exception):
    """The root of this package's errors."""


class SkillInvalid(SkillsLocalError):
    """A folder cannot be used as a skill."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} {reason}")
        self.path = path
        self.reason = reason
        """What is wrong and what helps, to be read after the path."""


class SkillUnknown(SkillsLocalError):
    """No skill of that name is there, or it has gone since it was listed."""

    def __init__(self, name: str, nearest: Sequence[str]) -> None:
        if nearest:
            advice = f"did you mean {' or '.join(map(repr, nearest))}?"
        else:
            advice = "no name comes near it; use one from the list of available skills"
        super().__init__(f'skill "{name}" is unknown or no longer available; {advice}')
        self.name = name
        self.nearest = tuple(nearest)
