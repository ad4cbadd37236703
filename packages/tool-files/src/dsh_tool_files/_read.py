"""The read tool: lines of a text file with their numbers.

Numbers are what grep's results and ``offset`` speak of; a tab ends them, and the line follows as it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Any

from ._stop import Stop
from ._text import BOM, PROBE_BYTES, binary_kind, decode
from ._tool import FileTool, number_of, with_notices
from ._workspace import Workspace
from .errors import ArgumentRefused, NotText, TooLarge, explained

DEFAULT_LINES = 2000
MAX_LINE_BYTES = 4096
MAX_TEXT_CHARS = 100_000
MAX_SCAN_BYTES = 1 << 30
"""How far into a file a line may lie; some seconds of reading."""
_PIECE_BYTES = 65_536


@dataclass(slots=True, kw_only=True)
class _Page:
    """The lines that were asked for, as far as they fit."""

    parts: list[str] = field(default_factory=list)
    chars: int = 0
    last: int = 0
    is_full: bool = False
    is_cut: bool = False
    is_damaged: bool = False
    has_crlf: bool = False
    ends_open: bool = False
    """The last line of the file has no line break."""


def read(workspace: Workspace, arguments: Mapping[str, Any], stop: Stop) -> str:
    """Return the lines, and notices of whatever they do not show as it is."""
    first = number_of(arguments, "offset", 1, least=1)
    limit = number_of(arguments, "limit", DEFAULT_LINES, least=1)
    with workspace.locate(arguments["file_path"]) as place, place.open_file() as file, explained(place.path):
        size_bytes = os.fstat(file.fileno()).st_size
        head = file.read(PROBE_BYTES)
        kind = binary_kind(head)
        if kind is not None:
            raise NotText(place.path, kind=kind, size_bytes=size_bytes)
        file.seek(len(BOM) if head.startswith(BOM) else 0)
        page = _page(file, _lines(file, place.path, stop), first, limit)
        if not page.parts and first > 1:
            raise ArgumentRefused(
                place.path, f"invalid offset: {place.path} has {page.last} lines; read from one of them on"
            )
    if not page.parts:
        return "(the file is empty)"
    return with_notices("".join(page.parts), _notices(page, first, size_bytes, has_bom=head.startswith(BOM)))


def _page(file: BufferedReader, lines: Iterator[tuple[bytes, int]], first: int, limit: int) -> _Page:
    page = _Page()
    for number, (data, length) in enumerate(lines, 1):
        page.last = number
        if number < first:
            continue
        is_cut = length > len(data)
        text, is_utf8 = decode(data, is_cut=is_cut)
        page.is_damaged |= not is_utf8
        page.is_cut |= is_cut
        page.has_crlf |= data.endswith(b"\r\n")
        page.ends_open = not is_cut and not data.endswith(b"\n")
        page.parts.append(f"{number:>6}\t{text}" + (f"… [{length} bytes]\n" if is_cut else ""))
        page.chars += len(text)
        if number == first + limit - 1 or page.chars > MAX_TEXT_CHARS:
            page.is_full = bool(file.peek(1))  # the next line, however long, is not read for this
            break
    return page


def _lines(file: BufferedReader, path: str, stop: Stop) -> Iterator[tuple[bytes, int]]:
    """Yield each line's first ``MAX_LINE_BYTES``, with its line break if that fits, and its whole length."""
    scanned = 0
    while piece := file.readline(MAX_LINE_BYTES):
        length, tail = 0, piece
        while tail:
            length += len(tail)
            if scanned + length > MAX_SCAN_BYTES:
                raise TooLarge(path, MAX_SCAN_BYTES, "use bash with tail, sed or cut for what lies behind")
            stop.check()
            tail = b"" if tail.endswith(b"\n") else file.readline(_PIECE_BYTES)
        scanned += length
        yield piece, length


def _notices(page: _Page, first: int, size_bytes: int, *, has_bom: bool) -> list[str]:
    notices: list[str] = []
    if page.is_full:
        notices.append(
            f"lines {first} to {page.last} of a file of {size_bytes} bytes; go on with offset {page.last + 1}"
        )
    elif page.ends_open:
        notices.append("no line break at the end of the file")
    if page.is_cut:
        notices.append(f"lines of more than {MAX_LINE_BYTES} bytes are cut, as marked; bash with cut shows the rest")
    if page.is_damaged:
        notices.append("not all of this is UTF-8 text: \ufffd stands for what is not; edit refuses such a file")
    if page.has_crlf:
        notices.append("lines end in CR LF; edit keeps that")
    if has_bom:
        notices.append("the file begins with a byte order mark; edit keeps it")
    return notices


READ = FileTool(
    name="read",
    description=(
        "Reads a text file of the workspace. Each line comes with its number and a tab, which are not part of the "
        f"file. Of a long file you get {DEFAULT_LINES} lines from `offset` on, and a note says where to go on."
    ),
    parameters={
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "The file, relative to the workspace or absolute in it."},
            "offset": {"type": "integer", "description": "Number of the first line to read, from 1 on."},
            "limit": {"type": "integer", "description": f"How many lines to read; {DEFAULT_LINES} by default."},
        },
        "required": ["file_path"],
    },
    is_read_only=True,
    work=read,
)
