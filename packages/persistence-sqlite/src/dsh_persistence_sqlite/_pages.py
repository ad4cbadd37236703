"""Rows fetched a page at a time, each checked against the one before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, case, func, select

from dsh_persistence import SessionCorrupt, SessionNotFound
from dsh_session import SessionEvent, SessionHeader

from ._prepared import Prepared
from ._rows import Fault, State, decode, read_header, read_state
from ._schema import events, read_store, sessions
from ._text import to_bytes

PAGE_ROWS = 256
PAGE_BYTES = 1 << 20
"""A page ends soon after its data has reached this."""
_FETCHED_ROWS = 32
_LISTED_ROWS = 256

_COLUMNS = [column for column in events.c if column.name != "session_id"]
_SESSION = Prepared(select(sessions).where(sessions.c.session_id == bindparam("id")))
_ALL_SESSIONS = Prepared(select(sessions))
_PAGE = Prepared(
    select(*_COLUMNS)
    .where(events.c.session_id == bindparam("id"), events.c.seq >= bindparam("first"), events.c.seq < bindparam("stop"))
    .order_by(events.c.seq)
)
# PostgreSQL's driver would fetch all of a result before it gives a row of it.
_BY_AND_BY = {"stream_results": True, "max_row_buffer": _FETCHED_ROWS}
_ANCHOR = Prepared(
    select(events.c.chain).where(events.c.session_id == bindparam("id"), events.c.seq == bindparam("seq"))
)
_before = events.alias("before")
_OF_TYPE = (
    select(_before.c.chain, *_COLUMNS)
    .outerjoin(_before, (_before.c.session_id == events.c.session_id) & (_before.c.seq == events.c.seq - 1))
    .where(
        events.c.session_id == bindparam("id"),
        events.c.seq >= bindparam("first"),
        events.c.seq < bindparam("stop"),
        events.c.type.in_(bindparam("types", expanding=True)),
    )
    .order_by(events.c.seq)
    .limit(bindparam("limit"))
)
# The length of the chain is in the table only, so that the table is counted and not the index of its ids.
_COUNTS = select(
    func.count(),
    func.sum(func.length(sessions.c.chain)),
    func.sum(case((sessions.c.session_id == bindparam("id"), 1), else_=0)),
)


class Page(NamedTuple):
    """Consecutive events."""

    chain: bytes
    """The digest of the row before the first one."""
    events: Sequence[SessionEvent]
    size_bytes: int
    end: bytes
    """The digest of the last row."""


class Place(NamedTuple):
    """One session's rows in a database."""

    where: str
    session_id: str
    key: bytes
    """The id as it is stored."""

    def damaged(self, reason: object) -> SessionCorrupt:
        """Return the error for rows that are not what was written."""
        return SessionCorrupt(self.where, f"session {self.session_id!r}: {reason}")


class Session(NamedTuple):
    """What a session's row says."""

    header: SessionHeader
    revision: str
    state: State


def find_session(connection: Connection, where: str, session_id: str) -> Session:
    """Return what a session's row says. Raises ``SessionNotFound`` only when it was never there."""
    found = look_up(connection, where, session_id)
    if found is None:
        _require_absent(connection, where, session_id)
        raise SessionNotFound(session_id, where)
    return found


def look_up(connection: Connection, where: str, session_id: str) -> Session | None:
    """Return what a session's row says, None without one."""
    with _SESSION.reading(connection, {"id": to_bytes(session_id)}) as rows:
        row = rows.fetchone()
    if row is None:
        return None
    values = tuple(row)
    header, revision = read_header(values, where)
    if header.id != session_id:
        raise SessionCorrupt(where, f"the index leads from session {session_id!r} to {header.id!r}")
    return Session(header, revision, read_state(values))


