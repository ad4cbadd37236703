"""The grep tool: lines by what is in them."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO

from ._names import shown
from ._pattern import GlobPattern
from ._searcher import Row, Searcher
from ._stop import Stop
from ._text import PROBE_BYTES, binary_kind
from ._tool import FileTool, number_of, with_notices
from ._walk import Found, Walk
from ._workspace import Place, Workspace, open_regular
from .errors import ArgumentRefused, NotText, SearchStopped, WrongKind, explained

MAX_MATCHES = 250
MAX_CONTEXT = 10
MAX_TEXT_CHARS = 50_000


@dataclass(slots=True, kw_only=True)
class _Report:
    """The result as it grows: a heading for each file, then its lines."""

    marks_gaps: bool
    """Whether ``--`` stands where lines are left out; without context there are always some."""
    parts: list[str] = field(default_factory=list)
    chars: int = 0
    matches: int = 0
    is_full: bool = False
    is_cut: bool = False
    unreadable: list[str] = field(default_factory=list)
    _path: str | None = None
    _last: int = 0

    def add(self, path: str, rows: list[Row]) -> None:
        """Add lines of a file; the file's earlier ones were added before."""
        for number, is_match, text in rows:
            if path != self._path:
                self._put(("\n" if self.parts else "") + f"{shown(path)}\n")
            elif self.marks_gaps and number != self._last + 1:
                self._put("--\n")
            self._path, self._last = path, number
            self._put(f"{number}{':' if is_match else '-'}{text}\n")
            self.matches += is_match
        self.is_full |= self.chars > MAX_TEXT_CHARS

    def _put(self, text: str) -> None:
        self.parts.append(text)
        self.chars += len(text)


def grep(workspace: Workspace, arguments: Mapping[str, Any], stop: Stop, *, limit_s: float) -> str:
    """Return the matching lines, grouped by file."""
    context = number_of(arguments, "context", 0, least=0)
    if context > MAX_CONTEXT:
        raise ArgumentRefused("", f"invalid context: expected at most {MAX_CONTEXT}, got {context}; read the file")
    pattern = arguments["pattern"]
    walk = Walk(GlobPattern(arguments.get("include", "**")), stop)
    report, notices = _Report(marks_gaps=context > 0), walk.notices
    with workspace.locate(arguments.get("path", ".")) as place:
        try:
            with Searcher(pattern, context=context, max_matches=MAX_MATCHES, limit_s=limit_s, stop=stop) as searcher:
                _search(place, walk, searcher, report)
        except SearchStopped as stopped:
            if not report.matches:
                raise
            notices.append(f"not everything was searched: {stopped}")
    if report.is_full:
        notices.append("this is enough for one result and there may be more; give a narrower pattern, path or include")
    if report.is_cut:
        notices.append("of very long lines only the beginning was searched")
    if report.unreadable:
        notices.append(f"{len(report.unreadable)} files could not be read, such as {shown(report.unreadable[0])}")
    if not report.matches:
        return with_notices(f"nothing in {place.path} matches {pattern!r}", notices)
    return with_notices("".join(report.parts), notices)


def _search(place: Place, walk: Walk, searcher: Searcher, report: _Report) -> None:
    """Search the file at ``place``, or those below the directory there."""
    if place.status is not None and stat.S_ISREG(place.status.st_mode):
        with place.open_file() as file, explained(place.path):
            head = file.read(PROBE_BYTES)
            kind = binary_kind(head)
            if kind is not None:
                raise NotText(place.path, kind=kind, size_bytes=os.fstat(file.fileno()).st_size)
            _search_file(place.path, head, file, searcher, report)
        return
    with place.open_directory() as directory_fd:
        prefix = "" if place.path == "." else f"{place.path}/"
        with explained(place.path), closing(walk.files(directory_fd, prefix)) as files:
            for found in files:
                if not found.is_link:
                    _search_found(found, searcher, report)
                if report.is_full:
                    return


def _search_found(found: Found, searcher: Searcher, report: _Report) -> None:
    try:
        with open_regular(found.path, found.name, found.dir_fd) as file:
            head = file.read(PROBE_BYTES)
            if binary_kind(head) is None:
                _search_file(found.path, head, file, searcher, report)
    except (OSError, WrongKind):  # forbidden, or no file any more
        report.unreadable.append(found.path)


def _search_file(path: str, head: bytes, file: BinaryIO, searcher: Searcher, report: _Report) -> None:
    for answer in searcher.search(head, file):
        report.add(path, answer.rows)
        report.is_cut |= answer.is_cut
        report.is_full |= answer.is_full
        if report.is_full:
            return


def grep_tool(limit_s: float) -> FileTool:
    """Return the tool, whose searches take ``limit_s`` seconds at most."""
    return FileTool(
        name="grep",
        description=(
            "Searches text files of the workspace for a regular expression, line by line, and returns the lines with "
            "their numbers, grouped by file: `12:text` matches, `13-text` stands beside a match. Python syntax; begin "
            "with (?i) to ignore case. Links, binary files and directories such as .git and node_modules are passed "
            f"over. At most {MAX_MATCHES} matches are returned; of long lines only what is around the match."
        ),
        parameters={
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "The regular expression."},
                "path": {"type": "string", "description": "The file or directory to search; the workspace by default."},
                "include": {"type": "string", "description": "Search only files of this glob pattern, as *.{ts,tsx}."},
                "context": {"type": "integer", "description": f"Lines to show around a match, 0 to {MAX_CONTEXT}."},
            },
            "required": ["pattern"],
        },
        is_read_only=True,
        work=partial(grep, limit_s=limit_s),
    )
