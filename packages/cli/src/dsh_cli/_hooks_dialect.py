"""Whose configuration a file is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from dsh_hook_bridges import DialectName, HookFile, read_hook_file

_FOLDERS: Final[dict[str, DialectName]] = {".claude": "claude-code", ".codex": "codex"}
_WORDS: Final[dict[DialectName, tuple[str, ...]]] = {"claude-code": ("CLAUDE_",), "codex": ("apply_patch",)}
"""What commands and matchers of one dialect say, and those of the other do not."""


class Read(NamedTuple):
    """A file, and why it counts as one of its dialect."""

    file: HookFile
    reason: str


def read_file(path: str, dialect: DialectName | None) -> Read:
    """Return what a file says, in the dialect that is given or else in its own. Raises ``OSError``."""
    place = Path(os.path.abspath(path))  # noqa: PTH100  # resolve() would follow links
    if dialect is not None:
        return _read(place, dialect, "as told")
    for folder in reversed(place.parent.parts):
        if folder in _FOLDERS:
            return _read(place, _FOLDERS[folder], f"as it lies in {folder}")
    if place.suffix == ".toml":
        return _read(place, "codex", "as it is TOML")
    if place.name.startswith("settings"):
        return _read(place, "claude-code", f"as its name is {place.name}")
    return _by_content(place)


def _by_content(place: Path) -> Read:
    claude = _read(place, "claude-code", "")
    codex = _read(place, "codex", "")
    first, second = (codex, claude) if place.name == "hooks.json" else (claude, codex)
    wrong, other = len(first.file.problems), len(second.file.problems)
    if wrong != other:
        better = first if wrong < other else second
        return better._replace(reason="as more of it is right that way")
    for each in (first, second):
        for word in _WORDS[each.file.dialect]:
            if any(word in f"{handler.matcher} {handler.command}" for handler in each.file.handlers):
                return each._replace(reason=f"as it says {word}")
    return first._replace(reason="as nothing in it tells; --dialect does")


def _read(place: Path, dialect: DialectName, reason: str) -> Read:
    place.open("rb").close()  # else that it may not be read would be one problem of the file among others
    file = read_hook_file(str(place), dialect=dialect, layer="user")
    if file is None:  # removed since
        raise FileNotFoundError(place)
    return Read(file, reason)
