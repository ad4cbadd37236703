"""From the bytes of a SKILL.md to its fields and its text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import yaml

from .errors import SkillInvalid

MAX_DESCRIPTION = 1024
"""Characters of a description, as the Agent Skills format limits it."""

_MAX_NAME = 64
_MAX_HEADER = 16_384
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FENCE = "---"
_DISABLED = "disable-model-invocation"
_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A SKILL.md, read."""

    name: str
    description: str
    for_model: bool
    content: str


def is_skill_name(name: str) -> bool:
    """Tell whether ``name`` is lower-case words joined by hyphens, at most 64 characters."""
    return len(name) <= _MAX_NAME and _NAME.fullmatch(name) is not None


def parse_document(data: bytes, path: str) -> Document:
    """Return what ``data`` says; unknown fields mean nothing. Raises ``SkillInvalid``, which names ``path``."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SkillInvalid(path, f"is no UTF-8 text at byte {error.start}; save it as UTF-8") from error
    header, content = _split(text, path)
    fields = _fields(header, path)
    name, description = (_text(fields, key, path) for key in ("name", "description"))
    if not is_skill_name(name):
        wanted = f"lower-case letters and digits joined by single hyphens, at most {_MAX_NAME} characters"
        raise SkillInvalid(path, f"has the name {name[:_MAX_NAME]!r}; a name is {wanted}")
    if len(description) > MAX_DESCRIPTION:
        limit = f"{len(description)} characters, and {MAX_DESCRIPTION} are allowed"
        raise SkillInvalid(path, f"has a description of {limit}; move what is instruction below the frontmatter")
    for_model = not _flag(fields, path)
    return Document(name=name, description=description, for_model=for_model, content=content.strip())


def _split(text: str, path: str) -> tuple[str, str]:
    """Return the frontmatter and what follows it."""
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        raise SkillInvalid(path, f"does not begin with frontmatter; put a line {_FENCE!r} first")
    size = 0
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() == _FENCE:
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :])
        size += len(line) + 1
        if size > _MAX_HEADER:
            raise SkillInvalid(path, f"has frontmatter of more than {_MAX_HEADER} characters; shorten it or close it")
    raise SkillInvalid(path, f"has frontmatter that does not end; put a line {_FENCE!r} after it")


def _fields(header: str, path: str) -> Mapping[str, object]:
    try:
        # The base loader makes text, lists and mappings and nothing else: no dates and numbers that may be out of
        # range, and no merge keys, of which a few lines grow beyond all memory before PyYAML 6.0.4.
        fields: Any = yaml.load(header, Loader=yaml.BaseLoader)  # noqa: S506  # it does less than the safe one
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f" (line {error.problem_mark.line + 2})"
        advice = "put a text that holds a colon or a # in quotes"
        raise SkillInvalid(path, f"has frontmatter that is no YAML: {error.problem}{line}; {advice}") from error
    except yaml.YAMLError as error:
        raise SkillInvalid(path, "has frontmatter with characters that YAML forbids; remove them") from error
    except RecursionError as error:
        raise SkillInvalid(path, "has frontmatter that is nested too deeply; make it flat") from error
    if not isinstance(fields, dict):
        raise SkillInvalid(path, "has frontmatter that is no list of fields; write 'name: …' and 'description: …'")
    return cast("dict[str, object]", fields)


def _text(fields: Mapping[str, object], key: str, path: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value.strip():
        raise SkillInvalid(path, f"has no {key}; add '{key}: …' to the frontmatter")
    return value.strip()


def _flag(fields: Mapping[str, object], path: str) -> bool:
    """Return whether the model is kept from the skill. What cannot be understood is refused: it may mean that."""
    if "disableModelInvocation" in fields:
        raise SkillInvalid(path, f"has a field 'disableModelInvocation'; spell it '{_DISABLED}'")
    value = fields.get(_DISABLED, "false")
    flag = _BOOLEANS.get(value.lower()) if isinstance(value, str) else None
    if flag is None:
        raise SkillInvalid(path, f"has a field '{_DISABLED}' that is neither true nor false; write one of them")
    return flag
