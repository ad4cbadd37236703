"""Connections to a PostgreSQL server that can be relied on: their settings, read back, and what their errors mean."""

from __future__ import annotations

import os
import re
import select
import socket
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import psycopg
from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

from dsh_persistence import PersistenceError, SessionCorrupt, StoreUnusable

Driver = psycopg.Connection[Any]

_OLDEST = 140_000
_PARAMETERS = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""A server that is gone is noticed within half a minute; the url may say otherwise."""
_SETTINGS = {
    "synchronous_commit": "on",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "lock_timeout": "10s",
    "statement_timeout": "0",  # it would end the wait for a synchronous standby, and the commit would count as done
    "idle_session_timeout": "0",  # claims hang on connections that may be idle for long
    "idle_in_transaction_session_timeout": "0",
}
"""What every connection has, in the server's own spelling; read back."""
_HURRY = "SET idle_in_transaction_session_timeout = '1min'"
"""A process that was stopped inside a transaction that writes holds up the others for no longer."""
_KEEPALIVE = {
    "tcp_keepalives_idle": "10s",
    "tcp_keepalives_interval": "5s",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "30s",
}
"""On the server's side, so that a host that is gone loses its claims; without effect on a unix socket."""
_SET = "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS wanted(name, value)"
_FACTS = """
    SELECT pg_backend_pid(), (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()),
      pg_is_in_recovery(), current_schema() IS NULL,
      current_setting('fsync') = 'off' AND current_setting('synchronous_standby_names') = '',
      (SELECT array_agg(current_setting(name)) FROM unnest(%s::text[]) AS wanted(name))
"""
_DAMAGE = ("XX001", "XX002")
_LASTING = ("0A", "25006", "28", "3D", "3F", "42")
"""The SQLSTATEs that pass by no waiting: no rights, no such table, read only."""
_NAMED = re.compile(r"dsh-py (\d+)@(.+)")


class _Facts(NamedTuple):
    """What the server knows a connection by, and whether it takes no writes."""

    backend: int
    started: datetime
    standby: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The connection that writes: SQLAlchemy's, the driver's, and what the server knows it by."""

    connection: Connection
    driver: Driver
    backend: int
    started: datetime


def shown(url: URL) -> str:
    """Return a url for people: no password, which may also be a parameter."""
    told = {name: value for name, value in url.query.items() if name == "options"}
    return url.set(query=told).render_as_string(hide_password=True)


def make_engine(url: URL, where: str, *, drivers: set[Driver]) -> Engine:
    """Return an engine whose connections read; ``drivers`` gets all that it makes."""
    given = {name: value for name, value in _PARAMETERS.items() if name not in url.query}
    engine = create_engine(url, hide_parameters=True, connect_args=given, max_overflow=-1, use_native_hstore=False)

    def prepare(driver: Driver, record: ConnectionPoolEntry) -> None:
        try:
            record.info["facts"] = _prepare(driver, url, where)
        except BaseException:
            driver.close()
            raise
        drivers.difference_update([one for one in drivers if one.closed])
        drivers.add(driver)

    def check(driver: Driver, _record: object, _proxy: object) -> None:
        if not answers(driver):
            raise DisconnectionError

    event.listen(engine, "connect", prepare)
    event.listen(engine, "checkout", check)
    return engine


def writing_link(engine: Engine, where: str) -> Link:
    """Return a connection that is nobody else's and writes."""
    connection = engine.connect()
    driver: Any = connection.connection.driver_connection
    facts: _Facts = connection.info["facts"]
    try:
        connection.detach()
        if facts.standby:
            raise StoreUnusable(where, "is a standby, which takes no writes; give the primary's address")
        driver.isolation_level = driver.read_only = None
        connection.exec_driver_sql(_HURRY)
        connection.commit()
    except BaseException:
        driver.close()
        raise
    return Link(connection=connection, driver=driver, backend=facts.backend, started=facts.started)


def _prepare(driver: Driver, url: URL, where: str) -> _Facts:
    """Make the settings, read them back, and refuse a server that cannot be relied on."""
    if driver.info.server_version < _OLDEST:
        raise StoreUnusable(where, "PostgreSQL 14 or newer is needed")
    wanted = {**_SETTINGS, **_KEEPALIVE}
    if "application_name" not in url.query:
        wanted["application_name"] = f"dsh-py {os.getpid()}@{socket.gethostname()}"
    driver.autocommit = True  # what is set in a transaction is undone with it
    driver.execute(_SET, [list(wanted), list(wanted.values())])
    backend, started, standby, homeless, unsynced, found = driver.execute(_FACTS, [list(_SETTINGS)]).fetchall()[0]
    driver.autocommit = False
    if backend != driver.info.backend_pid:
        raise StoreUnusable(
            where,
            "a connection pooler stands between, and claims need a connection of their own; give the server's address",
        )
    if unsynced:  # full_page_writes=off is right on storage that writes pages whole, and not refused
        raise StoreUnusable(where, "the server runs with fsync=off, and may lose what it has acknowledged")
    if homeless:
        raise StoreUnusable(where, "no schema of its search_path exists; create one, or name another")
    for (name, value), has in zip(_SETTINGS.items(), found, strict=True):
        if has != value:
            raise StoreUnusable(where, f"the server keeps {name} at {has}, and {value} is needed")
    driver.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    driver.read_only = True
    return _Facts(backend, started, standby)


def answers(driver: Driver) -> bool:
    """Tell whether a connection is alive; asks the server only when that has said something unasked, as at its end."""
    try:
        poll = select.poll()
        poll.register(driver.fileno(), select.POLLIN)
        if poll.poll(0):
            driver.execute("SELECT 1")
            driver.rollback()
    except psycopg.Error:
        return False
    return True


def meaning(error: DBAPIError, where: str) -> OSError | PersistenceError:
    """Say in the store's words what the server or its driver says."""
    code: str = getattr(error.orig, "sqlstate", None) or ""
    told = " ".join(str(error.orig).split())
    if code in _DAMAGE:
        return SessionCorrupt(where, f"the server finds damage: {told}")
    if code.startswith(_LASTING):
        return StoreUnusable(where, told)
    return OSError(f"{where}: {told}")


def has_died(name: str) -> bool:
    """Tell whether a connection's name is that of a process which has died on this host."""
    named = _NAMED.fullmatch(name)
    if named is None or named[2] != socket.gethostname():
        return False
    try:
        os.kill(int(named[1]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def for_people(name: str, address: str | None) -> str:
    """Say who has a connection of that name and address."""
    named = _NAMED.fullmatch(name)
    if named is None:
        return f"{name or 'somebody'} at {address or 'the server itself'}"
    return f"process {named[1]} on {named[2]}"
