"""What is wrong with a session, whatever keeps it."""

from __future__ import annotations

from collections.abc import Iterator

from dsh_persistence import (
    FormatNotSupported,
    PersistenceError,
    RowTooLarge,
    SessionCorrupt,
    SessionLocation,
    ShowsHolder,
    StoredPrefix,
    StoreUnusable,
)
from dsh_persistence_jsonl import RULES, Finding, examine
from dsh_session import EventRefused, generations

from ._roots import Root

UNREAD = ("other-generation", "event-unknown")
"""What only another harness reads."""
_DAMAGED = "restore the session from a backup of the database; dshpy migrate copies the others"


def examine_at(
    root: Root, place: SessionLocation, *, deep: bool, problem: PersistenceError | None = None
) -> Iterator[Finding]:
    """Yield what there is to say about a session; nothing is changed.

    Of files all that ``examine`` of ``dsh_persistence_jsonl`` finds; in a database every row is read and its checksum
    checked, and ``deep`` checks what the rows mean. ``problem`` is what a listing said: a row that has lost its id, or
    that is missing, is not found again. Raises ``SessionNotFound`` where there is no session.
    """
    if root.files is not None:
        yield from examine(root.files, place, deep=deep)
        return
    try:
        if problem is not None:
            raise problem
        holder = root.store.holder(place) if isinstance(root.store, ShowsHolder) else None
        if holder is not None:
            yield _found("in-use", root, f"{holder} holds the session")
        stored = root.store.read(place)
        turn = _open_turn(stored)
        if turn is not None and holder is None:
            yield _found("open-turn", root, "a turn was interrupted; a resume closes it", seq=turn)
        if deep:
            stored.events.validate(stored.header)
    except EventRefused as refused:
        unknown = refused.seq is not None and refused.type not in generations.KNOWN_TYPES
        yield _found("event-unknown" if unknown else "rules", root, f"{refused.type}: {refused.reason}", refused.seq)
    except FormatNotSupported as other:
        yield _found("other-generation", root, str(other))
    except (SessionCorrupt, RowTooLarge) as damage:
        yield _found("row-invalid", root, str(damage))
    except (OSError, StoreUnusable) as error:
        yield Finding(rule="unreadable", severity="damage", path=root.where, reason=str(error), remedy="")


def _open_turn(stored: StoredPrefix) -> int | None:
    """Read every event, and return the seq at which the turn began that the log ends in."""
    seq = None
    for event in stored.events:
        if event.type in ("turn/start", "turn/end"):
            seq = event.seq if event.type == "turn/start" else None
    return seq


def _found(rule: str, root: Root, reason: str, seq: int | None = None) -> Finding:
    severity, remedy = RULES[rule]
    if remedy == "salvage":
        remedy = _DAMAGED
    return Finding(rule=rule, severity=severity, path=root.where, reason=reason, remedy=remedy, seq=seq)
