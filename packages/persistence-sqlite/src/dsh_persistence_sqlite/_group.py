"""How batches become durable: those of several sessions in one transaction, that of one session in the same way."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from dsh_persistence import (
    ForeignChange,
    OutcomeUnknown,
    PersistenceError,
    Receipt,
    SeqConflict,
    SessionAlreadyStored,
    StoreUnusable,
)

from ._database import Absent, Claim, Database, Interrupted
from ._pages import look_up
from ._prepared import Cursor, Prepared
from ._rows import EventRow, State
from ._schema import events, read_store, sessions, write_store

_STATE = ("revision", "next_seq", "chain", "checksum")
_INSERT_EVENTS = Prepared(insert(events))
# Most events have neither sources nor an operation. The driver of SQLite looks for an adapter of each None and of all
# bytes, which for a row takes as long as storing it; a bytearray it takes as it is.
_INSERT_PLAIN = Prepared(
    insert(events).values(
        {one.name: bindparam(one.name) for one in events.c if one.name not in ("source_event_seqs", "surface_op")}
    )
)
_INSERT_SESSIONS = Prepared(insert(sessions))
# The log has to be exactly where the writer left it: whoever comes late changes nothing.
_ADVANCE = Prepared(
    update(sessions)
    .where(
        sessions.c.session_id == bindparam("id"),
        sessions.c.next_seq == bindparam("was_next_seq"),
        sessions.c.chain == bindparam("was_chain"),
        sessions.c.checksum == bindparam("was_checksum"),
    )
    .values({name: bindparam(name) for name in _STATE})
)
_CHAIN = select(events.c.chain).where(events.c.session_id == bindparam("id"), events.c.seq == bindparam("seq"))


class Moved(Exception):
    """A log that is not where its writer left it."""


@dataclass(slots=True, kw_only=True)
class Step:
    """One batch on its way into one log."""

    session_id: str
    claim: Claim
    before: State
    """Where its writer left the log."""
    after: State
    rows: Sequence[EventRow]
    digest: bytes

    @property
    def is_new(self) -> bool:
        """Whether the log is made with this batch."""
        return self.before.next_seq == 0

    @property
    def receipt(self) -> Receipt:
        """What is acknowledged once it is durable."""
        return Receipt(next_seq=self.after.next_seq, digest=self.digest)


def commit(database: Database, steps: Sequence[Step]) -> list[Receipt | Exception]:
    """Make steps durable in one transaction, and say what became of each. No two of them are of one session."""
    try:
        with database.writing() as connection:
            _write(connection, database.where, steps)
    except Interrupted as interrupted:
        return settle(database, steps, interrupted)
    except (OSError, StoreUnusable) as error:
        return [error] * len(steps)
    except Exception as error:  # noqa: BLE001  # handed to the one whom it concerns
        if len(steps) > 1:  # it has to be found out whom
            return [commit(database, [step])[0] for step in steps]
        return [_explained(database, steps[0], error)]
    return [step.receipt for step in steps]


def settle(database: Database, steps: Sequence[Step], cause: BaseException | None) -> list[Receipt | Exception]:
    """Find out what became of steps whose commit was not answered."""
    try:
        database.settle()
        return [_settled(database, step, cause) for step in steps]
    except (OSError, PersistenceError, Interrupted) as error:
        answer = OutcomeUnknown(database.where, f"a commit was not answered ({cause}), nor what came of it ({error})")
        answer.__cause__ = error
        return [answer] * len(steps)


def _write(connection: Connection, where: str, steps: Sequence[Step]) -> None:
    for step in steps:
        step.claim.require()
    new = [step for step in steps if step.is_new]
    moves = [_move(step) for step in steps if not step.is_new]
    plain, others = _sorted(steps)
    with Cursor(connection) as cursor:
        if new:
            _INSERT_SESSIONS.for_rows(cursor, [step.after.row() for step in new])
        if moves and _ADVANCE.for_each(cursor, moves) != len(moves):
            raise Moved
        if others:
            _INSERT_EVENTS.for_rows(cursor, others)
        if plain:
            _INSERT_PLAIN.for_rows(cursor, plain)
    if new:
        store = read_store(connection, where, alone=True)
        write_store(connection, store.with_sessions(len(new)))


def _sorted(steps: Sequence[Step]) -> tuple[list[tuple[object, ...]], list[EventRow]]:
    """Return the rows that have neither sources nor an operation, without these, and the others."""
    plain: list[tuple[object, ...]] = []
    others: list[EventRow] = []
    for step in steps:
        for row in step.rows:
            key, seq, type, time, data, sources, op, ignorable, chain = row
            if sources is None and op is None:
                plain.append((bytearray(key), seq, bytearray(type), time, bytearray(data), ignorable, bytearray(chain)))
            else:
                others.append(row)
    return plain, others


def _move(step: Step) -> dict[str, object]:
    before, after = step.before, step.after
    return {
        "id": before.described[0],
        "was_next_seq": before.next_seq,
        "was_chain": before.chain,
        "was_checksum": before.checksum,
        "revision": after.revision,
        "next_seq": after.next_seq,
        "chain": after.chain,
        "checksum": after.checksum,
    }


def _stored(database: Database, session_id: str) -> State | None:
    try:
        with database.reading() as connection:
            found = look_up(connection, database.where, session_id)
    except Absent:
        return None
    return None if found is None else found.state


def _settled(database: Database, step: Step, cause: BaseException | None) -> Receipt | Exception:
    found = _stored(database, step.session_id)
    if found == step.after or (found is not None and _is_there(database, step)):
        return step.receipt
    if found == (None if step.is_new else step.before):
        error = OSError(errno.EIO, f"the batch was not written: {cause}", database.where)
        error.__cause__ = cause
        return error
    return _explained(database, step, Moved())


def _is_there(database: Database, step: Step) -> bool:
    """Tell whether a batch is part of a log that somebody else has made longer since."""
    with database.reading() as connection:
        last = {"id": step.after.described[0], "seq": step.after.next_seq - 1}
        return connection.execute(_CHAIN, last).scalar() == step.after.chain


def _explained(database: Database, step: Step, error: Exception) -> Exception:
    """Say why a step was refused."""
    if not isinstance(error, (Moved, IntegrityError)):
        return error
    try:
        found = _stored(database, step.session_id)
    except (OSError, PersistenceError) as problem:
        return problem
    where = database.where
    if found is None:
        return ForeignChange(where, f"session {step.session_id!r} is gone, or rows of one that is gone are left")
    if step.is_new:
        return SessionAlreadyStored(step.session_id, where)
    if found.base == step.before.base and found.next_seq != step.before.next_seq:
        return SeqConflict(step.session_id, expected=found.next_seq, found=step.before.next_seq)
    return ForeignChange(where, f"session {step.session_id!r} is another log, or was changed by another writer")
