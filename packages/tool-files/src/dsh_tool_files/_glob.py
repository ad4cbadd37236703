"""The glob tool: files by name."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from itertools import islice
from typing import Any

from ._names import shown
from ._pattern import GlobPattern
from ._stop import Stop
from ._tool import FileTool, with_notices
from ._walk import Walk
from ._workspace import Workspace
from .errors import explained

MAX_FILES = 1000


def glob(workspace: Workspace, arguments: Mapping[str, Any], stop: Stop) -> str:
    """Return the paths from the workspace down, sorted, one a line."""
    pattern = arguments["pattern"]
    walk = Walk(GlobPattern(pattern), stop)
    with workspace.locate(arguments.get("path", ".")) as place, place.open_directory() as directory_fd:
        prefix = "" if place.path == "." else f"{place.path}/"
        with explained(place.path), closing(walk.files(directory_fd, prefix)) as files:
            paths = [shown(found.path) for found in islice(files, MAX_FILES)]
            has_more = next(files, None) is not None
    notices = walk.notices
    if has_more:
        notices.append(f"the first {MAX_FILES} files, there are more; give a narrower pattern or a path")
    if not paths:
        return with_notices(f"no file in {place.path} matches {pattern!r}", notices)
    return with_notices("\n".join(paths), notices)


GLOB = FileTool(
    name="glob",
    description=(
        "Finds files of the workspace by name and returns their paths, sorted. A pattern without a slash, such as "
        "`*.py`, means files at any depth; `**` stands for any number of directories, {a,b} for either. Directories "
        "themselves are not listed, links not followed. Hidden files are found, but directories such as .git and "
        f"node_modules are entered only when the pattern or path names them. At most {MAX_FILES} files are returned."
    ),
    parameters={
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "What to look for, such as src/**/*.{c,h}."},
            "path": {"type": "string", "description": "The directory to begin in; the workspace by default."},
        },
        "required": ["pattern"],
    },
    is_read_only=True,
    work=glob,
)
