"""A SQLite file as the store's database."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Connection, NullPool, create_engine
from sqlalchemy.exc import DBAPIError, IntegrityError

from dsh_persistence import StoreUnusable
from dsh_persistence.files import holder_of, sync_folder, usable

from . import _schema
from ._claims import FileClaim, claim_file, lock_file
from ._database import Absent, Interrupted
from ._forks import watch_forks
from ._sqlite_file import (
    BUSY_MS,
    Journal,
    make_file,
    name_of,
    open_file,
    require_identity,
    require_ours,
    settle_journal,
    translated,
)

_UNTRUSTED = ("SQLITE_IOERR", "SQLITE_FULL", "SQLITE_READONLY", "SQLITE_CANTOPEN")
"""Errors after which a connection is not used again: where opening fails once, SQLite opens the file for reading alone,
and says so only at the first write."""
_SYNCHRONOUS: dict[str, int] = {"wal": 2, "delete": 3}
"""FULL syncs every commit of a write-ahead log; a rollback journal needs EXTRA, which syncs its removal as well."""
_FAULTS = (DBAPIError, sqlite3.Error, UnicodeDecodeError)
"""What SQLite's faults arrive as; the last one is a message that quotes what is no text any more."""


class SqliteDatabase:
    """One file, a connection that writes and a few that read."""

    kind = "sqlite"

    def __init__(self, path: Path, *, journal: Journal | None = None) -> None:
        """``journal`` None means what the file has, and ``wal`` for a new one."""
        self.where = str(path)
        self._path = path
        self._claims = Path(f"{path}.claims")
        self._wanted: Journal | None = journal
        self._journal: Journal = journal or "wal"
        self._writing = threading.Lock()
        self._gate = threading.Condition()
        """Guards what follows; waited on until no reader is left."""
        self._file: tuple[int, int] | None = None
        """Device and inode of the file, once it was found to be one of ours."""
        self._writer: Connection | None = None
        self._readers: list[Connection] = []
        self._reading = 0
        self._owed = False
        """Whether a write or sync has failed, so that what SQLite sees may not be what lies on disk."""
        self._named = False
        """Whether the file's name is known to be durable."""
        self._engine = create_engine(
            "sqlite://", creator=lambda: open_file(path), poolclass=NullPool, hide_parameters=True
        )
        watch_forks(self)

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """Give a connection that sees one consistent snapshot. Raises ``Absent`` when there is no file."""
        self._prepare(create=False)
        with self._gate:
            self._reading += 1
            connection = self._readers.pop() if self._readers else None
        try:
            if connection is None:
                connection = self._connect(query_only=1)
            connection.begin()  # for SQLAlchemy, and then for SQLite, whose driver does not do it by itself here
            _driver(connection).execute("BEGIN")
            yield connection
            connection.rollback()
        except _FAULTS as error:
            _drop(connection)
            connection = None
            raise translated(error, self._path) from error
        except BaseException:
            try:
                if connection is not None:
                    connection.rollback()
            except DBAPIError:
                _drop(connection)
                connection = None
            raise
        finally:
            with self._gate:
                self._reading -= 1
                if connection is not None:
                    self._readers.append(connection)
                self._gate.notify_all()

    @contextmanager
    def writing(self) -> Generator[Connection]:
        """Give a connection in a transaction; a file that is missing is made first."""
        with self._writing:
            self._prepare(create=True)
            if self._owed:
                self._settle()
            connection = self._writer_connection()
            # SQLAlchemy keeps no books of this transaction: for a short one they would take longer than SQLite does.
            driver = _driver(connection)
            try:
                driver.execute("BEGIN IMMEDIATE")
                yield connection
            except _FAULTS as error:
                # Nothing was committed: that was not asked for yet.
                self._undo(connection, error)
                if isinstance(error, IntegrityError):
                    raise
                raise translated(error, self._path) from error
            except BaseException as error:
                self._undo(connection, error)
                raise
            try:
                self._engine.dialect.do_commit(connection.connection)
            except sqlite3.Error as error:
                if name_of(error).startswith("SQLITE_BUSY"):  # readers kept a rollback journal from being carried out
                    self._undo(connection, error)
                    raise translated(error, self._path) from error
                self._distrust()
                raise Interrupted(f"{self.where}: {error}") from error
            except BaseException:
                self._distrust()
                raise

    def claim(self, session_id: str) -> FileClaim:
        """Take the lock file of a session, which the system frees when its owner dies."""
        self._prepare(create=True)
        return claim_file(self._claims, session_id)

    def holder(self, session_id: str) -> str | None:
        """Return who holds the lock file of a session, where the machine tells."""
        return holder_of(lock_file(self._claims, session_id))

    def settle(self) -> None:
        """Make sure that whatever a reader sees from now on is durable.

        After a failed sync the pages in memory look clean and are not on disk, so looking again proves nothing: what
        the write-ahead log holds is written once more, to the database file, and that is synced.
        """
        with self._writing:
            self._prepare(create=True)
            self._settle()

    def close(self) -> None:
        """Close all connections; the last one to close brings the write-ahead log into the file."""
        self.hold()
        self.resume()

    def hold(self) -> None:
        """Close everything and keep it closed, for the time of a fork.

        A child that inherited an open file would believe that it holds the locks of its parent.
        """
        self._writing.acquire()
        self._gate.acquire()
        self._gate.wait_for(lambda: not self._reading)
        self._close_all()

    def resume(self) -> None:
        """Go on, after a fork, in either process."""
        self._gate.release()
        self._writing.release()

    def _prepare(self, *, create: bool) -> None:
        """Make sure that the name leads to the file that was checked."""
        with usable(self._path):
            try:
                status = os.lstat(self._path)
            except FileNotFoundError:
                if self._file is not None:
                    raise self._moved() from None
                if not create:
                    raise Absent from None
                make_file(self._path, self._journal)
                status = os.lstat(self._path)
            file = (status.st_dev, status.st_ino)
            if self._file is None:
                with self._gate:
                    if self._file is None:
                        self._check()
                        self._file = file
            if self._file != file:
                raise self._moved()
            if create and not self._named:
                sync_folder(self._path.parent)  # whoever made the name may have died before syncing it
                self._named = True

    def _moved(self) -> StoreUnusable:
        return StoreUnusable(
            self.where, "was removed or replaced while it was in use; put it back, or open the store anew"
        )

    def _check(self) -> None:
        """Look at the file before anything of it is changed, then connect."""
        require_ours(self._path)
        try:
            self._journal = settle_journal(self._path, self._wanted)
            connection = self._writer_connection()
            version = _pragma(connection, "user_version")
            require_identity(self._path, _pragma(connection, "application_id"), version)
            if version != _schema.SCHEMA_VERSION:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                _schema.migrate(connection, self.where)
                connection.exec_driver_sql(f"PRAGMA user_version={_schema.SCHEMA_VERSION}")
                connection.commit()
            _schema.require_current(connection, self.where)
            connection.rollback()
        except _FAULTS as error:
            self._close_all()
            raise translated(error, self._path) from error
        except BaseException:
            self._close_all()
            raise

    def _writer_connection(self) -> Connection:
        if self._writer is None:
            self._writer = self._connect(query_only=0)
        return self._writer

    def _connect(self, *, query_only: int) -> Connection:
        """Return a connection that has every setting, each read back."""
        settings: dict[str, object] = {
            "busy_timeout": BUSY_MS,
            "trusted_schema": 0,
            "mmap_size": 0,
            "cell_size_check": 1,
            "fullfsync": 1,
            "checkpoint_fullfsync": 1,
            "query_only": query_only,
            "synchronous": _SYNCHRONOUS[self._journal],
        }
        connection = self._engine.connect()
        try:
            for name, value in settings.items():
                connection.exec_driver_sql(f"PRAGMA {name}={value}")
            for name, value in {**settings, "journal_mode": self._journal}.items():
                found = _pragma(connection, name)
                if found != value:
                    raise StoreUnusable(
                        self.where,
                        f"SQLite has {name}={found} where {value} is needed for what is acknowledged to last; close"
                        " other programs that use the file, or check how this SQLite was built",
                    )
            connection.rollback()  # nothing is open; this is for SQLAlchemy's books
        except BaseException:
            _drop(connection)
            raise
        return connection

    def _settle(self) -> None:
        self._distrust()
        try:
            connection = self._writer_connection()
            if self._journal == "wal":
                busy, _, _ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
                connection.rollback()
                if busy:
                    raise OSError(errno.EBUSY, "readers keep the write-ahead log from being carried over", self.where)
            else:
                connection.exec_driver_sql("BEGIN IMMEDIATE")  # rolls back what a failed commit left behind
                connection.rollback()
                sync_folder(self._path.parent)
        except DBAPIError as error:
            self._distrust()
            raise translated(error, self._path) from error
        self._owed = False

    def _undo(self, connection: Connection, error: BaseException) -> None:
        """End a transaction that was not committed."""
        if isinstance(error, _FAULTS) and name_of(error).startswith(_UNTRUSTED):
            self._distrust()
            return
        try:
            _driver(connection).rollback()
        except sqlite3.Error:
            self._distrust()

    def _distrust(self) -> None:
        """Drop the connection that writes; before anything else is written ``settle`` is owed."""
        self._owed = True
        writer, self._writer = self._writer, None
        _drop(writer)

    def _close_all(self) -> None:
        connections = [*self._readers, *([] if self._writer is None else [self._writer])]
        self._readers.clear()
        self._writer = None
        for connection in connections:
            _drop(connection)


def _pragma(connection: Connection, name: str) -> Any:
    return connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()


def _driver(connection: Connection) -> sqlite3.Connection:
    return cast("sqlite3.Connection", connection.connection.driver_connection)


def _drop(connection: Connection | None) -> None:
    if connection is not None:
        with contextlib.suppress(DBAPIError, sqlite3.Error):  # nothing more is expected of it
            connection.invalidate()
        connection.close()
