"""What a repair would do."""

from __future__ import annotations

from pathlib import Path

from dsh_persistence import Repair, SessionLocation

from ._store import JsonlLogStore
from ._writer import saved_tail


def planned_repair(store: JsonlLogStore, ref: str | SessionLocation) -> Repair | None:
    """Return what ``repair`` of the session's writer would do now; None when that is nothing. Changes nothing.

    Raises as ``JsonlLogStore.read`` does.
    """
    stored = store.read(ref)
    if stored.torn is None:
        return None
    with open(stored.source, "rb") as log:
        log.seek(stored.torn.offset)
        saved = saved_tail(Path(stored.source), stored.torn.offset, log.read(stored.torn.size_bytes))
    return Repair(cut=stored.torn, saved_as=None if saved is None else str(saved), salvaged=stored.salvaged)
