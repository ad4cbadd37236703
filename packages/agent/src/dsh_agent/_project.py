"""Which project a session works in."""

from __future__ import annotations

import os
from pathlib import Path


def find_project(cwd: str) -> str:
    """Return the nearest folder at or above ``cwd`` that holds ``.git``, and ``cwd`` when none does."""
    for folder in (Path(cwd), *Path(cwd).parents):
        if os.path.lexists(folder / ".git"):
            return str(folder)
    return cwd
