"""The seam between the store and the two kinds of database: transactions, claims, and what a lost answer means."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from sqlalchemy import Connection

from dsh_persistence import StoreUnusable


class Absent(StoreUnusable):
    """Nothing was ever stored here: there is no database, or no table of ours in it.

    The store says ``SessionNotFound`` instead where a log is asked for; it is told as it is when a log that was read
    before has lost its database.
    """

    def __init__(self) -> None:
        super().__init__("the database", "holds no store any more; it was removed while it was in use")


class Interrupted(Exception):
    """A transaction that may have been committed; the connection has been dropped and ``settle`` is owed."""


class Claim(Protocol):
    """The right to write one session's log."""

    def require(self) -> None:
        """Raise ``SessionBusy`` when it was lost and somebody else has it. Called inside ``writing``, first."""
        ...

    def release(self) -> None:
        """Give it up. Idempotent; never raises."""
        ...


class Database(Protocol):
    """One place of the store's tables. Any thread may call it; a fork of the process gets connections of its own.

    What goes wrong is an ``OSError`` when it may pass, ``StoreUnusable`` when it lasts, and ``SessionCorrupt`` when the
    database says that its own pages are damaged. An ``IntegrityError`` of SQLAlchemy passes through.
    """

    @property
    def kind(self) -> str:
        """``sqlite`` or ``postgresql``."""
        ...

    @property
    def where(self) -> str:
        """The place, for people; without a password."""
        ...

    def reading(self) -> AbstractContextManager[Connection]:
        """Give a connection that sees one consistent snapshot and changes nothing.

        Raises ``Absent`` on entering when nothing was ever stored; it never makes a database or a table.
        """
        ...

    def writing(self) -> AbstractContextManager[Connection]:
        """Give a connection in a transaction, one at a time in this process; what is missing is made first.

        Commits durably when left without an error, and rolls back otherwise. Raises ``Interrupted`` when the
        transaction may have been committed all the same, or the connection cannot be trusted any more.
        """
        ...

    def claim(self, session_id: str) -> Claim:
        """Claim a session, against every process and host that uses the database; what is missing is made first.

        Raises ``SessionBusy`` at once when somebody holds it.
        """
        ...

    def holder(self, session_id: str) -> str | None:
        """Return who has claimed a session, for people; None when nobody has, or it cannot be known. Claims nothing."""
        ...

    def settle(self) -> None:
        """Make sure that whatever a reader sees from now on is durable: what follows an ``Interrupted``."""
        ...

    def close(self) -> None:
        """Close every connection, and with them every claim that hangs on one. Idempotent."""
        ...
