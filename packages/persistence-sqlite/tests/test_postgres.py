"""What a PostgreSQL server must be like, whose tables are used, and who holds a session."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from sqlalchemy import make_url, text

from dsh_persistence import SeqConflict, SessionBusy, SessionCorrupt, SessionNotFound, StoreUnusable
from dsh_persistence_sqlite import SqlLogStore
from dsh_session import EncodedBatch, Session, SessionEvent, SessionHeader, encode_data

testing = pytest.importorskip("services.testing", reason="the server of the tests is started by integration/services")
between = pytest.importorskip("services.between")
psycopg = testing.postgres_driver()
from dsh_persistence_sqlite._postgres import PostgresDatabase  # noqa: E402  # needs the driver

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # no thread of ours takes part

EVENTS = 50
MEGABYTES = 15


def header(session_id: str = "s") -> SessionHeader:
    return SessionHeader(id=session_id, created_at=7, cwd="/w")


def batch(first: int, count: int = 1) -> EncodedBatch:
    events = [
        SessionEvent(type="todo/write", seq=first + step, time=5, encoded=b'{"n":%d}' % (first + step))
        for step in range(count)
    ]
    return EncodedBatch(first_seq=first, events=tuple(events))


@pytest.fixture
def server() -> Any:
    return testing.postgres_server()


@pytest.fixture
def url(server: Any) -> str:
    found: str = testing.fresh_schema(server)
    return found


@pytest.fixture
def open_store(url: str) -> Iterator[Callable[..., SqlLogStore]]:
    """Open a store over the schema, or over another url; all are closed in the end."""
    with ExitStack() as stack:

        def open_it(other: str | None = None) -> SqlLogStore:
            store = SqlLogStore(other or url)
            stack.callback(store.close)
            return store

        yield open_it


@contextmanager
def administrator(url: str) -> Iterator[Any]:
    """A connection of somebody else's to the same schema."""
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        yield connection


@contextmanager
def configured(url: str, name: str, value: str) -> Iterator[None]:
    """The server runs with another setting for a while."""
    with administrator(url) as connection:
        connection.execute(f"ALTER SYSTEM SET {name} = {value}")
        connection.execute("SELECT pg_reload_conf()")
        try:
            while connection.execute(f"SHOW {name}").fetchone() != (value,):
                pass  # the server reads it when it gets to it
            yield
        finally:
            connection.execute(f"ALTER SYSTEM RESET {name}")
            connection.execute("SELECT pg_reload_conf()")
            while connection.execute(f"SHOW {name}").fetchone() == (value,):
                pass


def cut_off(url: str) -> None:
    """End every connection of this process's stores on the server, and wait until they are gone."""
    with administrator(url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name LIKE 'dsh-py %'"
        )


class TestSettings:
    def test_read_back(self, url: str) -> None:
        """What durability and claims need is set on each connection, whatever the role's defaults are."""
        wanted = {
            "synchronous_commit": "on",
            "default_transaction_isolation": "read committed",
            "statement_timeout": "0",
            "lock_timeout": "10s",
            "idle_session_timeout": "0",
            "tcp_keepalives_idle": "10",
        }
        with administrator(url) as connection:
            for name in ("synchronous_commit = off", "statement_timeout = 5000", "idle_session_timeout = 5000"):
                connection.execute(f"ALTER ROLE dsh SET {name}")
            try:
                database = PostgresDatabase(make_url(url))
                with database.writing() as writer, database.reading() as reader:
                    for one in (writer, reader):
                        assert {name: one.execute(text(f"SHOW {name}")).scalar() for name in wanted} == wanted
                    assert reader.execute(text("SHOW transaction_isolation")).scalar() == "repeatable read"
                    assert reader.execute(text("SHOW transaction_read_only")).scalar() == "on"
                database.close()
            finally:
                connection.execute("ALTER ROLE dsh RESET ALL")

    def test_unsynced_server(self, url: str, open_store: Callable[..., SqlLogStore]) -> None:
        """A server that does not sync is refused before anything is made."""
        with configured(url, "fsync", "off"), pytest.raises(StoreUnusable, match="fsync=off"):
            open_store().create(header()).append(batch(0))
        assert list(open_store().list()) == []

    def test_pooler(self, server: Any, open_store: Callable[..., SqlLogStore]) -> None:
        """A connection whose server process is not the one that was announced goes through a pooler, and is refused."""
        with between.Between(server.port, hides_backends=True) as pooler:
            through = open_store(testing.fresh_schema(server, port=pooler.port))
            with pytest.raises(StoreUnusable, match="pooler"):
                through.create(header()).append(batch(0))
            with pytest.raises(StoreUnusable, match="pooler"):
                through.read("s")
        with between.Between(server.port) as plain:
            store = open_store(testing.fresh_schema(server, port=plain.port))
            store.create(header()).append(batch(0))
            store.close()

    def test_passwords(self, server: Any, url: str) -> None:
        """A password is in no message, wherever in the url it stands."""
        parts = make_url(url)
        for other in (parts.set(password="sesame"), parts.set(password=None).update_query_dict({"password": "sesame"})):
            store = SqlLogStore(other)
            with pytest.raises(OSError, match="authentication failed") as caught:
                store.read("s")
            error: BaseException | None = caught.value
            told = [store.where, repr(store)]
            while error is not None:
                told += [str(error), repr(error)]
                error = error.__cause__
            assert [one for one in told if "sesame" in one] == []


