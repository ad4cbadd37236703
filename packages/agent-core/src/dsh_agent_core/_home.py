"""One harness, one home (BEHAVIOUR §1.4)."""

from __future__ import annotations

from dsh_paths import require_dsh_home_directory, resolve_dsh_home

from .errors import HomesDiffer


def one_home(dsh_home: str | None, skills_dsh_home: str | None) -> str:
    """Return the home that everything gets: the one that is configured in either place, else the default.

    Two that are written differently and resolve alike are one; links are not followed for that. Raises ``HomesDiffer``
    for two, and ``DshPathsError`` for a home that is none.
    """
    home = resolve_dsh_home(skills_dsh_home if dsh_home is None else dsh_home)
    if skills_dsh_home is not None and (other := resolve_dsh_home(skills_dsh_home)) != home:
        raise HomesDiffer(home, other)
    return require_dsh_home_directory(home)
