"""What hooks are made of: points, handlers, the files they stand in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from ._support import Feature

DialectName: TypeAlias = Literal["claude-code", "codex"]
"""Whose hooks: what a configuration, a payload and an answer look like."""

Layer: TypeAlias = Literal["user", "project", "local"]
"""Whose file: the user's own, one that comes with a project, or one that lies there for this machine alone."""

HookPoint: TypeAlias = Literal[
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "SessionEnd",
    "Notification",
]
"""A moment of the loop at which hooks run, under the name that both dialects have for it."""

OnFailure: TypeAlias = Literal["open", "closed"]
"""Whether a hook that fails lets pass what it should have judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """One command of a configuration."""

    dialect: DialectName
    layer: Layer
    path: str
    """The file it stands in."""
    place: str
    """Where in the file, such as ``hooks.PreToolUse[0].hooks[1]``."""
    point: HookPoint
    matcher: str | None
    """As written; None where it has none, or where its point knows none."""
    command: str
    """What ``bash -c`` runs."""
    timeout_s: float | None = None
    """Seconds; None: the dialect's own for the point."""
    on_failure: OnFailure = "open"
    is_detached: bool = False
    """Whether nothing waits for it and it decides nothing (``async``)."""
    pass_env: tuple[str, ...] = ()
    """Variables that it gets although the scrub would drop them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookProblem:
    """What is wrong with a configuration, or not supported; the rest of it holds."""

    path: str
    place: str
    """Where in the file; empty for the whole of it."""
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.place}: {self.message}" if self.place else f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookFile:
    """What one configuration file says."""

    dialect: DialectName
    layer: Layer
    path: str
    handlers: tuple[Handler, ...] = ()
    """In the order of the file."""
    problems: tuple[HookProblem, ...] = ()
    disables_all: bool | None = None
    """What it says about running no hooks at all; None where it says nothing."""
    switched_off: tuple[str, ...] = ()
    """Keys of single hooks, of this file or another, that are switched off; Codex's ``hooks.state`` has such."""
    features: tuple[Feature, ...] = ()
    """The rows of the table of features that its events and handlers fall under, each once."""
