"""What a database url may be, and the database behind it."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from dsh_persistence import StoreUnusable

from ._database import Database
from ._sqlite import SqliteDatabase
from ._sqlite_file import Journal

_FORMS = "sqlite:////absolute/path.db, sqlite:///relative.db or postgresql+psycopg://user:password@host/name"


def open_database(url: str | URL, *, journal: Journal | None = None) -> Database:
    """Return the database of a url; nothing is touched yet. Raises ``StoreUnusable`` for one that cannot be used."""
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        # Made absolute once: the process may change its directory later.
        return SqliteDatabase(Path(cast("str", parsed.database)).absolute(), journal=journal)
    where = _shown(parsed)
    if journal is not None:
        raise StoreUnusable(where, f"journal={journal!r} is a setting of SQLite; leave it out")
    try:
        from ._postgres import PostgresDatabase  # noqa: PLC0415  # its driver is an extra, and slow to load
    except ImportError as error:
        raise StoreUnusable(
            where, f"needs psycopg ({error}); pip install 'dsh-persistence-sqlite[postgres]'"
        ) from error
    return PostgresDatabase(parsed)


def _parse(url: str | URL) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # Not repeated: it may hold a password that only the parser failed to see.
        raise StoreUnusable("the database url", f"cannot be parsed; give {_FORMS}") from None
    where = _shown(parsed)
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite", "postgresql+psycopg"):
        raise StoreUnusable(where, f"{parsed.drivername} is not supported; give {_FORMS}")
    if parsed.get_backend_name() == "sqlite":
        if parsed.database is None or parsed.database in ("", ":memory:") or parsed.database.startswith("file:"):
            raise StoreUnusable(where, "names no file, so nothing would outlive the process; give a path")
        if parsed.query or parsed.host:
            raise StoreUnusable(where, f"only a path is taken, without host or parameters; give {_FORMS}")
    return parsed


def _shown(url: URL) -> str:
    """Return a url without anything that may be secret: a parameter may be a password, too."""
    return url.set(query={}).render_as_string(hide_password=True)
