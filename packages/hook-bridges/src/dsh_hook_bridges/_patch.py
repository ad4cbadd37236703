"""An edit as Codex's hooks see it: the text of a patch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def patch_of(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the patch that a call of ``write`` or ``edit`` amounts to.

    It says which file and which lines; what surrounds them in the file is not in it, and neither is how often they are
    replaced. A written file counts as added.
    """
    path = arguments.get("file_path", "")
    if name == "write":
        head, lines = f"*** Add File: {path}", _marked("+", arguments.get("content", ""))
    else:
        old, new = arguments.get("old_string", ""), arguments.get("new_string", "")
        head, lines = f"*** Update File: {path}", ["@@", *_marked("-", old), *_marked("+", new)]
    return "\n".join(["*** Begin Patch", head, *lines, "*** End Patch", ""])


def _marked(mark: str, text: str) -> list[str]:
    rows = text.split("\n")
    if rows[-1] == "":
        rows.pop()  # what ends in a newline has no further line
    return [mark + row for row in rows]
