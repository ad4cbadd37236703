"""Whose hooks there are: the user's, and those of a project."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from dsh_agent import find_project
from dsh_hook_bridges import DialectName, HookSet, TrustStore, load_hooks, trust_path
from dsh_paths import UserHomeUnknown, expand_home_path, require_dsh_home_directory, resolve_dsh_home

DIALECTS: tuple[DialectName, ...] = get_args(DialectName)


def user_home() -> str | None:
    """Return the folder with the user's ``.claude`` and ``.codex``; None for a user who has none."""
    try:
        return expand_home_path("~")
    except UserHomeUnknown:
        return None


def trust_store(home: str | None) -> TrustStore:
    """Return what says which projects are trusted. Raises ``DshPathsError``."""
    return TrustStore(trust_path(require_dsh_home_directory(resolve_dsh_home(home))))


def hooks_at(cwd: str | None, trust: TrustStore, dialects: Sequence[DialectName] = DIALECTS) -> HookSet:
    """Return the hooks that a session in ``cwd`` has; None is the current directory."""
    return hooks_of(find_project(cwd or str(Path.cwd())), trust, dialects)


def hooks_of(project: str, trust: TrustStore, dialects: Sequence[DialectName] = DIALECTS) -> HookSet:
    """Return the hooks of a project and its user."""
    return load_hooks(project, user_home=user_home(), trust=trust, dialects=dialects)
