"""The tables, their version, and how an older version becomes the current one.

Every text that may hold anything at all is stored as bytes, UTF-8 with lone surrogates passed through: PostgreSQL has
no text with NUL in it, and neither database has one with surrogates.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    insert,
    select,
    update,
)

from dsh_persistence import SessionCorrupt, StoreUnusable

APPLICATION_ID = 0x44534853
"""``DSHS``: what a SQLite file of ours has at byte 68."""
SCHEMA_VERSION = 1
"""The version that this build reads and writes; a SQLite file has it at byte 60 as well."""
MIGRATIONS: dict[int, Callable[[Connection], None]] = {}
"""What makes version n + 1 out of version n, inside the transaction that raises the version."""
CHECKSUM_BYTES = 16
_encode = msgspec.msgpack.Encoder().encode


class Bytes(LargeBinary):
    """Bytes as the drivers take and give them; wrapping every value would cost more than storing it."""

    cache_ok = True

    def bind_processor(self, dialect: object) -> None:
        """Hand values over as they are."""

    def result_processor(self, dialect: object, coltype: object) -> None:
        """Take values as they are."""


_INT = BigInteger().with_variant(Integer(), "sqlite")
METADATA = MetaData()

# One row. It tells whose tables these are, and how many sessions there have to be: one that vanished is damage.
store = Table(
    "store",
    METADATA,
    Column("id", _INT, CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
    Column("store_id", Bytes, nullable=False),
    Column("schema_version", _INT, nullable=False),
    Column("session_count", _INT, nullable=False),
    Column("checksum", Bytes, nullable=False),
    sqlite_strict=True,
)

# The order of the columns is the order in which the checksum covers them; those up to the incarnation never change.
sessions = Table(
    "sessions",
    METADATA,
    Column("session_id", Bytes, primary_key=True),
    Column("created_at", _INT, nullable=False),
    Column("cwd", Bytes),
    Column("parent_session", Bytes),
    Column("is_seeded", _INT, nullable=False),
    Column("seed_length", _INT),
    Column("origin", Bytes),
    Column("delegation_depth", _INT, nullable=False),
    Column("agent_preset", Bytes),
    Column("sandbox_mode", Bytes),
    Column("approval_policy", Bytes),
    Column("generation", _INT, nullable=False),
    Column("incarnation", _INT, nullable=False),
    Column("revision", _INT, nullable=False),
    Column("next_seq", _INT, nullable=False),
    Column("chain", Bytes, nullable=False),
    Column("checksum", Bytes, nullable=False),
    sqlite_strict=True,
)

events = Table(
    "events",
    METADATA,
    Column("session_id", Bytes, nullable=False),
    Column("seq", _INT, nullable=False),
    Column("type", Bytes, nullable=False),
    Column("time", _INT, nullable=False),
    Column("data", Bytes, nullable=False),
    Column("source_event_seqs", Bytes),
    Column("surface_op", Bytes),
    Column("ignorable", _INT, nullable=False),
    Column("chain", Bytes, nullable=False),
    PrimaryKeyConstraint("session_id", "seq"),
    sqlite_strict=True,
)


class StoreRow(msgspec.Struct, frozen=True):
    """The store's one row, whose checksum fits."""

    store_id: bytes
    schema_version: int
    session_count: int

    def with_sessions(self, more: int) -> StoreRow:
        """Return the row when sessions were added."""
        return msgspec.structs.replace(self, session_count=self.session_count + more)


def checksum(values: tuple[Any, ...]) -> bytes:
    """Return the digest of values: bytes, whole numbers, and None, as a MessagePack array in its shortest form."""
    return blake2b(_encode(values), digest_size=CHECKSUM_BYTES).digest()


def create_tables(connection: Connection) -> None:
    """Make the tables of a new store, with their one row, in the transaction that is open."""
    METADATA.create_all(connection, checkfirst=False)
    row = (secrets.token_bytes(16), SCHEMA_VERSION, 0)
    values = zip(("store_id", "schema_version", "session_count", "checksum"), (*row, checksum((1, *row))), strict=True)
    connection.execute(insert(store).values(id=1, **dict(values)))


_STORE_ROW = select(store)
_STORE_ROW_ALONE = _STORE_ROW.with_for_update()  # in SQLite a transaction that writes is alone anyway


def read_store(connection: Connection, where: str, *, alone: bool = False) -> StoreRow:
    """Return the store's row; ``alone`` keeps others from it until the transaction ends, so that it can be replaced.

    Raises ``SessionCorrupt`` when it is damaged or gone.
    """
    rows = connection.execute(_STORE_ROW_ALONE if alone else _STORE_ROW).fetchall()
    if len(rows) != 1 or rows[0][-1] != checksum(tuple(rows[0][:-1])):
        raise SessionCorrupt(where, "the store's own row is damaged or gone; restore a copy of the database")
    return StoreRow(*rows[0][1:-1])


def write_store(connection: Connection, row: StoreRow) -> None:
    """Replace the store's row."""
    values = msgspec.structs.asdict(row)
    connection.execute(update(store).values(**values, checksum=checksum((1, *values.values()))))


def check_version(version: int, where: str) -> None:
    """Raise ``StoreUnusable`` for a version that this build neither reads nor migrates."""
    if not 1 <= version <= SCHEMA_VERSION:
        raise StoreUnusable(
            where,
            f"has schema version {version}, and this build knows 1 to {SCHEMA_VERSION}; a newer dsh-py wrote it, or it"
            " is no store of ours. Upgrade dsh-persistence-sqlite, or give another place",
        )


def require_current(connection: Connection, where: str) -> None:
    """Raise ``StoreUnusable`` unless the store's row is of the current version, as the head of its file says."""
    try:
        version = read_store(connection, where).schema_version
    except SessionCorrupt:
        return  # the sessions can be read all the same; a listing tells of it, and no new one is stored
    check_version(version, where)
    if version != SCHEMA_VERSION:
        raise StoreUnusable(where, f"is half of schema version {version}; restore a copy of the database")


def migrate(connection: Connection, where: str) -> None:
    """Bring older tables to the current version, in the transaction that is open; nothing when they are current."""
    row = read_store(connection, where, alone=True)
    check_version(row.schema_version, where)
    for version in range(row.schema_version, SCHEMA_VERSION):
        MIGRATIONS[version](connection)
    if row.schema_version != SCHEMA_VERSION:
        write_store(connection, msgspec.structs.replace(row, schema_version=SCHEMA_VERSION))
