"""Commits that are not answered: what is said of them is true, nothing is lost, and nothing is there twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from dsh_persistence import OutcomeUnknown, Receipt, SeqConflict
from dsh_persistence_sqlite import SqlLogStore
from dsh_session import EncodedBatch, SessionEvent, SessionHeader

testing = pytest.importorskip("services.testing", reason="the server of the tests is started by integration/services")
between = pytest.importorskip("services.between")
psycopg = testing.postgres_driver()

SLOW_S = 0.5


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
def proxy(server: Any) -> Iterator[Any]:
    with between.Between(server.port) as proxy:
        yield proxy


@pytest.fixture
def url(server: Any, proxy: Any) -> str:
    """Leads through the proxy."""
    found: str = testing.fresh_schema(server, port=proxy.port)
    return found


@pytest.fixture
def open_store(url: str, server: Any, proxy: Any) -> Iterator[Callable[..., SqlLogStore]]:
    with ExitStack() as stack:

        def open_it(*, direct: bool = False) -> SqlLogStore:
            store = SqlLogStore(url.replace(f":{proxy.port}/", f":{server.port}/") if direct else url)
            stack.callback(store.close)
            return store

        yield open_it


@pytest.fixture
def slow_commits(server: Any, url: str, open_store: Callable[..., SqlLogStore]) -> None:
    """Every commit of an event takes a while on the server; the tables are there already."""
    with open_store().create(header("first")) as writer:
        writer.append(batch(0))
    direct = server.url.replace("+psycopg", "") + "?" + url.split("?")[1]
    with psycopg.connect(direct, autocommit=True) as connection:
        connection.execute(
            f"CREATE FUNCTION wait() RETURNS trigger AS 'BEGIN PERFORM pg_sleep({SLOW_S}); RETURN NULL; END'"
            " LANGUAGE plpgsql"
        )
        connection.execute(
            "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION wait()"
        )


@pytest.mark.parametrize("first", [0, 2])
def test_before_the_server(first: int, proxy: Any, open_store: Callable[..., SqlLogStore]) -> None:
    """A commit that never reached the server: the batch is said not to be there, is not, and can be tried again."""
    writer = begun(open_store, first)
    proxy.cut = "before"
    with pytest.raises(OSError, match="not written"):
        writer.append(batch(first, 3))
    assert stored(open_store) == batch(0, first).events
    assert writer.append(batch(first, 3)).next_seq == first + 3
    assert stored(open_store) == batch(0, first + 3).events


@pytest.mark.parametrize("first", [0, 2])
def test_after_the_server(first: int, proxy: Any, open_store: Callable[..., SqlLogStore]) -> None:
    """A commit whose answer was lost: the batch is found, acknowledged, and there once."""
    writer = begun(open_store, first)
    proxy.cut = "after"
    assert writer.append(batch(first, 3)).next_seq == first + 3
    assert stored(open_store) == batch(0, first + 3).events
    assert writer.append(batch(first + 3)).next_seq == first + 4
    assert stored(open_store) == batch(0, first + 4).events


@pytest.mark.usefixtures("slow_commits")
@pytest.mark.parametrize("first", [0, 2])
def test_while_the_server_commits(first: int, proxy: Any, open_store: Callable[..., SqlLogStore]) -> None:
    """A commit that is still under way on the server is decided before anything is said of it."""
    writer = begun(open_store, first)
    proxy.cut = "during"
    try:
        writer.append(batch(first))
    except OSError:
        assert stored(open_store) == batch(0, first).events
        writer.append(batch(first))
    assert stored(open_store) == batch(0, first + 1).events
    writer.append(batch(first + 1))
    assert stored(open_store) == batch(0, first + 2).events


@pytest.mark.parametrize("cut", ["before", "during", "after"])
def test_an_unreachable_server(cut: str, proxy: Any, open_store: Callable[..., SqlLogStore]) -> None:
    """While nobody can tell, the outcome is unknown; a resend settles it, and the batch is there once."""
    writer = begun(open_store, 2)
    proxy.cut, proxy.refuses = cut, True
    with pytest.raises(OutcomeUnknown):
        writer.append(batch(2, 3))
    with pytest.raises(OutcomeUnknown):
        writer.resend(batch(2, 3))
    proxy.refuses = False
    try:
        receipt = writer.resend(batch(2, 3))
    except OSError:
        receipt = writer.resend(batch(2, 3))
    assert receipt.next_seq == 5
    assert stored(open_store) == batch(0, 5).events
    writer.append(batch(5))
    assert stored(open_store) == batch(0, 6).events


def test_a_successor_of_a_lost_answer(proxy: Any, open_store: Callable[..., SqlLogStore]) -> None:
    """Somebody else went on with the log meanwhile: the batch is there and acknowledged, the next one conflicts."""
    writer = begun(open_store, 2)
    proxy.cut, proxy.refuses = "after", True
    with pytest.raises(OutcomeUnknown):
        writer.append(batch(2))
    with open_store(direct=True).open("s") as other:
        assert other.next_seq == 3
        other.append(batch(3))
    proxy.refuses = False
    assert writer.resend(batch(2)).next_seq == 3
    with pytest.raises(SeqConflict):
        writer.append(batch(3))
    assert stored(open_store) == batch(0, 4).events


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_group(cut: str, proxy: Any, open_store: Callable[..., SqlLogStore]) -> None:
    """The batches of a group share one commit, and what becomes of it."""
    store = open_store()
    writers = [store.create(header(f"s{number}")) for number in range(3)]
    writers[0].append(batch(0))
    proxy.cut = cut
    answers = store.append_group([(writer, batch(writer.next_seq, 2)) for writer in writers])
    assert [isinstance(answer, Receipt) for answer in answers] == [cut == "after"] * 3
    if cut == "before":
        answers = store.append_group([(writer, batch(writer.next_seq, 2)) for writer in writers])
    assert [answer.next_seq for answer in answers if isinstance(answer, Receipt)] == [3, 2, 2]
    assert [tuple(store.read(f"s{number}").events) for number in range(3)] == [
        batch(0, count).events for count in (3, 2, 2)
    ]
    assert [one.problem for one in store.list()] == [None] * 3


def begun(open_store: Callable[..., SqlLogStore], count: int) -> Any:
    """A writer of ``count`` events whose store is connected."""
    store = open_store()
    with store.create(header("other")) as other:
        other.append(batch(0))
    writer = store.create(header())
    writer.append(batch(0, count))
    return writer


def stored(open_store: Callable[..., SqlLogStore]) -> tuple[SessionEvent, ...]:
    """What a reader finds who does not go through the proxy; nothing when there is no session."""
    store = open_store(direct=True)
    listed = [one for one in store.list() if one.header is not None and one.header.id == "s"]
    assert [one.problem for one in store.list() if one.problem is not None] == []
    return tuple(store.read("s").events) if listed else ()
