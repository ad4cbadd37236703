"""Where skills are looked for (BEHAVIOUR §1.2)."""

from __future__ import annotations

import os
from dataclasses import dataclass

from dsh_agent import find_project

from ._skill import SkillSource


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillRoot:
    """A folder of skill folders."""

    path: str
    boundary: str
    """What links may not lead out of, its own links resolved."""
    source: SkillSource


def skill_roots(home: str, cwd: str | None) -> list[SkillRoot]:
    """Return the roots of a session in ``cwd``, the one that wins first, each real folder once.

    A project's links stay inside the project. The home is its owner's: its folder of skills may itself be a link to
    anywhere, and the links in it stay inside that.
    """
    roots: list[SkillRoot] = []
    if cwd is not None:
        project = find_project(cwd)
        boundary = os.path.realpath(project)
        roots += [
            SkillRoot(path=os.path.join(project, ".dsh", "skills"), boundary=boundary, source="project-dsh"),
            SkillRoot(path=os.path.join(project, ".agents", "skills"), boundary=boundary, source="project-agents"),
        ]
    user = os.path.join(home, "skills")
    roots.append(SkillRoot(path=user, boundary=os.path.realpath(user), source="user-dsh"))
    by_place: dict[str, SkillRoot] = {}
    for root in roots:
        by_place.setdefault(os.path.realpath(root.path), root)
    return list(by_place.values())
