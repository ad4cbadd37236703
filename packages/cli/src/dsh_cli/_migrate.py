"""``dshpy migrate``: every session of one store in another."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dsh_agent_core import open_store
from dsh_persistence import Copied, PersistenceError, copy_sessions

from ._exit import ExitCode, exit_code_of
from ._roots import Root, id_at, name_root, open_root, path_json
from ._text import console, one_line, print_json, print_labelled, printable, progress, say

_WORDS = {
    "copied": "copied",
    "continued": "completed",
    "present": "there already",
    "empty": "without events",
    "live": "live",
    "unreadable": "unreadable",
    "differs": "different there",
    "busy": "busy there",
    "refused": "refused",
}
"""What each outcome is called for people, in the order of the summary."""


def migrate(source: str, target: str, *, as_json: bool) -> ExitCode:
    """Copy every session, tell what became of each, and go on where an earlier run ended."""
    from_root, to_root = open_root(source), name_root(open_store(target))
    copied: list[Copied] = []
    stopped: Exception | None = None
    with progress("reading") as show:

        def tell(session_id: str, events: int) -> None:
            show(f"{len(copied)} session(s) done; {one_line(session_id)[:60]}: {events} events")

        try:
            for one in copy_sessions(from_root.store, to_root.store, progress=tell):
                copied.append(one)
                show(f"{len(copied)} session(s) done")
        except (PersistenceError, OSError) as error:
            stopped = error
    if as_json:
        print_json(_json(from_root, to_root, copied, stopped))
    else:
        _print(from_root, to_root, copied)
    if stopped is not None:
        say(f"{stopped} (migrating again goes on from here)")
        return exit_code_of(stopped) or ExitCode.UNREADABLE
    return ExitCode.OK if all(one.whole for one in copied) else ExitCode.FAULT


def _print(source: Root, target: Root, copied: list[Copied]) -> None:
    out = console()
    for one in copied:
        if one.reason is not None:
            out.print(f"{printable(_id_of(one))}  {_WORDS[one.outcome]}", style="bold red")
            print_labelled(out, "   ", one_line(one.reason))
    counts = Counter[str](one.outcome for one in copied)
    counted = ", ".join(f"{counts[outcome]} {word}" for outcome, word in _WORDS.items() if counts[outcome])
    print_labelled(out, "from", source.where)
    print_labelled(out, "to  ", target.where)
    written = sum(one.written for one in copied)
    out.print(f"{len(copied)} session(s)" + (f": {counted}; {written} events written" if copied else ""))


def _json(source: Root, target: Root, copied: list[Copied], stopped: Exception | None) -> dict[str, Any]:
    return {
        "from": source.where,
        "to": target.where,
        "whole": stopped is None and all(one.whole for one in copied),
        "stopped": None if stopped is None else str(stopped),
        "sessions": [_session_json(one) for one in copied],
    }


def _session_json(one: Copied) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": _id_of(one), **path_json(one.location), "outcome": one.outcome}
    fields |= {"events": one.events, "written": one.written}
    return fields if one.reason is None else {**fields, "reason": one.reason}


def _id_of(one: Copied) -> str:
    return id_at(one.location) if one.session_id is None else one.session_id
