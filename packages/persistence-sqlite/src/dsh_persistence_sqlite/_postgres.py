"""The store in PostgreSQL: a connection that writes and holds the claims, and a few that read.

A claim is an advisory lock of the server's, held by the very connection that writes: whoever loses the one has lost the
other. A new connection first sees the old one's end on the server, so that nothing it sent is still under way, and
takes the claims again before it writes.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from hashlib import blake2b

from sqlalchemy import URL, Connection, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from dsh_persistence import SessionBusy, StoreUnusable

from ._database import Absent, Interrupted
from ._forks import watch_forks
from ._postgres_link import Driver, Link, answers, for_people, has_died, make_engine, meaning, shown, writing_link
from ._schema import METADATA, SCHEMA_VERSION, check_version, create_tables, migrate, read_store, store
from ._text import to_bytes

_GONE_S = 10
"""How long the end of a connection's predecessor, or of a dead holder's connection, is waited for."""
_SEE_END = text("SELECT pg_terminate_backend(pid, :ms) FROM pg_stat_activity WHERE pid = :pid AND backend_start = :at")
_BARRIER = text("SELECT pg_logical_emit_message(true, 'dsh', '')")
_COLUMNS = text(
    "SELECT c.relname, a.attname FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0"
    " WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())"
    " AND c.relname = ANY(:names)"
)
_ALONE = text("SELECT pg_advisory_xact_lock(CAST(:key AS bigint))")
_TAKE = text("SELECT key, pg_try_advisory_lock(key) FROM unnest(CAST(:keys AS bigint[])) AS key")
_FREE = text("SELECT pg_advisory_unlock(CAST(:key AS bigint))")
_HOLDER = text(
    "SELECT coalesce(a.application_name, ''), host(a.client_addr) FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
    " WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1"
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND CAST(l.classid AS bigint) << 32 | CAST(l.objid AS bigint) = CAST(:key AS bigint)"
)


class PostgresDatabase:
    """The tables in the current schema of a PostgreSQL database."""

    kind = "postgresql"

    def __init__(self, url: URL) -> None:
        """Connect to nothing yet."""
        self.where = shown(url)
        self._pid = os.getpid()
        self._drivers: set[Driver] = set()
        """All connections. A store that nobody closed closes them when nobody can reach it any more."""
        weakref.finalize(self, _close, self._drivers)
        self._engine = make_engine(url, self.where, drivers=self._drivers)
        self._lock = threading.RLock()
        """Held by whoever writes, claims or releases."""
        self._link: Link | None = None
        """The connection that writes."""
        self._predecessors: list[Link] = []
        """Those that were given up, and whose end on the server was not seen yet."""
        self._store_id = b""
        self._claims: dict[int, PostgresClaim] = {}
        watch_forks(self)

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """Give a connection in a read-only snapshot. Raises ``Absent`` when there are no tables."""
        with self._translated(), self._engine.connect() as connection:
            if not self._store_id and self._find_store(connection) < SCHEMA_VERSION:
                with self.writing():
                    pass  # which migrates
                connection.rollback()
            yield connection

    @contextmanager
    def writing(self) -> Generator[Connection]:
        """Give the connection that holds the claims, in a transaction; tables that are missing are made first."""
        with self._lock, self._translated():
            link = self._writer()
            try:
                link.connection.begin()
                yield link.connection
            except BaseException:
                self._undo(link)
                raise
            self._commit(link)

    def claim(self, session_id: str) -> PostgresClaim:
        """Take the session's lock. A holder whose process has died on this host is given the time to vanish."""
        deadline = time.monotonic() + _GONE_S
        while True:
            with self._lock, self._translated():
                link = self._writer()
                claim = PostgresClaim(self, session_id, _key(self._store_id, session_id))
                if claim.key in self._claims:
                    raise SessionBusy(session_id, "another writer of this process")
                try:
                    name, address = self._take(link.connection, claim)
                finally:
                    self._undo(link)  # a session's lock takes no part in its transactions
                if claim.held:
                    self._claims[claim.key] = claim
                    return claim
            if not (name is None or has_died(name)) or time.monotonic() > deadline:
                raise SessionBusy(session_id, for_people(name or "", address))
            time.sleep(0.01)

    def require(self, claim: PostgresClaim) -> None:
        """Take a lost claim again. Raises ``SessionBusy`` when somebody has it. For whoever is inside ``writing``."""
        if self._claims.get(claim.key) is not claim or self._link is None:
            raise SessionBusy(claim.session_id, "nobody any more: this claim was given up, or is another process's")
        if not claim.held:
            name, address = self._take(self._link.connection, claim)
            if not claim.held:
                raise SessionBusy(claim.session_id, for_people(name or "", address))

    def release(self, claim: PostgresClaim) -> None:
        """Give a claim up; when the server cannot be told, the connection goes, and the lock with it."""
        with self._lock:
            if self._claims.get(claim.key) is not claim:
                return  # given up before, or a parent process's
            del self._claims[claim.key]
            if claim.held and self._link is not None:
                try:
                    self._link.connection.execute(_FREE, {"key": claim.key})
                    self._link.connection.rollback()
                except DBAPIError:
                    self._drop()

    def holder(self, session_id: str) -> str | None:
        """Return who has claimed a session, for people; None when nobody has."""
        with suppress(Absent), self.reading() as connection:
            row = connection.execute(_HOLDER, {"key": _key(self._store_id, session_id)}).first()
            return None if row is None else for_people(row[0], row[1])
        return None

    def settle(self) -> None:
        """See the end of the connection that failed, and commit: what came before is then as durable as that commit."""
        with self.writing() as connection:
            connection.execute(_BARRIER)

    def close(self) -> None:
        """Close every connection, and with them every claim."""
        with self._lock:
            self._claims.clear()
            self._drop()
            self._engine.dispose()

    def hold(self) -> None:
        """Keep the connection that writes idle while this process forks."""
        self._lock.acquire()

    def resume(self) -> None:
        """Go on after a fork; a child leaves to its parent what is the parent's, and begins anew."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            # Nothing of the child's, not even a farewell, may reach the server, nor may the child keep a connection
            # open that ends with its parent: its descriptors lead nowhere before they are closed.
            nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            for driver in self._drivers:
                if not driver.closed:
                    os.dup2(nowhere, driver.fileno(), inheritable=False)
            os.close(nowhere)
            _close(self._drivers)
            self._link = None
            self._predecessors.clear()
            self._claims.clear()
            self._engine.dispose(close=False)  # a thread that is not here may have held the pool's locks
        self._lock.release()

    def _writer(self) -> Link:
        """Return the connection that writes; a new one when there is none or the server has hung up."""
        if self._link is not None and not answers(self._link.driver):
            self._drop()
        if self._link is None:
            self._link = self._connect()
        return self._link

    def _connect(self) -> Link:
        link = writing_link(self._engine, self.where)
        connection = link.connection
        try:
            self._see_end_of_predecessors(connection)
            self._open_store(connection)
            connection.rollback()
            for key, held in connection.execute(_TAKE, {"keys": list(self._claims)}):
                self._claims[key].held = held
            connection.rollback()
        except BaseException:
            self._give_up(link)
            raise
        return link

    def _see_end_of_predecessors(self, connection: Connection) -> None:
        """Wait until earlier connections have ended on the server as well: their last transactions are decided then."""
        while self._predecessors:
            link = self._predecessors[-1]
            asked = {"pid": link.backend, "at": link.started, "ms": _GONE_S * 1000}
            if connection.execute(_SEE_END, asked).scalar() is False:
                raise OSError(f"{self.where}: an earlier connection of ours is still at work there; try again")
            self._predecessors.pop()

    def _open_store(self, connection: Connection) -> None:
        """Make the tables where there are none, migrate older ones, and see that they are those of before."""
        known = self._store_id
        try:
            version = self._find_store(connection)
        except Absent:
            if known:
                raise StoreUnusable(self.where, "the tables are gone; restore a copy of the database") from None
            version = 0
        if version < SCHEMA_VERSION:
            connection.execute(_ALONE, {"key": _key(b"", "schema")})  # the others wait, and find it done
            try:
                self._find_store(connection)
            except Absent:
                create_tables(connection)
                self._find_store(connection)
            migrate(connection, self.where)
            connection.commit()
        if known and known != self._store_id:
            self._store_id = known
            raise StoreUnusable(self.where, "holds another store than before; open it anew to work with that one")

    def _find_store(self, connection: Connection) -> int:
        """Learn whose tables these are; return their version. Raises ``Absent``, or refuses somebody else's."""
        found: dict[str, set[str]] = {}
        for table, column in connection.execute(_COLUMNS, {"names": list(METADATA.tables)}):
            found.setdefault(table, set()).add(column)
        if not found:
            raise Absent
        if found.keys() != METADATA.tables.keys() or not found[store.name].issuperset(store.columns.keys()):
            raise StoreUnusable(
                self.where,
                f"somebody else's tables have the names of ours ({', '.join(sorted(found))}); nothing was changed. Give"
                " another database, or another schema with ?options=-csearch_path%3DNAME",
            )
        row = read_store(connection, self.where)
        check_version(row.schema_version, self.where)
        self._store_id = row.store_id
        return row.schema_version

    @staticmethod
    def _take(connection: Connection, claim: PostgresClaim) -> tuple[str | None, str | None]:
        """Try to take a claim's lock; return the name and the address of whoever has it instead."""
        claim.held = bool(connection.execute(_TAKE, {"keys": [claim.key]}).one()[1])
        holder = None if claim.held else connection.execute(_HOLDER, {"key": claim.key}).first()
        return (None, None) if holder is None else (holder[0], holder[1])

    def _commit(self, link: Link) -> None:
        if link.driver.info.transaction_status.name == "INERROR":  # a commit would roll back, and say nothing
            self._undo(link)
            raise OSError(f"{self.where}: a statement of the transaction had failed; nothing was written")
        try:
            link.connection.commit()
        except DBAPIError as error:
            if not link.driver.closed:  # the server has answered: it was rolled back
                self._undo(link)
                raise
            self._drop()
            raise Interrupted(f"{self.where}: the connection was lost while a transaction was committed") from error
        except BaseException:
            self._drop()
            raise

    def _undo(self, link: Link) -> None:
        with suppress(DBAPIError):
            link.connection.rollback()
        if link.driver.closed or link.driver.info.transaction_status.name != "IDLE":
            self._drop()

    def _drop(self) -> None:
        """Let the connection that writes go, whatever state it is in."""
        link, self._link = self._link, None
        if link is not None:
            self._give_up(link)

    def _give_up(self, link: Link) -> None:
        self._predecessors.append(link)
        link.driver.close()

    @contextmanager
    def _translated(self) -> Generator[None]:
        """Turn the driver's errors into what the seam promises."""
        try:
            yield
        except IntegrityError:
            raise
        except DBAPIError as error:
            raise meaning(error, self.where) from error


class PostgresClaim:
    """A session's lock, as long as the connection that holds it lives or its successor gets it again."""

    __slots__ = ("_database", "held", "key", "session_id")

    def __init__(self, database: PostgresDatabase, session_id: str, key: int) -> None:
        self._database = database
        self.session_id = session_id
        self.key = key
        self.held = False

    def require(self) -> None:
        """Raise ``SessionBusy`` when it was lost and somebody else has it. Called inside ``writing``."""
        self._database.require(self)

    def release(self) -> None:
        """Give it up."""
        self._database.release(self)


def _key(store_id: bytes, session_id: str) -> int:
    """Return the number of a session's lock: such numbers are shared by all schemas of a database."""
    digest = blake2b(to_bytes(session_id), key=store_id, digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _close(drivers: set[Driver]) -> None:
    for driver in drivers:
        driver.close()
    drivers.clear()
