"""The SQLite file itself: how it comes to be, whose it is, and what its errors mean.

SQLite's locks belong to the process and end when any descriptor of the file is closed, so the file is only ever opened
through SQLite; what else is asked of it is asked of its name.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import secrets
import sqlite3
import stat
import time
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from sqlalchemy import NullPool, create_engine
from sqlalchemy.exc import DBAPIError

from dsh_persistence import PersistenceError, SessionCorrupt, StoreUnusable
from dsh_persistence.files import make_folders, sync_file

from . import _schema
from ._mounts import network_file_system

Journal = Literal["wal", "delete"]
"""How SQLite makes a transaction whole: a write-ahead log, or a rollback journal where that cannot work."""

BUSY_MS = 30_000
"""How long SQLite waits for another process's transaction."""
_SWITCH_S = 5.0
_IDENTITY = ("application_id", "user_version")
_BESIDE = ("-wal", "-shm", "-journal")
_MAGICS = {
    "-journal": (bytes.fromhex("d9d505f920a163d7"),),
    "-wal": (bytes.fromhex("377f0682"), bytes.fromhex("377f0683")),
}
"""How a rollback journal and a write-ahead log begin (SQLite's file format §3, §4.1)."""


def open_file(path: Path) -> sqlite3.Connection:
    """Return a bare connection to a file that exists."""
    uri = f"file:{quote(os.fsencode(path))}?mode=rw"  # never makes a file
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_MS / 1000)


def make_file(path: Path, journal: Journal) -> None:
    """Make the file whole under another name, then give it its own: who opens it never sees less. Not synced by name.

    Does nothing when somebody else is faster.
    """
    if sqlite3.sqlite_version_info < (3, 37):
        raise StoreUnusable(
            str(path), f"needs SQLite 3.37 for strict tables, and this Python has {sqlite3.sqlite_version}"
        )
    _require_journal_works(path, journal)
    make_folders(path.parent, root=path.parent)
    made = path.parent / f".{path.name}.{secrets.token_hex(8)}.new"
    try:
        os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        _build(made, journal)
        os.link(made, path)
    except (OSError, DBAPIError) as error:
        # Whoever was faster takes away what others have begun, and that file is as good.
        if not os.path.lexists(path):
            if isinstance(error, DBAPIError):
                raise translated(error, path) from error
            raise
    finally:
        _unlink(made)
    _remove_begun(path)


def require_ours(path: Path) -> None:
    """Look whose file it is, changing nothing and taking no lock. Raises ``StoreUnusable``."""
    status = os.lstat(path)
    if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        _remove_begun(path)  # perhaps the one who made it died before taking the other name away
        status = os.lstat(path)
    _require_regular(path, status)
    for name in _BESIDE:
        beside = f"{path}{name}"
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(os.lstat(beside).st_mode):
                raise StoreUnusable(beside, "is no regular file; it lies where SQLite keeps its own")
    uri = f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1"
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as probe:
            # Also where a kill left the write-ahead log half carried over, and the file is shorter than its head says.
            probe.execute("PRAGMA writable_schema=ON")
            found = [probe.execute(f"PRAGMA {name}").fetchone()[0] for name in _IDENTITY]
    except sqlite3.OperationalError as error:
        raise StoreUnusable(str(path), f"cannot be opened: {error}") from error
    except sqlite3.DatabaseError as error:
        if _is_mended_on_opening(path):
            return  # whose it is shows then
        raise StoreUnusable(str(path), f"is no SQLite database, or its head is damaged: {error}") from error
    require_identity(path, found[0], found[1])


