"""The skills that lie on this machine."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from pathlib import Path

from ._document import parse_document
from ._folders import MAX_SKILLS, files_beside, list_folders, read_skill_file, resolve_inside
from ._roots import SkillRoot, skill_roots
from ._skill import LoadedSkill, Skill, SkillCatalog, SkillProblem
from .errors import SkillInvalid, SkillUnknown

_Found = tuple[Skill, str]


class LocalSkills:
    """Finds skills below the harness home and the project of a session.

    Every call reads the disk anew and blocks while it does; any thread may call. ``home`` is the harness home, as
    ``dsh_paths.resolve_dsh_home`` gives it, and a ``cwd`` is a session's working directory, or None.
    """

    def __init__(self, home: str) -> None:
        self.home = home

    def catalog(self, cwd: str | None) -> SkillCatalog:
        """Return what is there. A project's skill hides one of the home by its name; nothing that is broken raises."""
        skills: dict[str, Skill] = {}
        problems: list[SkillProblem] = []
        for found in self._scan(cwd):
            if isinstance(found, SkillProblem):
                problems.append(found)
            else:
                skills.setdefault(found[0].name, found[0])
        return SkillCatalog(skills=tuple(skills[name] for name in sorted(skills)), problems=tuple(problems))

    def load(self, name: str, cwd: str | None) -> LoadedSkill:
        """Return the skill of that name with its present text.

        Raises ``SkillUnknown``, and ``SkillInvalid`` when a folder of that name is there and cannot be used.
        """
        names: list[str] = []
        broken: SkillProblem | None = None
        for found in self._scan(cwd):
            if isinstance(found, SkillProblem):
                broken = found if broken is None and name in _names_at(found.path) else broken
            elif found[0].name == name:
                files, has_more_files = files_beside(found[0].folder)
                return LoadedSkill(skill=found[0], content=found[1], files=files, has_more_files=has_more_files)
            elif found[0].for_model:
                names.append(found[0].name)
        if broken is not None:
            raise SkillInvalid(broken.path, broken.reason)
        raise SkillUnknown(name, difflib.get_close_matches(name, sorted(set(names))))

    def _scan(self, cwd: str | None) -> Iterator[_Found | SkillProblem]:
        """Yield every skill with its text, the roots that win first, and every problem where it is met."""
        for root in skill_roots(self.home, cwd):
            try:
                real = resolve_inside(root.path, root.boundary)
                folders, is_cut = list_folders(real)
            except FileNotFoundError:
                continue
            except OSError as error:
                reason = f"cannot be listed: {error.strerror}; make it a folder you may read"
                yield SkillProblem(path=root.path, reason=reason)
                continue
            except SkillInvalid as error:
                yield SkillProblem(path=error.path, reason=error.reason)
                continue
            yield from _read_root(root, folders)
            if is_cut:
                reason = f"holds more than {MAX_SKILLS} folders, and the rest is not looked at; keep fewer there"
                yield SkillProblem(path=root.path, reason=reason)


def _read_root(root: SkillRoot, folders: list[str]) -> Iterator[_Found | SkillProblem]:
    seen: dict[str, str] = {}
    for folder in folders:
        try:
            skill, content = _read_skill(root, os.path.join(root.path, folder))
        except SkillInvalid as error:
            yield SkillProblem(path=error.path, reason=error.reason)
            continue
        other = seen.setdefault(skill.name, skill.path)
        if other != skill.path:
            reason = f"has the name {skill.name!r}, which {other} has as well; rename one"
            yield SkillProblem(path=skill.path, reason=reason)
            continue
        yield skill, content


def _read_skill(root: SkillRoot, folder: str) -> _Found:
    path, data = read_skill_file(folder, root.boundary)
    document = parse_document(data, path)
    skill = Skill(
        name=document.name,
        description=document.description,
        path=path,
        source=root.source,
        for_model=document.for_model,
    )
    return skill, document.content


def _names_at(path: str) -> tuple[str, str]:
    """Return the names under which a broken folder may be asked for, given the folder or its SKILL.md."""
    return Path(path).name, Path(path).parent.name
