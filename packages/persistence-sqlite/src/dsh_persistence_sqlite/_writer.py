"""The one who makes a log longer."""

from __future__ import annotations

import secrets
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from dsh_persistence import (
    OutcomeUnknown,
    PersistenceError,
    Receipt,
    Repair,
    SeqConflict,
    SessionAlreadyStored,
    SessionIdTooLong,
    StoredPrefix,
    unwritten,
)
from dsh_session import EncodedBatch, SessionHeader

from ._database import Claim, Database
from ._group import Step, settle
from ._rows import State, digest_of, encode, new_state
from ._text import to_bytes

ID_BYTES = 1024
"""The longest id: a key of PostgreSQL's indexes has a limit."""
_INCARNATION_BITS = 53
"""As many as any JSON reader gives back, for an incarnation is part of a cursor."""

if TYPE_CHECKING:
    from ._store import SqlLogStore


class Found(NamedTuple):
    """An existing log as it was found under the claim."""

    stored: StoredPrefix
    state: State
    claim: Claim


class SqlLogWriter:
    """The claim on one session's log."""

    def __init__(
        self, store: SqlLogStore, database: Database, header: SessionHeader, *, found: Found | None = None
    ) -> None:
        """With ``found`` it goes on with an existing log."""
        self.stored = None if found is None else found.stored
        self._store = store
        self._database = database
        self._header = header
        self._key = to_bytes(header.id)
        self._claim = None if found is None else found.claim
        self._state = new_state(header, secrets.randbits(_INCARNATION_BITS)) if found is None else found.state
        self._synced = 0
        """Up to where the log is durable for certain: what was found may have been written by one who died over it."""
        self._doubt: Step | None = None
        """A batch of which it is not known whether it is there."""
        self._closed = False

    @property
    def next_seq(self) -> int:
        """The seq the next batch begins with."""
        return self._state.next_seq

    def append(self, batch: EncodedBatch) -> Receipt:
        """Write a batch; durable when it returns. See ``LogWriter.append`` for the errors."""
        (answer,) = self._store.append_group([(self, batch)])
        if isinstance(answer, Exception):
            raise answer
        return answer

    def resend(self, batch: EncodedBatch) -> Receipt:
        """Settle an unknown outcome: adopt what lies there of a batch and write the rest."""
        self._require_open()
        self._settle_doubt()
        if batch.first_seq >= self.next_seq:
            return self.append(batch)
        stored = self._store.read(self._header.id, from_seq=batch.first_seq)
        rest = unwritten(self._header.id, batch, stored)
        if rest.events:
            self.append(rest)
        elif batch.next_seq > self._synced:
            self._sync()
        return Receipt(next_seq=batch.next_seq, digest=digest_of(batch))

    def repair(self) -> Repair | None:
        """Return None: a transaction is there whole or not at all."""
        return None

    def checkpoint(self) -> None:
        """Do nothing: a commit says all there is to say."""

    def close(self) -> None:
        """Give up the claim."""
        self._closed = True
        claim, self._claim = self._claim, None
        if claim is not None:
            claim.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def step(self, batch: EncodedBatch) -> Step | Receipt:
        """Return what an append has to do, having claimed a new log; a receipt when there is nothing to do.

        Raises what ``append`` raises before it writes. Then ``finish`` is owed.
        """
        self._require_open()
        self._settle_doubt()
        if batch.first_seq != self.next_seq:
            raise SeqConflict(self._header.id, expected=self.next_seq, found=batch.first_seq)
        if not batch.events:
            return Receipt(next_seq=self.next_seq, digest=digest_of(batch))
        if len(self._key) > ID_BYTES:
            raise SessionIdTooLong(self._header.id, size_bytes=len(self._key), limit_bytes=ID_BYTES)
        encoded = encode(batch, self._key, self._state.chain, self._database.where)
        if self._claim is None:
            self._claim = self._database.claim(self._header.id)
        return Step(
            session_id=self._header.id,
            claim=self._claim,
            before=self._state,
            after=self._state.after(batch.next_seq, encoded.chain),
            rows=encoded.rows,
            digest=encoded.digest,
        )

    def finish(self, step: Step, answer: Receipt | Exception) -> None:
        """Take note of what became of a step."""
        self._doubt = None
        if isinstance(answer, Receipt):
            self._state = step.after
            self._synced = step.after.next_seq
        elif isinstance(answer, OutcomeUnknown):
            self._doubt = step
        elif isinstance(answer, SessionAlreadyStored) and self._claim is not None:
            self._claim.release()  # whoever was refused holds nothing
            self._claim = None

    def _settle_doubt(self) -> None:
        """Find out about a batch of unknown outcome. Raises ``OutcomeUnknown`` when that is still impossible."""
        step = self._doubt
        if step is not None:
            (answer,) = settle(self._database, [step], None)
            self.finish(step, answer)
            if isinstance(answer, PersistenceError):
                raise answer

    def _sync(self) -> None:
        """Make durable what was found, before somebody is told that it is."""
        try:
            self._database.settle()
        except (OSError, PersistenceError) as error:
            raise OutcomeUnknown(self._database.where, f"what is there cannot be made durable ({error})") from error
        self._synced = self.next_seq

    def _require_open(self) -> None:
        if self._closed:
            msg = f"the writer of session {self._header.id!r} is closed"
            raise ValueError(msg)
