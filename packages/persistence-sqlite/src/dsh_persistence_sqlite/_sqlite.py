"""A SQLite file as the store's database.

SQLite's locks belong to the process and end when any descriptor of the file is closed, so the file is only ever opened
through SQLite; what else is asked of it is asked of its name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import sqlite3
import stat
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from sqlalchemy import Connection, NullPool, create_engine
from sqlalchemy.exc import DBAPIError, IntegrityError

from dsh_persistence import PersistenceError, SessionBusy, SessionCorrupt, StoreUnusable
from dsh_persistence.files import Lease, make_folders, sync_file, sync_folder, usable

from . import _schema
from ._database import Absent, Interrupted
from ._forks import watch_forks
from ._mounts import network_file_system
from ._text import to_bytes

Journal = Literal["wal", "delete"]
"""How SQLite makes a transaction whole: a write-ahead log, or a rollback journal where that cannot work."""

BUSY_MS = 30_000
"""How long SQLite waits for another process's transaction."""
_SWITCH_S = 5.0
_SYNCHRONOUS: dict[str, int] = {"wal": 2, "delete": 3}
"""FULL syncs every commit of a write-ahead log; a rollback journal needs EXTRA, which syncs its removal as well."""
_BESIDE = ("-wal", "-shm", "-journal")