class TestTables:
    def test_absent(self, url: str, open_store: Callable[..., SqlLogStore]) -> None:
        """Reading makes no table."""
        store = open_store()
        assert list(store.list()) == []
        with pytest.raises(SessionNotFound):
            store.open("s")
        with administrator(url) as connection:
            found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
            assert found.fetchall() == []

    def test_foreign(self, url: str, open_store: Callable[..., SqlLogStore]) -> None:
        """Somebody else's table of one of our names is neither used nor changed."""
        with administrator(url) as connection:
            connection.execute("CREATE TABLE sessions (id int)")
            connection.execute("INSERT INTO sessions VALUES (1)")
            with pytest.raises(StoreUnusable, match="somebody else's"):
                open_store().create(header()).append(batch(0))
            with pytest.raises(StoreUnusable, match="somebody else's"):
                list(open_store().list())
            assert connection.execute("SELECT * FROM sessions").fetchall() == [(1,)]
            found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
            assert found.fetchall() == [("sessions",)]

    def test_a_schema_that_is_not_there(self, server: Any, open_store: Callable[..., SqlLogStore]) -> None:
        """Tables are made in no other schema than the one that was named."""
        store = open_store(server.url_of("postgres", options="-csearch_path%3Dnowhere"))
        with pytest.raises(StoreUnusable, match="no schema"):
            store.create(header()).append(batch(0))
        with pytest.raises(StoreUnusable, match="no schema"):
            list(store.list())

    def test_a_newer_version(self, url: str, open_store: Callable[..., SqlLogStore]) -> None:
        """Tables of a newer version are left alone."""
        from dsh_persistence_sqlite._schema import SCHEMA_VERSION, checksum

        open_store().create(header()).append(batch(0))
        with administrator(url) as connection:
            (store_id,) = connection.execute("SELECT store_id FROM store").fetchone()
            new = SCHEMA_VERSION + 1
            connection.execute(
                "UPDATE store SET schema_version = %s, checksum = %s", [new, checksum((1, store_id, new, 1))]
            )
        for act in (lambda: open_store().read("s"), lambda: open_store().create(header("t")).append(batch(0))):
            with pytest.raises(StoreUnusable, match="version"):
                act()

    def test_tables_that_vanish(self, url: str, open_store: Callable[..., SqlLogStore]) -> None:
        """Tables that were there are not made again: a store does not come back empty."""
        store = open_store()
        writer = store.create(header())
        writer.append(batch(0))
        with administrator(url) as connection:
            connection.execute("DROP TABLE store, sessions, events")
        cut_off(url)
        for _ in range(2):
            with pytest.raises(StoreUnusable):
                writer.append(batch(1))
            with pytest.raises(StoreUnusable):
                store.read("s")

    def test_flipped_bytes(self, url: str, open_store: Callable[..., SqlLogStore]) -> None:
        """A changed row is damage, for readers and for whoever wants to go on."""
        with open_store().create(header()) as writer:
            writer.append(batch(0, 3))
        with administrator(url) as connection:
            connection.execute("UPDATE events SET data = '{\"n\":7}'::bytea WHERE seq = 1")
        with pytest.raises(SessionCorrupt):
            list(open_store().read("s").events)
        with pytest.raises(SessionCorrupt):
            open_store().open("s")

    def test_eight_at_once(self, url: str, open_store: Callable[..., SqlLogStore]) -> None:
        """D01: eight processes make the tables at the same time, and write a session each; none of them fails."""
        context = multiprocessing.get_context("fork")
        gate = context.Barrier(8)
        processes = [context.Process(target=_write_one, args=(url, f"s{n}", gate)) for n in range(8)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        assert [process.exitcode for process in processes] == [0] * 8
        store = open_store()
        assert [one.problem for one in store.list()] == [None] * 8
        for number in range(8):
            assert tuple(store.read(f"s{number}").events) == batch(0, EVENTS).events


class TestContent:
    def test_nul(self, open_store: Callable[..., SqlLogStore]) -> None:
        """B03: NUL, and a backslash with a u behind it, come back byte for byte."""
        session = Session(header("b\0\ud800"))
        for data in ({"out": "W\0s\0l"}, {"k\0ey": 1}, {"out": "\\u0000"}, {"out": "\ud83d"}):
            session.append("plugin:x/y\0", data)
        store = open_store()
        store.create(session.header).append(session.batch(0))
        stored = open_store().read("b\0\ud800")
        assert [event.encoded for event in stored.events] == [event.encoded for event in session.events]
        assert [event.data for event in stored.events] == [event.data for event in session.events]

    def test_large(self, open_store: Callable[..., SqlLogStore]) -> None:
        """An event of many megabytes is one row."""
        encoded = encode_data("todo/write", {"text": os.urandom(1 << 19).hex() * MEGABYTES})
        event = SessionEvent(type="todo/write", seq=0, time=5, encoded=encoded)
        open_store().create(header()).append(EncodedBatch(first_seq=0, events=(event,)))
        (stored,) = open_store().read("s").events
        assert stored == event


class TestClaims:
    def test_two_hosts(self, open_store: Callable[..., SqlLogStore]) -> None:
        """A second writer is refused, and told who the first one is; the claim goes with its holder's leave."""
        one, other = open_store(), open_store()
        writer = one.create(header())
        writer.append(batch(0))
        for store in (one, other):
            with pytest.raises(SessionBusy):
                store.open("s")
        assert str(os.getpid()) in (other.holder("s") or "")
        writer.close()
        assert other.holder("s") is None
        other.open("s").close()

    def test_schemas_are_apart(self, server: Any, open_store: Callable[..., SqlLogStore]) -> None:
        """The same id in two schemas of a database is two sessions."""
        for _ in range(2):
            open_store(testing.fresh_schema(server)).create(header()).append(batch(0))

    def test_killed_owner(self, url: str, open_store: Callable[..., SqlLogStore]) -> None:
        """A killed process loses its claims; whoever comes before the server has noticed waits for that."""
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        process = context.Process(target=_hold, args=(url, theirs))
        process.start()
        ours.recv()
        with pytest.raises(SessionBusy, match=str(process.pid)):
            open_store().open("s")
        with administrator(url) as connection, ThreadPoolExecutor(1) as pool:
            asked = "SELECT pid FROM pg_stat_activity WHERE application_name"
            backends = connection.execute(f"{asked} LIKE 'dsh-py {process.pid}@%'").fetchall()
            for (backend,) in backends:
                os.kill(backend, signal.SIGSTOP)
            os.kill(process.pid or 0, signal.SIGKILL)
            process.join()
            opened = pool.submit(open_store(f"{url}&application_name=next").open, "s")
            while not connection.execute(f"{asked} = 'next' AND query LIKE '%pg_locks%'").fetchall():
                pass  # it has not been refused yet
            for (backend,) in backends:
                os.kill(backend, signal.SIGCONT)
            opened.result().close()

    def test_forks(self, url: str, open_store: Callable[..., SqlLogStore]) -> None:
        """A child has nothing of its parent's: neither its connection nor its claims; they end with the parent."""
        store = open_store()
        writer = store.create(header())
        writer.append(batch(0))
        child = multiprocessing.get_context("fork").Process(target=_in_a_child, args=(store, writer))
        child.start()
        child.join()
        assert child.exitcode == 0
        writer.append(batch(1))
        assert tuple(store.read("s").events) == batch(0, 2).events

    def test_a_child_keeps_no_claim_alive(self, url: str, open_store: Callable[..., SqlLogStore]) -> None:
        """What a killed process held is free also while a child of it lives on."""
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        process = context.Process(target=_hold_with_a_child, args=(url, ours, theirs))
        process.start()
        theirs.close()
        assert ours.recv() == "held"
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        open_store().open("s").close()
        ours.send("end")
        assert ours.recv() == "the child lives"
        ours.close()

    def test_cut_off(self, url: str, open_store: Callable[..., SqlLogStore]) -> None:
        """A writer whose connection was ended goes on with another one, and has its claim again."""
        store = open_store()
        writer = store.create(header())
        writer.append(batch(0))
        cut_off(url)
        writer.append(batch(1))
        with pytest.raises(SessionBusy):
            open_store().open("s")
        assert tuple(store.read("s").events) == batch(0, 2).events

    def test_taken_over(self, url: str, open_store: Callable[..., SqlLogStore]) -> None:
        """A writer that lost its claim to another one writes nothing, neither beside it nor after it."""
        writer = open_store().create(header())
        writer.append(batch(0))
        cut_off(url)
        other = open_store().open("s")
        with pytest.raises(SessionBusy):
            writer.append(batch(1))
        other.append(batch(1, 2))
        with pytest.raises(SessionBusy):
            writer.append(batch(1))
        other.close()
        with pytest.raises(SeqConflict):
            writer.append(batch(1))
        assert tuple(open_store().read("s").events) == batch(0, 3).events

    def test_given_back(self, url: str, open_store: Callable[..., SqlLogStore]) -> None:
        """A writer that lost its claim to one who wrote nothing and left goes on."""
        writer = open_store().create(header())
        writer.append(batch(0))
        cut_off(url)
        with open_store().open("s"), pytest.raises(SessionBusy):
            writer.append(batch(1))
        writer.append(batch(1))
        with pytest.raises(SessionBusy):
            open_store().open("s")


def test_a_failed_statement(url: str) -> None:
    """A transaction in which a statement failed is never taken for committed."""
    database = PostgresDatabase(make_url(url))
    with pytest.raises(OSError, match="nothing was written"), database.writing() as connection:
        connection.execute(text("UPDATE store SET session_count = 5"))
        with pytest.raises(Exception, match="division by zero"):
            connection.execute(text("SELECT 1/0"))
    with database.reading() as connection:
        assert connection.execute(text("SELECT session_count FROM store")).scalar() == 0
    database.close()


def test_an_unclosed_store(url: str) -> None:
    """The connections of a store that nobody closed end when nobody can reach it any more."""
    store = SqlLogStore(f"{url}&application_name=forgotten")
    store.create(header()).append(batch(0))
    store.read("s")
    backends = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'forgotten'"
    with administrator(url) as connection:
        assert connection.execute(backends).fetchone() == (2,)
        del store
        gc.collect()
        while connection.execute(backends).fetchone() != (0,):
            pass  # the server notices on its own


def _write_one(url: str, session_id: str, gate: Any) -> None:
    store = SqlLogStore(url)
    gate.wait()
    with store.create(header(session_id)) as writer:
        for seq in range(EVENTS):
            writer.append(batch(seq))
    store.close()


def _hold(url: str, connection: Any) -> None:
    store = SqlLogStore(url)
    try:
        writer = store.open("s")
    except SessionNotFound:
        writer = store.create(header())
        writer.append(batch(0))
    connection.send("held")
    connection.recv()
    writer.close()


def _hold_with_a_child(url: str, other: Any, connection: Any) -> None:
    other.close()
    writer = SqlLogStore(url).create(header())
    writer.append(batch(0))
    if os.fork() == 0:
        connection.recv()
        connection.send("the child lives")
        os._exit(0)
    connection.send("held")
    signal.pause()


def _in_a_child(store: SqlLogStore, writer: Any) -> None:
    assert tuple(store.read("s").events) == batch(0).events
    with pytest.raises(SessionBusy):
        store.open("s")
    with pytest.raises(SessionBusy):
        writer.append(batch(1))
    writer.close()
    with store.create(header("child")) as mine:
        mine.append(batch(0))
    store.close()
