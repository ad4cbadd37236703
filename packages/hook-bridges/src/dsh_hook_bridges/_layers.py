"""Which files configure the hooks of a session, and what they say together."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ._parse import parse_hooks
from ._regular import read_regular
from ._trust import TrustState, TrustStore, fingerprint
from ._values import DialectName, Handler, HookFile, HookPoint, HookProblem, Layer
from .errors import TrustUnreadable

FileState: TypeAlias = Literal["active", "untrusted", "changed", "disabled"]
"""``untrusted`` and ``changed``: the project was never trusted, or says something else since; its hooks do not run.
``disabled``: one of the files turns all hooks of its dialect off."""

_FILES: Mapping[DialectName, Sequence[tuple[Layer, str]]] = {
    "claude-code": (
        ("user", ".claude/settings.json"),
        ("project", ".claude/settings.json"),
        ("local", ".claude/settings.local.json"),
    ),
    "codex": (
        ("user", ".codex/hooks.json"),
        ("user", ".codex/config.toml"),
        ("project", ".codex/hooks.json"),
        ("project", ".codex/config.toml"),
    ),
}
"""What may configure hooks, below the user's folder or the project, in the order in which hooks run."""

DIALECTS: tuple[DialectName, ...] = ("claude-code", "codex")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A configuration file, and whether its hooks run."""

    file: HookFile
    state: FileState


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSet:
    """All the hooks of one project, those of its user first."""

    project: str
    """Absolute path of the folder that they are for."""
    files: tuple[FoundFile, ...]
    """Those that exist, in the order in which their hooks run."""
    fingerprint: str
    """What trusting the project means at this moment."""
    trust_problem: str | None = None
    """Why it cannot be told whether the project is trusted."""

    def handlers(self, dialect: DialectName, point: HookPoint) -> Iterator[Handler]:
        """Yield those that run at a point, in order."""
        for found in self.files:
            if found.state == "active" and found.file.dialect == dialect:
                yield from (handler for handler in found.file.handlers if handler.point == point)

    @property
    def problems(self) -> Sequence[HookProblem]:
        """What is wrong with the files."""
        return [problem for found in self.files for problem in found.file.problems]

    @property
    def count(self) -> int:
        """How many hooks run."""
        return sum(len(found.file.handlers) for found in self.files if found.state == "active")


def load_hooks(
    project: str, *, user_home: str | None, trust: TrustStore, dialects: Sequence[DialectName] = DIALECTS
) -> HookSet:
    """Return the hooks of a project as its files say now. Without a ``user_home`` there is no user's layer.

    Never raises for what a file holds, nor for one that cannot be read: that is a problem of the file. Where it cannot
    be told what is trusted, nothing is.
    """
    files = [file for dialect in DIALECTS for file in _files(dialect, project, user_home)]
    off = {key for file in files if file.layer == "user" for key in file.switched_off}
    foreign = [file for file in files if file.layer != "user"]
    print_ = fingerprint(project, foreign)
    trusted, problem = _trust_of(trust, project, print_) if foreign else ("trusted", None)
    state: FileState = "active" if trusted == "trusted" else trusted
    found = [FoundFile(file=_without(file, off), state="active" if file.layer == "user" else state) for file in files]
    return HookSet(
        project=project,
        files=tuple(each for each in _switched(found) if each.file.dialect in dialects),
        fingerprint=print_,
        trust_problem=problem,
    )


def _trust_of(trust: TrustStore, project: str, print_: str) -> tuple[TrustState, str | None]:
    try:
        return trust.state_of(project, print_), None
    except TrustUnreadable as error:
        return "untrusted", str(error)


def read_hook_file(path: str, *, dialect: DialectName, layer: Layer) -> HookFile | None:
    """Return what one file says, None where there is none; one that cannot be read has a problem."""
    try:
        # A link is followed: people keep their settings elsewhere, and a project's are trusted by content.
        data = read_regular(path, follows=True)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        problem = HookProblem(path=path, place="", message=f"it cannot be read: {error.strerror or error}")
        return HookFile(dialect=dialect, layer=layer, path=path, problems=(problem,))
    return parse_hooks(data, dialect=dialect, layer=layer, path=path)


def _files(dialect: DialectName, project: str, user_home: str | None) -> Iterator[HookFile]:
    for layer, name in _FILES[dialect]:
        base = user_home if layer == "user" else project
        if base is None or (layer != "user" and user_home and os.path.realpath(base) == os.path.realpath(user_home)):
            continue  # who works in the home folder has its files once, as the user's own
        file = read_hook_file(os.path.join(base, name), dialect=dialect, layer=layer)
        if file is not None:
            yield file


def _without(file: HookFile, off: Collection[str]) -> HookFile:
    """Leave out the hooks that the user has switched off one by one, which Codex names by their place."""
    kept = tuple(handler for handler in file.handlers if _state_key(handler) not in off)
    return file if len(kept) == len(file.handlers) else replace(file, handlers=kept)


def _state_key(handler: Handler) -> str:
    group, index = re.findall(r"\[(\d+)\]", handler.place)[-2:]
    event = re.sub(r"(?<!^)(?=[A-Z])", "_", handler.point).lower()
    return f"{handler.path}:{event}:{group}:{index}"


def _switched(found: Sequence[FoundFile]) -> Iterator[FoundFile]:
    """Let the last file that may speak for a dialect decide whether its hooks run at all."""
    off: dict[DialectName, bool] = {}
    for each in found:
        if each.state == "active" and each.file.disables_all is not None:
            off[each.file.dialect] = each.file.disables_all
    for each in found:
        is_off = each.state == "active" and off.get(each.file.dialect, False)
        yield FoundFile(file=each.file, state="disabled") if is_off else each
