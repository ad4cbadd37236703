"""``dshpy ls``."""

from __future__ import annotations

from typing import Any

from dsh_persistence import ListedSession, SessionCorrupt

from ._exit import ExitCode
from ._roots import open_root, session_id_of
from ._text import console, header_json, local_time, print_json, printable


def list_sessions(root: str | None, *, as_json: bool) -> ExitCode:
    """Print every session below ``root``, newest first, damaged ones at the end."""
    store = open_root(root)
    entries = sorted(store.list(), key=_created_at, reverse=True)
    if as_json:
        print_json({"root": str(store.root), "sessions": [_entry_json(entry) for entry in entries]})
    elif not entries:
        console().print(f"no sessions in {store.root}")
    else:
        _print_table(entries)
    damaged = any(isinstance(entry.problem, SessionCorrupt) for entry in entries)
    return ExitCode.FAULT if damaged else ExitCode.OK


def _created_at(entry: ListedSession) -> int:
    return -1 if entry.header is None else entry.header.created_at


def _entry_json(entry: ListedSession) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": session_id_of(entry), "path": entry.location.path}
    if entry.header is not None:
        fields |= {"header": header_json(entry.header), "revision": entry.revision}
    if entry.problem is not None:
        fields["problem"] = {"kind": type(entry.problem).__name__, "message": str(entry.problem)}
    return fields


def _print_table(entries: list[ListedSession]) -> None:
    from rich.table import Table  # noqa: PLC0415  # only rendering needs it
    from rich.text import Text  # noqa: PLC0415  # as above

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("session", no_wrap=True)
    table.add_column("created", no_wrap=True)
    table.add_column("directory", overflow="fold")
    for entry in entries:
        name = Text(printable(session_id_of(entry)))
        if entry.header is None:
            kind = "damaged" if isinstance(entry.problem, SessionCorrupt) else "unreadable"
            table.add_row(name, Text(kind, style="bold red"), Text(printable(str(entry.problem)), style="red"))
            continue
        where = printable(entry.header.cwd or "(no directory)")
        if entry.header.origin is not None:
            where += f"  ({entry.header.origin})"
        table.add_row(name, local_time(entry.header.created_at), Text(where))
    console().print(table)
