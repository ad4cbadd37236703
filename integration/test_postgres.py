"""A PostgreSQL server that is killed under its writers: what was acknowledged is there, and they go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import pytest
from services.postgres import Server
from services.testing import fresh_schema, postgres_server

from dsh_persistence import OutcomeUnknown, Receipt
from dsh_persistence_sqlite import SqlLogStore, SqlLogWriter
from dsh_session import EncodedBatch, SessionEvent, SessionHeader

KILLS = 4
BETWEEN_KILLS = 150
"""So many batches are acknowledged before the server is killed again."""


@pytest.fixture
def server() -> Iterator[Server]:
    postgres_server()  # skips where there is none to be had
    with Server() as server:
        yield server


def batch(first: int, count: int) -> EncodedBatch:
    events = [
        SessionEvent(type="todo/write", seq=first + step, time=5, encoded=b'{"n":%d}' % (first + step))
        for step in range(count)
    ]
    return EncodedBatch(first_seq=first, events=tuple(events))


class Writers:
    """Threads that write sessions of one store each, alone or as a group, and never give a batch up."""

    def __init__(self, url: str) -> None:
        self.acknowledged: dict[str, int] = {}
        self.batches = 0
        self.errors: list[BaseException] = []
        self._enough = threading.Event()
        self._url = url
        plans: Sequence[Sequence[str]] = [["a"], ["b"], ["c", "d", "e"]]
        self._threads = [threading.Thread(target=self._run, args=(ids,)) for ids in plans]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Let each finish the batch that it is at."""
        self._enough.set()
        for thread in self._threads:
            thread.join()

    def _run(self, ids: Sequence[str]) -> None:
        try:
            with closing(SqlLogStore(self._url)) as store:
                writers = [store.create(SessionHeader(id=one, created_at=7, cwd="/w")) for one in ids]
                while not self._enough.is_set():
                    self._write(store, dict(zip(ids, writers, strict=True)))
                for writer in writers:
                    writer.close()
        except BaseException as error:  # noqa: BLE001  # told by the test
            self.errors.append(error)

    def _write(self, store: SqlLogStore, writers: dict[str, SqlLogWriter]) -> None:
        """Write a batch to each, as often as it takes."""
        owed = {one: batch(writer.next_seq, 1 + writer.next_seq % 3) for one, writer in writers.items()}
        answers = store.append_group([(writers[one], owed[one]) for one in owed])
        for (one, its), first_answer in zip(owed.items(), answers, strict=True):
            answer = first_answer
            while not isinstance(answer, Receipt):
                answer = _again(writers[one], its, answer)
            assert answer.next_seq == its.next_seq
            self.acknowledged[one] = answer.next_seq
            self.batches += 1


def _again(writer: SqlLogWriter, its: EncodedBatch, error: Exception) -> Receipt | Exception:
    """Do what the contract says about an error."""
    act: Callable[[EncodedBatch], Receipt]
    if isinstance(error, OutcomeUnknown):
        act = writer.resend
    elif isinstance(error, OSError):
        act = writer.append
    else:
        raise error
    time.sleep(0.01)
    try:
        return act(its)
    except (OSError, OutcomeUnknown) as another:
        # A resend that failed for another reason is owed still.
        return error if isinstance(error, OutcomeUnknown) else another


def test_killed_server(server: Server) -> None:
    """Nothing acknowledged is lost, nothing is there twice, logs are sound, and writers need no help to go on."""
    url = fresh_schema(server)
    writers = Writers(url)
    try:
        for _ in range(KILLS):
            enough = writers.batches + BETWEEN_KILLS
            while writers.batches < enough and not writers.errors:
                time.sleep(0.001)
            server.kill()
            acknowledged = dict(writers.acknowledged)
            server.start()
            with closing(SqlLogStore(url)) as reader:
                for session_id, next_seq in acknowledged.items():
                    found = tuple(reader.read(session_id).events)
                    assert len(found) >= next_seq
                    assert found == batch(0, len(found)).events
    finally:
        writers.end()
    assert writers.errors == []
    with closing(SqlLogStore(url)) as reader:
        assert [one.problem for one in reader.list()] == [None] * 5
        for session_id, next_seq in writers.acknowledged.items():
            assert tuple(reader.read(session_id).events) == batch(0, next_seq).events
