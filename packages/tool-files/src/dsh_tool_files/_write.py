"""The write tool: a whole file, new or replaced."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ._replace import replace_file
from ._stop import Stop
from ._tool import FileTool
from ._workspace import Workspace
from .errors import ArgumentRefused


def write(workspace: Workspace, arguments: Mapping[str, Any], stop: Stop) -> str:
    """Write it, making missing directories on the way; return whether it was new."""
    data = encode("content", arguments["content"])
    with workspace.locate(arguments["file_path"], make_parents=True) as place:
        before: os.stat_result | None = None
        if place.status is not None:
            with place.open_file(for_change=True) as file:
                before = os.fstat(file.fileno())
        replace_file(place, data, before, stop)
    done = "created" if before is None else "replaced"
    return f"{done} {place.path} ({len(data)} bytes)"


def encode(name: str, text: str) -> bytes:
    """Return an argument's text as UTF-8. Raises ``ArgumentRefused`` for what is none."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        reason = f"invalid {name}: half a surrogate pair at character {error.start}; give whole characters"
        raise ArgumentRefused("", reason) from None


WRITE = FileTool(
    name="write",
    description=(
        "Writes a whole text file of the workspace: a new one with the directories it needs, or in place of what the "
        "file contained. To change a part of a file, use edit."
    ),
    parameters={
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "The file, relative to the workspace or absolute in it."},
            "content": {"type": "string", "description": "All the file shall contain."},
        },
        "required": ["file_path", "content"],
    },
    is_read_only=False,
    work=write,
)