def every_session(connection: Connection) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of all sessions."""
    with _ALL_SESSIONS(connection, {}) as rows:
        while some := rows.fetchmany(_LISTED_ROWS):
            yield from map(tuple, some)


def require_count(connection: Connection, where: str, count: int) -> None:
    """Raise ``SessionCorrupt`` when there are not as many sessions as were stored."""
    expected = read_store(connection, where).session_count
    if count != expected:
        raise SessionCorrupt(where, f"holds {count} sessions where {expected} were stored")


def anchor(connection: Connection, place: Place, state: State, seq: int) -> bytes:
    """Return the digest of the row before ``seq``."""
    if seq == 0:
        return state.base
    with _ANCHOR.reading(connection, {"id": place.key, "seq": seq - 1}) as rows:
        found = rows.fetchone()
    if found is None or not isinstance(found[0], bytes):
        raise place.damaged(f"event {seq - 1} is missing")
    return found[0]


def page(connection: Connection, place: Place, seq: int, stop: int, chain: bytes) -> Page:
    """Return some of the events from ``seq`` to before ``stop``, at least one. Raises ``SessionCorrupt``."""
    before, found, size_bytes = chain, list[SessionEvent](), 0
    stop = min(stop, seq + PAGE_ROWS)
    wanted = {"id": place.key, "first": seq, "stop": stop}
    is_long = stop - seq > 2 * _FETCHED_ROWS
    with _PAGE(connection, wanted, **_BY_AND_BY) if is_long else _PAGE.reading(connection, wanted) as rows:
        while size_bytes < PAGE_BYTES and (some := rows.fetchmany(_FETCHED_ROWS)):
            for row in some:
                try:
                    event = decode(row, seq, chain)
                except Fault as fault:
                    raise place.damaged(fault) from None
                found.append(event)
                size_bytes += len(event.encoded)
                seq, chain = seq + 1, row[-1]
    if seq < stop and size_bytes < PAGE_BYTES:
        raise place.damaged(f"event {seq} is missing")
    return Page(before, found, size_bytes, chain)


def pages(connection: Connection, place: Place, state: State, seq: int) -> Iterator[Page]:
    """Yield the events from ``seq`` to the end, which has to be the one that the session's row names."""
    chain = anchor(connection, place, state, seq)
    while seq < state.next_seq:
        found = page(connection, place, seq, state.next_seq, chain)
        yield found
        seq, chain = seq + len(found.events), found.end
    require_end(place, state, chain)


def require_end(place: Place, state: State, chain: bytes) -> None:
    """Raise ``SessionCorrupt`` when a log does not end with the digest of its session's row."""
    if chain != state.chain:
        raise place.damaged("its last event is not the one that was stored last")


def of_type(
    connection: Connection, place: Place, seqs: range, types: Sequence[str], *, base: bytes
) -> Sequence[SessionEvent]:
    """Return some of the events of these types among ``seqs``; none when there are no more.

    ``base`` is what event 0 is chained to.
    """
    wanted = {"id": place.key, "first": seqs.start, "stop": seqs.stop, "limit": PAGE_ROWS}
    found: list[SessionEvent] = []
    size_bytes = 0
    with connection.execute(_OF_TYPE, {**wanted, "types": [to_bytes(type) for type in types]}) as rows:
        for chain, *row in rows:
            try:
                event = decode(row, row[0], base if row[0] == 0 else chain or b"")
            except (Fault, TypeError) as fault:
                raise place.damaged(fault) from None
            found.append(event)
            size_bytes += len(event.encoded)
            if size_bytes >= PAGE_BYTES:
                break
    return found


def _require_absent(connection: Connection, where: str, session_id: str) -> None:
    """Raise ``SessionCorrupt`` when a session cannot be told to be absent: others have vanished, or only its index."""
    count, _, named = connection.execute(_COUNTS, {"id": to_bytes(session_id)}).one()
    expected = read_store(connection, where).session_count
    if count != expected:
        raise SessionCorrupt(
            where, f"session {session_id!r} is not there, but {count} sessions are where {expected} were stored"
        )
    if named:
        raise SessionCorrupt(where, f"session {session_id!r} is there, and its index does not lead to it")
