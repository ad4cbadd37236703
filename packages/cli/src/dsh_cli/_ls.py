"""``dshpy ls``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dsh_persistence import ListedSession, LogStore, SessionCorrupt
from dsh_session import SessionHeader

from ._exit import ExitCode
from ._roots import Root, open_root, path_json, session_id_of
from ._text import console, header_json, local_time, print_json, print_labelled, printable


def list_sessions(root: str | None, *, cwd: str | None, tree: bool = False, as_json: bool) -> ExitCode:
    """Print every session below ``root``, newest first, damaged ones at the end; with ``cwd`` those of one place.

    With ``tree`` each stands below the session that it was forked from or delegated by, oldest first.
    """
    opened = open_root(root)
    found = opened.store.list() if cwd is None else _of_directory(opened, cwd)
    entries = sorted(found, key=_created_at, reverse=True)
    if as_json:
        print_json({"root": opened.where, "sessions": [_entry_json(entry) for entry in entries]})
    elif not entries:
        place = "" if cwd is None else f" of {cwd}"
        print_labelled(console(), "no sessions", f"{place.lstrip()} in {opened.where}".lstrip())
    else:
        _print_table([(entry, 0) for entry in entries] if not tree else list(_branches(entries)))
    damaged = any(isinstance(entry.problem, SessionCorrupt) for entry in entries)
    return ExitCode.FAULT if damaged else ExitCode.OK


def _of_directory(root: Root, directory: str) -> Iterator[ListedSession]:
    """Yield the sessions whose header names ``directory``, by whatever links it is reached.

    Folder names do not tell, several directories may share one. For what has no readable header they must: it is kept
    where a session of that directory would lie. In a database nothing else tells, so it is kept.
    """
    spellings = {os.path.abspath(directory), os.path.realpath(directory)}  # noqa: PTH100  # resolve() follows links
    projects = {folder for path in spellings if (folder := _project(root.store, path)) is not None}
    for entry in root.store.list():
        if entry.header is None:
            path = Path(entry.location.path)
            if not projects or not projects.isdisjoint((path, *path.parents)):
                yield entry
        elif entry.header.cwd is not None and not spellings.isdisjoint(_spellings(entry.header.cwd)):
            yield entry


def _project(store: LogStore, cwd: str) -> Path | None:
    location = store.locate(SessionHeader(id="x", created_at=0, cwd=cwd))
    return None if location is None else Path(location.path).parents[1]


def _spellings(cwd: str) -> Iterator[str]:
    yield cwd
    with contextlib.suppress(ValueError):  # a header may hold what no file system takes
        yield os.path.realpath(cwd)


def _created_at(entry: ListedSession) -> int:
    return -1 if entry.header is None else entry.header.created_at


def _entry_json(entry: ListedSession) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": session_id_of(entry), **path_json(entry.location)}
    if entry.header is not None:
        fields |= {"header": header_json(entry.header), "revision": entry.revision}
    if entry.problem is not None:
        fields["problem"] = {"kind": type(entry.problem).__name__, "message": str(entry.problem)}
    return fields


def _branches(entries: list[ListedSession]) -> Iterator[tuple[ListedSession, int]]:
    """Yield each session with its depth, right after its parent; one whose parent is not here stands at the top."""
    children: dict[str | None, list[ListedSession]] = {}
    known = {entry.header.id for entry in entries if entry.header is not None}
    for entry in reversed(entries):
        parent = None if entry.header is None else entry.header.parent_session
        children.setdefault(parent if parent in known else None, []).append(entry)
    todo = [(entry, 0) for entry in reversed(children.pop(None, []))]
    while todo or children:
        if not todo:  # headers that name each other as parents hang on nothing: one is a top as good as any
            todo = [(entry, 0) for entry in children.pop(next(iter(children)))]
        entry, depth = todo.pop()
        yield entry, depth
        below = children.pop(entry.header.id, []) if entry.header is not None else []
        todo += [(child, depth + 1) for child in reversed(below)]


def _print_table(entries: list[tuple[ListedSession, int]]) -> None:
    from rich.table import Table  # noqa: PLC0415  # only rendering needs it
    from rich.text import Text  # noqa: PLC0415  # as above

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("session", no_wrap=True)
    table.add_column("created", no_wrap=True)
    table.add_column("directory", overflow="fold")
    for entry, depth in entries:
        name = Text("  " * depth + printable(session_id_of(entry)))
        if entry.header is None:
            kind = "damaged" if isinstance(entry.problem, SessionCorrupt) else "unreadable"
            table.add_row(name, Text(kind, style="bold red"), Text(printable(str(entry.problem)), style="red"))
            continue
        where = printable(entry.header.cwd or "(no directory)")
        if entry.header.origin is not None:
            where += f"  ({entry.header.origin})"
        elif entry.header.is_seeded:
            where += "  (fork)"
        table.add_row(name, local_time(entry.header.created_at), Text(where))
    console().print(table)
