"""The one look at the disk: whether there is room for the home."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import DshHomeNotDirectory


def require_dsh_home_directory(path: str | os.PathLike[str]) -> str:
    """Return ``path`` when it is a directory, or when nothing keeps one from being created there.

    Creates nothing. Raises ``DshHomeNotDirectory`` when a file, or a link that leads nowhere, lies at ``path`` or at
    one of its parents, and ``OSError`` when the way there may not be searched.
    """
    home = os.fspath(path)
    for place in (Path(home), *Path(home).parents):
        if place.is_dir():
            break
        if os.path.lexists(place):
            what = "a file" if place.exists() else "a broken link"
            raise DshHomeNotDirectory(home, str(place), what)
    return home
