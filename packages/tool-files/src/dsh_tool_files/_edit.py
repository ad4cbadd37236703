"""The edit tool: one text in a file replaced by another."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from ._replace import is_same, replace_file
from ._stop import Stop
from ._text import PROBE_BYTES, binary_kind
from ._tool import FileTool
from ._workspace import Workspace
from ._write import encode
from .errors import ArgumentRefused, FileChanged, NotText, TextNotFound, TextNotUnique, TooLarge, explained

MAX_FILE_BYTES = 16 << 20
_LINES_TOLD = 10
_NUMBERED = re.compile(rb"\s*\d+\t")
_SPACE = re.compile(rb"\s+")


def edit(workspace: Workspace, arguments: Mapping[str, Any], stop: Stop) -> str:
    """Replace it; return at which lines."""
    old, new = encode("old_string", arguments["old_string"]), encode("new_string", arguments["new_string"])
    if not old:
        raise ArgumentRefused("", "invalid old_string: it is empty; give the text to replace, or use write")
    if old == new:
        raise ArgumentRefused("", "invalid new_string: it equals old_string, so nothing would change")
    with workspace.locate(arguments["file_path"]) as place, place.open_file(for_change=True) as file:
        with explained(place.path):
            before = os.fstat(file.fileno())
            data = file.read(MAX_FILE_BYTES + 1)
            after = os.fstat(file.fileno())
        if len(data) > MAX_FILE_BYTES:
            raise TooLarge(place.path, MAX_FILE_BYTES, "use bash with sed")
        if not is_same(before, after):
            raise FileChanged(place.path)
        _require_utf8(place.path, data)
        changed, count, lines = replace_text(
            place.path, data, old, new, replace_all=arguments.get("replace_all", False)
        )
        replace_file(place, changed, before, stop)
    if count == 1:
        return f"edited {place.path}: 1 replacement at line {lines[0]}"
    more = ", …" if count > len(lines) else ""
    return f"edited {place.path}: {count} replacements at lines {', '.join(map(str, lines))}{more}"


def replace_text(path: str, data: bytes, old: bytes, new: bytes, *, replace_all: bool) -> tuple[bytes, int, list[int]]:
    """Return ``data`` with ``old`` replaced, how often, and the first few lines where it began.

    In a file whose lines all end in CR LF, a bare LF of ``old`` and ``new`` means CR LF. Raises ``TextNotFound``,
    ``TooLarge``, and ``TextNotUnique`` when ``old`` begins at a second place, even one that overlaps the first.
    """
    if _is_crlf(data):
        old, new = (re.sub(rb"(?<!\r)\n", b"\r\n", text) for text in (old, new))
    places = list(islice(_places(data, old, len(old) if replace_all else 1), _LINES_TOLD))
    if not places:
        raise TextNotFound(path, _hint(data, old))
    lines = _line_numbers(data, places)
    if len(places) > 1 and not replace_all:
        raise TextNotUnique(path, lines)
    count = data.count(old)
    if len(data) + count * (len(new) - len(old)) > MAX_FILE_BYTES:
        raise TooLarge(path, MAX_FILE_BYTES, "the result would be larger, nothing was changed; use bash with sed")
    return data.replace(old, new), count, lines


def _places(data: bytes, old: bytes, step: int) -> Iterator[int]:
    at = data.find(old)
    while at >= 0:
        yield at
        at = data.find(old, at + step)


def _line_numbers(data: bytes, places: list[int]) -> list[int]:
    lines: list[int] = []
    line, counted = 1, 0
    for at in places:
        line += data.count(b"\n", counted, at)
        counted = at
        lines.append(line)
    return lines


def _is_crlf(data: bytes) -> bool:
    return 0 < data.count(b"\n") == data.count(b"\r\n")


def _require_utf8(path: str, data: bytes) -> None:
    """Refuse other encodings: their bytes may match in the middle of a character, and new text would mix them up."""
    kind = binary_kind(data[:PROBE_BYTES])
    if kind is None:
        try:
            data.decode()
        except UnicodeDecodeError as error:
            kind = f"text of another encoding, from byte {error.start} on"
    if kind is not None:
        raise NotText(path, kind=kind, size_bytes=len(data))


def _hint(data: bytes, old: bytes) -> str:
    if _NUMBERED.match(old):
        return "leave out the line numbers that read puts before the lines"
    if _SPACE.sub(b" ", old) in _SPACE.sub(b" ", data):
        return "there is one that differs in white space only, so copy it exactly as read shows it"
    return "read the file again and copy the text exactly"


EDIT = FileTool(
    name="edit",
    description=(
        "Replaces a text in a file of the workspace by another. The text is taken literally, must be exactly as in the "
        "file, without the line numbers of read, and must be there only once unless `replace_all` is set. Everything "
        "else in the file stays, its line endings too."
    ),
    parameters={
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "The file, relative to the workspace or absolute in it."},
            "old_string": {"type": "string", "description": "The text to replace, with enough around it to be unique."},
            "new_string": {"type": "string", "description": "What to put in its place; empty to delete it."},
            "replace_all": {"type": "boolean", "description": "Replace every occurrence."},
        },
        "required": ["file_path", "old_string", "new_string"],
    },
    is_read_only=False,
    work=edit,
)
