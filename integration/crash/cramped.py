"""`python -m crash.cramped HOW ROOT`: a writer where something runs out, inside a container that sees to it.

It checks for itself that what fails fails with the right error, that nothing acknowledged suffers, and that the same
writer goes on once there is room again. `memory` has no end but the kernel's.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dsh_persistence import PersistenceError, SessionPersistence, StoreUnusable
from dsh_persistence_jsonl import JsonlLogStore
from dsh_session import Session

from .check import judge, picture
from .story import Story, stop_the_clock
from .workload import Pen

FIRST, SECOND = "one-a", "two-b"


def space(root: Path) -> None:
    """The file system fills up: the append says so, what was acknowledged stands, and room makes it work again."""
    ballast, story, store = root.parent / "ballast", Story(FIRST), JsonlLogStore(root)
    with store.create(story.header) as writer:
        writer.append(story.batch_at(0))
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        batch = _fill(lambda: writer.append(story.batch_at(writer.next_seq)))
        assert batch.errno == errno.ENOSPC, batch
        _same(store, story, writer.next_seq)
        with pytest.raises(OSError, match="No space") as again:
            writer.append(story.batch_at(writer.next_seq))
        assert again.value.errno == errno.ENOSPC
        ballast.unlink()
        writer.append(story.batch_at(writer.next_seq))
    judge(root, Counter({FIRST: writer.next_seq}))


def inodes(root: Path) -> None:
    """No file can be made: a session that exists goes on, a new one is refused and leaves nothing behind."""
    first, second, store = Story(FIRST), Story(SECOND), JsonlLogStore(root)
    with store.create(first.header) as writer, store.create(second.header) as other:
        writer.append(first.batch_at(0))
        ballast = list(_fill_with_files(root.parent))
        writer.append(first.batch_at(writer.next_seq))
        for _ in range(2):
            with pytest.raises(OSError, match="No space"):
                other.append(second.batch_at(0))
        assert [entry.header.id for entry in store.list() if entry.header] == [FIRST]
        for path in ballast:
            path.unlink()
        other.append(second.batch_at(0))
    judge(root, Counter({FIRST: writer.next_seq, SECOND: other.next_seq}))


def read_only(root: Path) -> None:
    """Nothing can be written: everything can be read, and writing fails with an error that names the place."""
    store, before = JsonlLogStore(root), picture(root)
    (entry,) = store.list()
    assert entry.header is not None
    session_id = entry.header.id
    stored = store.read(session_id)
    assert list(store.scan(session_id)) == list(stored.events)
    assert asyncio.run(_inspected(store, session_id)) == stored.next_seq
    with pytest.raises(StoreUnusable, match="Read-only"):
        store.open(session_id)
    with pytest.raises(StoreUnusable, match="Read-only"):
        asyncio.run(_loaded(store, session_id))
    story = Story(SECOND)
    with store.create(story.header) as writer, pytest.raises(StoreUnusable, match="Read-only"):
        writer.append(story.batch_at(0))
    assert picture(root) == before


def memory(root: Path) -> None:
    """Memory runs out: the kernel ends it in the middle of something."""
    pen, eaten = Pen(JsonlLogStore(root), FIRST), []
    while True:
        pen.write(1)
        eaten.append(b"x" * (1 << 20))


def processes(root: Path) -> None:
    """No thread and no process can be started: the coordinator keeps the events, and writes them when one can."""
    asyncio.run(_without_processes(root))
    judge(root, Counter({FIRST: Story(FIRST).batch_at(0).next_seq}))


async def _without_processes(root: Path) -> None:
    story = Story(FIRST)
    async with SessionPersistence(JsonlLogStore(root)) as persistence:
        session = Session(story.header)
        persistence.attach(session)
        children = list(_all_the_processes())
        assert children
        session.extend(story.batch_at(0).events)
        try:
            with contextlib.suppress(PersistenceError):  # it may also have a thread to spare
                await asyncio.wait_for(persistence.flush(), 10)
        finally:
            for child in children:
                child.kill()
                child.wait()
        await asyncio.wait_for(persistence.flush(), 10)
        assert persistence.health(FIRST).queued == 0


def _all_the_processes() -> Iterator[subprocess.Popen[bytes]]:
    with contextlib.suppress(OSError):
        while True:
            yield subprocess.Popen(["sleep", "60"])


async def _inspected(store: JsonlLogStore, session_id: str) -> int:
    async with SessionPersistence(store) as persistence:
        assert len(await persistence.list()) == 1
        return (await persistence.inspect(session_id)).next_seq


async def _loaded(store: JsonlLogStore, session_id: str) -> None:
    async with SessionPersistence(store) as persistence:
        await persistence.load(session_id)


def _fill(append: Callable[[], object]) -> OSError:
    while True:
        try:
            append()
        except OSError as error:
            return error


def _fill_with_files(folder: Path) -> Iterator[Path]:
    number = 0
    with contextlib.suppress(OSError):
        while True:
            path = folder / f"ballast-{number}"
            path.touch(exist_ok=False)
            yield path
            number += 1


def _same(store: JsonlLogStore, story: Story, count: int) -> None:
    assert list(store.read(story.header.id).events) == story.events(count)


HOW = {"space": space, "inodes": inodes, "read-only": read_only, "memory": memory, "processes": processes}

if __name__ == "__main__":
    stop_the_clock()
    if os.geteuid() == 0:
        sys.exit("a container's user is no root: limits would mean something else")
    HOW[sys.argv[1]](Path(sys.argv[2]))
