"""What a skill is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

SkillSource = Literal["project-dsh", "project-agents", "user-dsh"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill as a catalog shows it."""

    name: str
    """Lower-case words joined by hyphens, at most 64 characters."""
    description: str
    """What it is for, as it stands in the file; at most 1024 characters."""
    path: str
    """Absolute path of its SKILL.md, links resolved."""
    source: SkillSource
    for_model: bool = True
    """False when the file says ``disable-model-invocation``: then a model neither sees nor loads it."""

    @property
    def folder(self) -> str:
        """What paths in its text are relative to."""
        return str(Path(self.path).parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillProblem:
    """Something that lies where skills are looked for and cannot be used."""

    path: str
    reason: str
    """What is wrong and what helps, to be read after the path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillCatalog:
    """What is there at one moment."""

    skills: tuple[Skill, ...]
    """By name, each name once."""
    problems: tuple[SkillProblem, ...]
    """In the order in which they were met."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSkill:
    """A skill with its text."""

    skill: Skill
    content: str
    """What follows the frontmatter, stripped."""
    files: tuple[str, ...]
    """What lies beside SKILL.md, relative to the folder and sorted; hidden files and links are left out."""
    has_more_files: bool
    """Whether ``files`` was cut."""