class SqliteDatabase:
    """One file, a connection that writes and a few that read."""

    kind = "sqlite"

    def __init__(self, path: Path, *, journal: Journal | None = None) -> None:
        """``journal`` None means what the file has, and ``wal`` for a new one."""
        self.where = str(path)
        self._path = path
        self._wanted = journal
        self._journal: Journal = "wal" if journal is None else journal
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
            "sqlite://", creator=self._connected, poolclass=NullPool, hide_parameters=True, echo=False
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
            connection.exec_driver_sql("BEGIN")
            yield connection
            connection.rollback()
        except DBAPIError as error:
            _drop(connection)
            connection = None
            raise self._translated(error) from error
        except BaseException:
            if connection is not None:
                connection.rollback()
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
            try:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                yield connection
            except DBAPIError as error:
                # Nothing was committed: that was not asked for yet.
                self._undo(connection, error)
                if isinstance(error, IntegrityError):
                    raise
                raise self._translated(error) from error
            except BaseException as error:
                self._undo(connection, error)
                raise
            try:
                connection.commit()
            except DBAPIError as error:
                if _name(error).startswith("SQLITE_BUSY"):  # readers kept a rollback journal from being carried out
                    self._undo(connection, error)
                    raise self._translated(error) from error
                self._distrust()
                raise Interrupted(f"{self.where}: {error.orig}") from error
            except BaseException:
                self._distrust()
                raise

    def claim(self, session_id: str) -> FileClaim:
        """Take the lock file of a session, which the system frees when its owner dies."""
        self._prepare(create=True)
        folder = Path(f"{self.where}.claims")
        with usable(folder):
            try:
                os.mkdir(folder, 0o700)  # noqa: PTH102  # as files are made everywhere here
            except FileExistsError:
                if not stat.S_ISDIR(os.lstat(folder).st_mode):
                    raise StoreUnusable(str(folder), "is no folder; the locks of the sessions lie there") from None
            name = blake2b(to_bytes(session_id), digest_size=16).hexdigest()
            return FileClaim(Lease(folder / f"{name}.lock", session_id), session_id)

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
        with self._writing, self._gate:
            self._gate.wait_for(lambda: not self._reading)
            self._close_all()

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

    # The file

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
                self._create()
                status = os.lstat(self._path)
            file = (status.st_dev, status.st_ino)
            if self._file is None:
                with self._gate:
                    if self._file is None:
                        self._check(status)
                        self._file = file
            if self._file != file:
                raise self._moved()
            if create and not self._named:
                sync_folder(self._path.parent)  # an earlier run may have died between making the name and syncing it
                self._named = True

    def _moved(self) -> StoreUnusable:
        return StoreUnusable(
            self.where, "was removed or replaced while it was in use; put it back, or open the store anew"
        )

    def _create(self) -> None:
        """Make the file whole under another name, then give it its own: who opens it never sees less."""
        folder = self._path.parent
        self._require_wal_works(self._journal)
        make_folders(folder, root=folder)
        made = folder / f".{self._path.name}.{secrets.token_hex(8)}.new"
        try:
            os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            self._build(made)
            os.link(made, self._path)
        except (OSError, DBAPIError) as error:
            # Whoever was faster takes away what others have begun, and that file is as good.
            if not os.path.lexists(self._path):
                if isinstance(error, DBAPIError):
                    raise self._translated(error) from error
                raise
        finally:
            _unlink(made)
        self._remove_begun()

    def _build(self, made: Path) -> None:
        engine = create_engine("sqlite://", creator=lambda: _open(made), poolclass=NullPool, hide_parameters=True)
        with engine.connect() as connection:
            for pragma in ("journal_mode=DELETE", "synchronous=EXTRA", "fullfsync=ON", "trusted_schema=OFF"):
                connection.exec_driver_sql(f"PRAGMA {pragma}")
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            connection.exec_driver_sql(f"PRAGMA application_id={_schema.APPLICATION_ID}")
            connection.exec_driver_sql(f"PRAGMA user_version={_schema.SCHEMA_VERSION}")
            _schema.create_tables(connection)
            connection.commit()
            connection.exec_driver_sql(f"PRAGMA journal_mode={self._journal}")
        fd = os.open(made, os.O_RDWR | os.O_CLOEXEC)
        try:
            sync_file(fd)
        finally:
            with contextlib.suppress(OSError):  # it has been synced
                os.close(fd)

    def _remove_begun(self) -> None:
        """Remove what others have begun to make; they find the file that is there."""
        for begun in self._path.parent.glob(f".{self._path.name}.*.new*"):
            _unlink(begun)

    def _check(self, status: os.stat_result) -> None:
        """Look at a file before anything of it is changed, and connect. Raises ``StoreUnusable``."""
        if status.st_nlink > 1:  # perhaps it was made by somebody who died before taking the other name away
            self._remove_begun()
            status = os.lstat(self._path)
        self._require_regular(status)
        for name in _BESIDE:
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISREG(os.lstat(self.where + name).st_mode):
                    raise StoreUnusable(self.where + name, "is no regular file; it lies where SQLite keeps its own")
        self._require_ours()
        try:
            self._switch_journal()
            connection = self._writer_connection()
            self._require_identity(*_identity(connection))
            if _identity(connection)[1] != _schema.SCHEMA_VERSION:
                self._migrate(connection)
            connection.exec_driver_sql("BEGIN")
            _schema.read_store(connection, self.where)
            connection.rollback()
        except (DBAPIError, sqlite3.Error) as error:
            self._close_all()
            raise self._translated(error) from error
        except BaseException:
            self._close_all()
            raise

    def _require_regular(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "no regular file"
            raise StoreUnusable(self.where, f"is {kind}; give the path of the database file itself")
        if status.st_nlink != 1:
            raise StoreUnusable(
                self.where, "has another name as well, beside which SQLite would keep another log; remove one of them"
            )

    def _require_ours(self) -> None:
        """Look whose file it is through a connection that takes no lock and makes nothing."""
        uri = f"file:{quote(os.fsencode(self._path))}?mode=ro&immutable=1"
        try:
            with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as probe:
                found = [probe.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
        except sqlite3.OperationalError as error:
            raise StoreUnusable(self.where, f"cannot be opened: {error}") from error
        except sqlite3.DatabaseError as error:
            raise StoreUnusable(self.where, f"is no SQLite database, or its head is damaged: {error}") from error
        self._require_identity(found[0], found[1])

    def _require_identity(self, application_id: int, version: int) -> None:
        if application_id != _schema.APPLICATION_ID:
            raise StoreUnusable(
                self.where,
                f"is not a store of sessions: its application id is {application_id:#x} and not"
                f" {_schema.APPLICATION_ID:#x}; it was left as it is, give another path",
            )
        _schema.check_version(version, self.where)

    def _migrate(self, connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        try:
            _schema.migrate(connection, self.where)
            connection.exec_driver_sql(f"PRAGMA user_version={_schema.SCHEMA_VERSION}")
            connection.commit()
        except BaseException:
            connection.rollback()
            raise

    # Connections

    def _connected(self) -> sqlite3.Connection:
        return _open(self._path)

    def _writer_connection(self) -> Connection:
        if self._writer is None:
            self._writer = self._connect(query_only=0)
        return self._writer

    def _connect(self, *, query_only: int) -> Connection:
        """Return a connection that has every setting, each read back."""
        connection = self._engine.connect()
        try:
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
            connection.rollback()  # nothing is open; SQLAlchemy's own books
        except BaseException:
            _drop(connection)
            raise
        return connection

    def _switch_journal(self) -> None:
        """Find out the journal that the file has, and change it where another one was asked for."""
        with contextlib.closing(_open(self._path)) as connection:
            give_up = time.monotonic() + _SWITCH_S
            while True:
                found = connection.execute("PRAGMA journal_mode").fetchone()[0]
                self._journal = self._wanted or _journal_of(found)
                self._require_wal_works(self._journal)
                if found == self._journal:
                    return
                # It needs the file for itself, and SQLite does not wait for that.
                with contextlib.suppress(sqlite3.OperationalError):
                    connection.execute(f"PRAGMA journal_mode={self._journal}").fetchone()
                    continue
                if time.monotonic() > give_up:
                    raise StoreUnusable(
                        self.where,
                        f"has journal mode {found}, and cannot get {self._journal} while others have it open; close"
                        " them, or leave the journal out",
                    )
                time.sleep(0.05)

    def _require_wal_works(self, journal: Journal) -> None:
        kind = network_file_system(self._path.parent) if journal == "wal" else None
        if kind is not None:
            raise StoreUnusable(
                self.where,
                f"lies on a network file system ({kind}), where a write-ahead log is damaged sooner or later; open it"
                ' with journal="delete", or move it to a local disk',
            )

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
            raise self._translated(error) from error
        self._owed = False

    def _undo(self, connection: Connection, error: BaseException) -> None:
        """End a transaction that was not committed."""
        if isinstance(error, DBAPIError) and _name(error).startswith(("SQLITE_IOERR", "SQLITE_FULL")):
            self._distrust()
            return
        try:
            connection.rollback()
        except DBAPIError:
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

    def _translated(self, error: DBAPIError | sqlite3.Error) -> OSError | PersistenceError:
        """Say in the store's words what SQLite says."""
        name, text = _name(error), str(error.orig if isinstance(error, DBAPIError) else error)
        match name.split("_")[1] if "_" in name else "":
            case "BUSY" | "LOCKED":
                return OSError(errno.EBUSY, f"{text}: another process is using it", self.where)
            case "FULL":
                return OSError(errno.ENOSPC, text, self.where)
            case "IOERR" | "NOMEM" | "INTERRUPT" | "PROTOCOL":
                return OSError(errno.EIO, f"{text} ({name})", self.where)
            case "CANTOPEN" | "READONLY" | "PERM" | "AUTH" | "TOOBIG" | "NOLFS":
                return StoreUnusable(self.where, f"cannot be used: {text} ({name})")
            case "":  # raised by the driver: a text that is no UTF-8, where there is no text in any column of ours
                return SessionCorrupt(self.where, "a value is not of the kind that its column holds")
            case _:
                return SessionCorrupt(self.where, f"SQLite finds it damaged: {text} ({name})")


class FileClaim:
    """The lock file of one session."""

    def __init__(self, lease: Lease, session_id: str) -> None:
        self._lease: Lease | None = lease
        self._session_id = session_id
        self._pid = os.getpid()

    def require(self) -> None:
        """Raise ``SessionBusy`` in a fork of the owner: the two of them would share the lock."""
        if self._pid != os.getpid():
            raise SessionBusy(self._session_id, f"process {self._pid}, of which this one is a fork")

    def release(self) -> None:
        """Remove the lock file; in a fork of its owner it stays, for it is still the owner's."""
        lease, self._lease = self._lease, None
        if lease is not None:
            if self._pid == os.getpid():
                lease.discard()
            else:
                lease.close()


def _open(path: Path) -> sqlite3.Connection:
    uri = f"file:{quote(os.fsencode(path))}?mode=rw"  # never makes a file
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_MS / 1000)


def _journal_of(mode: str) -> Journal:
    return "wal" if mode == "wal" else "delete"


def _pragma(connection: Connection, name: str) -> Any:
    return connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()


def _identity(connection: Connection) -> tuple[int, int]:
    found = (_pragma(connection, "application_id"), _pragma(connection, "user_version"))
    connection.rollback()
    return found


def _name(error: DBAPIError | sqlite3.Error) -> str:
    """Return SQLite's name for an error, such as ``SQLITE_IOERR_FSYNC``; empty for one of the driver."""
    return str(getattr(error.orig if isinstance(error, DBAPIError) else error, "sqlite_errorname", ""))


def _drop(connection: Connection | None) -> None:
    if connection is not None:
        with contextlib.suppress(DBAPIError, sqlite3.Error):  # nothing more is expected of it
            connection.invalidate()
        connection.close()


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):  # it is in nobody's way
        path.unlink(missing_ok=True)