def _is_mended_on_opening(path: Path) -> bool:
    """Tell whether SQLite has kept beside a file what a power cut may have torn in it, such as its head."""
    for name, magics in _MAGICS.items():
        with contextlib.suppress(OSError):
            fd = os.open(f"{path}{name}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                if os.read(fd, 8).startswith(magics):
                    return True
            finally:
                os.close(fd)
    return False


def require_identity(path: Path, application_id: int, version: int) -> None:
    """Raise ``StoreUnusable`` for a file of somebody else, or of a version that is not known here."""
    if application_id != _schema.APPLICATION_ID:
        raise StoreUnusable(
            str(path),
            f"is not a store of sessions: its application id is {application_id:#x} and not"
            f" {_schema.APPLICATION_ID:#x}; it was left as it is, give another path",
        )
    _schema.check_version(version, str(path))


def settle_journal(path: Path, wanted: Journal | None) -> Journal:
    """Return the journal that a file has, after changing it where another one is wanted. Raises ``StoreUnusable``."""
    give_up = time.monotonic() + _SWITCH_S
    with contextlib.closing(open_file(path)) as connection:
        while True:
            found = connection.execute("PRAGMA journal_mode").fetchone()[0]
            journal: Journal = wanted or ("wal" if found == "wal" else "delete")
            _require_journal_works(path, journal)
            if found == journal:
                return journal
            identity = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in _IDENTITY]
            require_identity(path, identity[0], identity[1])  # of a file that SQLite has had to mend, only now
            # It needs the file for itself, and SQLite does not wait for that.
            try:
                changed = connection.execute(f"PRAGMA journal_mode={journal}").fetchone()[0]
            except sqlite3.OperationalError as error:
                if not name_of(error).startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                    raise
                changed = found
            if changed == journal:
                continue
            if time.monotonic() > give_up:
                raise StoreUnusable(
                    str(path),
                    f"has journal mode {found}, and cannot get {journal} while others have it open; close them, or"
                    " leave the journal out",
                )
            time.sleep(0.05)


def name_of(error: Exception) -> str:
    """Return SQLite's name for an error, such as ``SQLITE_IOERR_FSYNC``; empty for one of the driver."""
    return str(getattr(error.orig if isinstance(error, DBAPIError) else error, "sqlite_errorname", ""))


def translated(error: DBAPIError | sqlite3.Error | UnicodeDecodeError, path: Path) -> OSError | PersistenceError:
    """Say in the store's words what SQLite says; a message that is no UTF-8 quotes a damaged schema."""
    where, name = str(path), name_of(error)
    text = str(error.orig if isinstance(error, DBAPIError) else error)
    match name.split("_")[1] if "_" in name else "":
        case "BUSY" | "LOCKED":
            return OSError(errno.EBUSY, f"{text}: another process is using it", where)
        case "FULL":
            return OSError(errno.ENOSPC, text, where)
        case "IOERR" | "NOMEM" | "INTERRUPT" | "PROTOCOL":
            return OSError(errno.EIO, f"{text} ({name})", where)
        case "CANTOPEN" | "READONLY" | "PERM" | "AUTH" | "TOOBIG" | "NOLFS":
            return StoreUnusable(where, f"cannot be used: {text} ({name})")
        case "":  # raised by the driver: a text that is no UTF-8, where no column of ours holds text
            return SessionCorrupt(where, "SQLite finds it damaged: a name or a value is no text")
        case _:
            return SessionCorrupt(where, f"SQLite finds it damaged: {text} ({name})")


def _require_regular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "no regular file"
        raise StoreUnusable(str(path), f"is {kind}; give the path of the database file itself")
    if status.st_nlink != 1:
        raise StoreUnusable(
            str(path), "has another name as well, beside which SQLite would keep another log; remove one of them"
        )


def _require_journal_works(path: Path, journal: Journal) -> None:
    kind = network_file_system(path.parent) if journal == "wal" else None
    if kind is not None:
        raise StoreUnusable(
            str(path),
            f"lies on a network file system ({kind}), where a write-ahead log is damaged sooner or later; open it with"
            ' journal="delete", or move it to a local disk',
        )


def _build(made: Path, journal: Journal) -> None:
    engine = create_engine("sqlite://", creator=lambda: open_file(made), poolclass=NullPool, hide_parameters=True)
    with engine.connect() as connection:
        for pragma in ("journal_mode=DELETE", "synchronous=EXTRA", "fullfsync=ON", "trusted_schema=OFF"):
            connection.exec_driver_sql(f"PRAGMA {pragma}")
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        connection.exec_driver_sql(f"PRAGMA application_id={_schema.APPLICATION_ID}")
        connection.exec_driver_sql(f"PRAGMA user_version={_schema.SCHEMA_VERSION}")
        _schema.create_tables(connection)
        connection.commit()
        connection.exec_driver_sql(f"PRAGMA journal_mode={journal}")
    fd = os.open(made, os.O_RDWR | os.O_CLOEXEC)
    try:
        sync_file(fd)
    finally:
        with contextlib.suppress(OSError):  # it has been synced
            os.close(fd)


def _remove_begun(path: Path) -> None:
    """Remove what others have begun to make; they find the file that is there."""
    for begun in path.parent.glob(f".{glob.escape(path.name)}.*.new*"):
        _unlink(begun)


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):  # it is in nobody's way
        path.unlink(missing_ok=True)
