"""From what a person typed to one session: an id, the beginning of one, ``@latest``, or a path."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from dsh_persistence import (
    ListedSession,
    LogStore,
    PersistenceError,
    SessionLocation,
    SessionNotFound,
    StoredPrefix,
    StoreUnusable,
)
from dsh_persistence_jsonl import JsonlLogStore
from dsh_session import SessionHeader

from ._exit import SelectorFails
from ._roots import Root, is_log_name, name_root, open_root, session_id_of
from ._text import local_time, one_line, say

LATEST = "@latest"
_DATABASE_URL = re.compile(r"(sqlite|postgres(ql)?)(\+\w+)?://|\w+(\+\w+)?://[^/]*@")
_SHOWN = 5
"""How many of many are named in a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """The one session that a selector means."""

    root: Root
    location: SessionLocation
    named: Path | None = None
    """The very file that was named; None when it was the session."""

    def read(self) -> StoredPrefix:
        """Return the stored log. Raises as ``LogStore.read`` does."""
        stored = self.root.store.read(self.location)
        if self.named is not None and Path(stored.source) != self.named:
            reason = f"is not the log its session is read from, which is {stored.source}; name that one, or the folder"
            raise StoreUnusable(str(self.named), reason)
        return stored


def select(selector: str, root: str | None, *, damaged: bool = False) -> Selected:
    """Return the session that ``selector`` means; with ``damaged`` also one that cannot be read.

    One that ends in ``.jsonl`` or ``.jsonl.zstd`` or holds a ``/`` is a path when something lies there; any other is
    looked for below the root. Raises ``SelectorFails``, ``SessionNotFound``, or why the session cannot be read.
    """
    if _DATABASE_URL.match(selector):  # which may hold a password, and is not repeated
        msg = "SEL is the URL of a database; give that with --root, and name one of its sessions"
        raise SelectorFails(msg)
    if names_a_path(selector):
        return _at_path(Path(selector).resolve())
    opened = open_root(root)
    if selector == LATEST:
        return Selected(root=opened, location=_latest(opened).location)
    try:
        return Selected(root=opened, location=_by_id(opened, selector, damaged=damaged).location)
    except SessionNotFound:
        if not _looks_like_path(selector):
            raise
        msg = f"{selector} does not exist, and no session of that id in {opened.where}; dshpy ls lists the sessions"
        raise SelectorFails(msg) from None


def names_a_path(selector: str) -> bool:
    """Return whether ``selector`` is taken as a path, and so needs no root."""
    return _looks_like_path(selector) and Path(selector).exists()


def _looks_like_path(selector: str) -> bool:
    return "/" in selector or is_log_name(selector)


def _at_path(path: Path) -> Selected:
    folder = path if path.is_dir() else path.parent
    if path != folder and not is_log_name(path.name):
        msg = f"{path} is no log, which is named session.vN.jsonl or session.vN.jsonl.zstd; a database goes with --root"
        raise SelectorFails(msg)
    logs = sorted(child for child in folder.iterdir() if is_log_name(child.name))
    if not logs:
        msg = f"{path} holds no log; name a log file or a session's folder, or a root with --root"
        raise SelectorFails(msg)
    log = path if path != folder else logs[-1]
    # Given an encoding, the store searches its root for nothing.
    store = JsonlLogStore(folder.parent.parent, encoding="zstd" if log.name.endswith(".zstd") else "raw")
    return Selected(
        root=name_root(store),
        location=SessionLocation(kind="jsonl", path=str(log)),
        named=path if path != folder else None,
    )


def _by_id(root: Root, prefix: str, *, damaged: bool) -> ListedSession:
    """Return the session whose id is ``prefix`` or, when it is the only one, begins with it."""
    found = [entry for entry in root.store.list() if _fits(session_id_of(entry), prefix)]
    candidates = [entry for entry in found if session_id_of(entry) == prefix] or found
    if not candidates:
        if root.files is None:
            root.store.read(prefix)  # which knows whether it was never there, or has vanished
        raise SessionNotFound(prefix, root.where)
    if len(candidates) > 1:
        ids = _some(session_id_of(entry) for entry in candidates)
        msg = f"{prefix!r} fits {len(candidates)} sessions ({ids}); type more of the id, or name the log by its path"
        raise SelectorFails(msg)
    if candidates[0].problem is not None and not damaged:
        raise candidates[0].problem
    return candidates[0]


def _fits(session_id: str, prefix: str) -> bool:
    return session_id.startswith(prefix) or session_id.removeprefix("session-").startswith(prefix)


def _latest(root: Root) -> ListedSession:
    """Return the session whose last stored event has the greatest time, children of other sessions left out.

    A log without events counts with its creation; ties go to the later creation, then to the greater id. Only the
    content of logs decides, so nothing that copies or touches files moves it. Says on stderr what it chose and skipped.
    """
    ranked: list[tuple[tuple[int, int, str], ListedSession]] = []
    children: list[str] = []
    problems: list[PersistenceError] = []
    for entry in root.store.list():
        if entry.header is not None and _is_child(entry.header):
            children.append(entry.header.id)
            continue
        try:
            ranked.append((_rank(root.store, entry), entry))
        except PersistenceError as problem:
            problems.append(problem)
    best = max(ranked, key=itemgetter(0), default=None)
    if best is not None:
        (time, _, session_id), _ = best
        say(f"{LATEST} is {session_id}: its last event, {local_time(time)}, is the latest of {len(ranked)} session(s)")
    _say_skipped(children, problems)
    if best is None:
        raise SessionNotFound(LATEST, root.where)
    return best[1]


def _rank(store: LogStore, entry: ListedSession) -> tuple[int, int, str]:
    if entry.problem is not None:
        raise entry.problem
    stored = store.read(entry.location)
    header = stored.header
    return (stored.events[-1].time if stored.events else header.created_at, header.created_at, header.id)


def _is_child(header: SessionHeader) -> bool:
    """A fork has a parent and is nobody's child."""
    return header.origin == "subagent" or header.delegation_depth > 0


def _say_skipped(children: list[str], problems: list[PersistenceError]) -> None:
    if children:
        say(f"skipped {len(children)} child session(s): {_some(children)}")
    for problem in problems[:_SHOWN]:
        say(f"skipped what cannot be read: {problem}")
    if len(problems) > _SHOWN:
        say(f"skipped {len(problems) - _SHOWN} more that cannot be read; dshpy ls names them")


def _some(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ", ".join(map(one_line, ordered[:_SHOWN])) + (" …" if len(ordered) > _SHOWN else "")
