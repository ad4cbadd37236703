"""What a model reads of skills. The tags and the form of the entries are ``dsh``'s own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ._skill import LoadedSkill, Skill

_SPACE = re.compile(r"\s+")
_DESCRIPTION_LIMITS = (500, 200, 80)
_MAX_ENTRIES_SIZE = 24_000

_USE = (
    "When the user names a skill, or a task is what a skill is for, call the `skill` tool with its exact name before "
    "anything else, and follow the instructions that it returns. The lines above only say what each skill is for."
)
_FIRST = "A skill is a set of instructions for one kind of task. These are available in this session:"
_CHANGED = "The skills of this session have changed. This list takes the place of the earlier one:"
_NONE_LEFT = "The skills of this session have changed: none is available any more, and no earlier name can be used."


def catalog_entries(skills: Sequence[Skill]) -> list[dict[str, str]]:
    """Return the name and the shortened description of each skill for a model, bounded altogether, as ``dsh`` does.

    With many skills the descriptions become shorter first; only when that is not enough, the last ones are left out.
    """
    shown = [skill for skill in skills if skill.for_model]
    entries: list[dict[str, str]] = []
    for limit in _DESCRIPTION_LIMITS:
        entries = [{"name": skill.name, "description": _short(skill.description, limit)} for skill in shown]
        if sum(map(_size, entries)) <= _MAX_ENTRIES_SIZE:
            return entries
    while sum(map(_size, entries)) > _MAX_ENTRIES_SIZE:
        entries.pop()
    return entries


def catalog_text(entries: Sequence[Mapping[str, str]], *, is_update: bool = False) -> str:
    """Return the section that tells a model which skills there are; empty when there are none and never were."""
    if not entries:
        return _reminder([_NONE_LEFT]) if is_update else ""
    lines = [f"- `{entry['name']}`: {_escaped(entry['description'])}" for entry in entries]
    listed = ["<available_skills>", *lines, "</available_skills>"]
    return _reminder([_CHANGED if is_update else _FIRST, "", *listed, "", _USE])


def skill_text(loaded: LoadedSkill) -> str:
    """Return what the ``skill`` tool answers: the instructions, where they lie, and what lies beside them."""
    lines = [f"Base directory for this skill: {_shown(loaded.skill.folder)}", "Its relative paths begin there."]
    if loaded.files:
        lines += ["Files beside it, to be read when the instructions call for them:"]
        lines += [f"- {_shown(file)}" for file in loaded.files]
    if loaded.has_more_files:
        lines += ["- … and more; list the folder to see them"]
    return "\n".join(
        [
            f'<skill_content name="{loaded.skill.name}">',
            "<skill_resources>",
            *map(_escaped, lines),
            "</skill_resources>",
            "",
            "<skill_instructions>",
            loaded.content,
            "</skill_instructions>",
            "</skill_content>",
        ]
    )


def skill_value(loaded: LoadedSkill) -> Mapping[str, Any]:
    """Return the same for code, in the form that ``dsh`` gives it."""
    base = {"kind": "directory", "path": loaded.skill.folder}
    return {"name": loaded.skill.name, "provider": "local", "resourceBase": base, "content": loaded.content}


def _reminder(lines: Sequence[str]) -> str:
    return "\n".join(["<system-reminder>", *lines, "</system-reminder>"])


def _short(description: str, limit: int) -> str:
    one_line = _SPACE.sub(" ", description).strip()
    return one_line if len(one_line) <= limit else one_line[: limit - 3] + "..."


def _size(entry: Mapping[str, str]) -> int:
    return len(entry["name"]) + len(_escaped(entry["description"])) + len("- ``: \n")


def _escaped(text: str) -> str:
    """Keep a text from closing the element it stands in."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _shown(path: str) -> str:
    """Return a path that stays on its line, whatever its bytes are."""
    return path if path.isprintable() else json.dumps(path)
