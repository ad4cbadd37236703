"""What it takes to go on with a stored log: claim, check, repair. All of it blocks and belongs in a thread."""

from __future__ import annotations

from collections.abc import Sequence

from dsh_session import EncodedBatch, EventRefused, Session, SessionEvent, SessionHeader, repair_closers

from ._seam import LogStore, LogWriter, StoredPrefix
from .errors import SessionAlreadyStored, SessionCorrupt, SessionNotFound


def open_session(store: LogStore, session_id: str) -> tuple[Session, LogWriter]:
    """Claim a stored log, cut its torn tail, and fold it. Raises as ``LogStore.open``."""
    writer = store.open(session_id)
    try:
        stored = _stored(store, writer, session_id)
        writer.repair()
        return _fold(stored), writer
    except BaseException:
        writer.close()
        raise


def recover(store: LogStore, session_id: str) -> StoredPrefix:
    """Commit the crash repair of a log in which nobody lives, and return it. Raises as ``LogStore.open``."""
    session, writer = open_session(store, session_id)
    with writer:
        closers = repair_closers(session.state)
        if closers:
            writer.append(EncodedBatch(first_seq=session.next_seq, events=closers))
    return store.read(session_id)


def adopt(store: LogStore, header: SessionHeader, events: Sequence[SessionEvent]) -> LogWriter:
    """Claim the stored log that a live session of these events goes on from.

    A torn tail is cut, and nothing is closed: the open turn is the live one. Raises ``SessionAlreadyStored``, having
    changed nothing, unless the log's events are the first of the session's; and as ``LogStore.open``.
    """
    writer = store.open(header.id)
    try:
        stored = _stored(store, writer, header.id)
        difference = find_difference(stored.header, stored.events, header, events)
        if difference is not None:
            raise SessionAlreadyStored(header.id, stored.source, difference=difference)
        writer.repair()
        return writer
    except BaseException:
        writer.close()
        raise


def find_difference(
    known: SessionHeader, events: Sequence[SessionEvent], live: SessionHeader, live_events: Sequence[SessionEvent]
) -> str | None:
    """Return why a live session does not go on from a log, None when it does.

    It does when it has the same working directory and its log begins with the same events.
    """
    if known.cwd != live.cwd:
        return f"it belongs to {known.cwd or 'no directory'}, the live session to {live.cwd or 'no directory'}"
    if len(events) > len(live_events):
        return f"it has {len(events)} events, the live session {len(live_events)}"
    for mine, theirs in zip(events, live_events, strict=False):
        if mine != theirs:
            return f"its event {mine.seq} is not the live session's"
    return None


def _stored(store: LogStore, writer: LogWriter, session_id: str) -> StoredPrefix:
    if writer.stored is None:
        raise SessionNotFound(session_id, store.name)
    return writer.stored


def _fold(stored: StoredPrefix) -> Session:
    try:
        session = Session(stored.header, stored=stored.events)
        session.state.settle()  # also where nothing is stored but a header that promises a seed
        return session
    except EventRefused as error:
        raise SessionCorrupt(stored.source, f"the stored events break a rule of the format: {error}") from error
