"""Batches of several logs, written one after the other and synced side by side."""

from __future__ import annotations

import errno
import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dsh_persistence import ForeignChange, OutcomeUnknown, Receipt
from dsh_persistence.contract.faults import Fault, failing
from dsh_persistence_jsonl import JsonlLogStore, JsonlLogWriter, _writer
from dsh_persistence_jsonl._group import HELPERS
from dsh_session import EncodedBatch, SessionHeader

Made = Any  # the conftest's; test modules cannot import it


@pytest.fixture
def store(root: Path) -> Iterator[JsonlLogStore]:
    store = JsonlLogStore(root)
    yield store
    store.close()
    assert not store._crew._threads


@pytest.fixture
def writers(store: JsonlLogStore, made: Made) -> Iterator[list[JsonlLogWriter]]:
    """Five logs of two events each, published."""
    writers = [store.create(SessionHeader(id=f"s{number}", created_at=7, cwd="/w")) for number in range(5)]
    for writer in writers:
        writer.append(made.batch(0, 2))
    yield writers
    for writer in writers:
        writer.close()


def _group(writers: list[JsonlLogWriter], made: Made, count: int = 1) -> list[tuple[JsonlLogWriter, EncodedBatch]]:
    return [(writer, made.batch(writer.next_seq, count)) for writer in writers]


def _log(root: Path, session_id: str) -> Path:
    return root / "--w--" / session_id / "session.v4.jsonl.zstd"


def _lengths(root: Path) -> list[int]:
    store = JsonlLogStore(root)
    return sorted(len(store.read(f"s{number}").events) for number in range(5))


def test_all_are_written_before_the_first_is_synced(
    store: JsonlLogStore, writers: list[JsonlLogWriter], made: Made, root: Path
) -> None:
    """One journal commit serves all: each log's bytes are there before any sync, and its mark says so after its own."""
    with failing(Fault.EIO, nth=0) as injector:
        answers = store.append_group(_group(writers, made))
    assert all(isinstance(answer, Receipt) for answer in answers)
    changes = [called.name for called in injector.trace if called.name in ("pwrite", "fdatasync")]
    assert changes == ["pwrite"] * 5 + ["fdatasync"] * 5 + ["pwrite"] * 5
    logs = [called.file for called in injector.trace if called.name == "pwrite"][:5]
    assert sorted(str(called.file) for called in injector.trace if called.name == "fdatasync") == sorted(map(str, logs))
    assert _lengths(root) == [3] * 5


def test_syncs_overlap(
    store: JsonlLogStore, writers: list[JsonlLogWriter], made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many syncs are under way at a time as there are helpers, and one by the caller."""
    together = threading.Barrier(HELPERS + 1)
    real = os.fdatasync

    def meeting(fd: int) -> None:
        together.wait(20)
        real(fd)

    monkeypatch.setattr(os, "fdatasync", meeting)
    store.append_group(_group(writers[: HELPERS + 1], made))
    monkeypatch.undo()
    assert len(store._crew._threads) == HELPERS


@pytest.mark.parametrize("nth", range(1, 16))
def test_one_failing_call_is_one_log_s_affair(
    store: JsonlLogStore, writers: list[JsonlLogWriter], made: Made, root: Path, nth: int
) -> None:
    """Whichever write or sync fails, that log alone is without its batch, and takes it at the next try."""
    group = _group(writers, made)
    with _nth_change_fails(nth):
        answers = store.append_group(group)
    failed = [at for at, answer in enumerate(answers) if not isinstance(answer, Receipt)]
    # Ten calls write and sync logs, five write marks, on which nothing depends.
    assert len(failed) == (1 if nth <= 10 else 0), answers
    for at in failed:
        assert isinstance(answers[at], OSError)
        assert writers[at].next_seq == 2
    assert _lengths(root) == [2] * len(failed) + [3] * (5 - len(failed))
    again = store.append_group([group[at] for at in failed])
    assert all(isinstance(answer, Receipt) for answer in again)
    assert _lengths(root) == [3] * 5


class _nth_change_fails:  # noqa: N801  # it reads as a statement
    """Fail the ``nth`` ``pwrite`` or ``fdatasync`` from now on, once."""

    def __init__(self, nth: int) -> None:
        self._left = nth
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._patch = pytest.MonkeyPatch()
        for name in ("pwrite", "fdatasync"):
            self._patch.setattr(os, name, self._counting(getattr(os, name)))

    def __exit__(self, *exception: object) -> None:
        self._patch.undo()

    def _counting(self, real: Any) -> Any:
        def call(*args: Any) -> Any:
            with self._lock:
                self._left -= 1
                due = self._left == 0
            if due:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(*args)

        return call


def test_what_cannot_be_taken_back_is_unknown(
    store: JsonlLogStore, writers: list[JsonlLogWriter], made: Made, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a sync fails and healing as well, the outcome is unknown, for that log only, and resending settles it."""
    group = _group(writers, made)
    real_sync, log = os.fdatasync, _log(root, "s2").stat()

    def sync(fd: int) -> None:
        if os.fstat(fd).st_ino == log.st_ino:
            raise OSError(errno.EIO, "failed")
        real_sync(fd)

    def cut(fd: int, length: int) -> None:
        raise OSError(errno.EIO, "failed as well")

    monkeypatch.setattr(os, "fdatasync", sync)
    monkeypatch.setattr(os, "ftruncate", cut)
    answers = store.append_group(group)
    monkeypatch.undo()
    assert [type(answer) for answer in answers] == [Receipt, Receipt, OutcomeUnknown, Receipt, Receipt]
    writers[2].resend(group[2][1])
    assert _lengths(root) == [3] * 5


def test_a_batch_of_several_frames(
    store: JsonlLogStore, writers: list[JsonlLogWriter], made: Made, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a group, too, no frame of a log is written before the one ahead of it is synced."""
    monkeypatch.setattr(_writer, "FRAME_BYTES", 100)
    group = [(writers[0], made.batch(2, 6)), (writers[1], made.batch(2))]
    unsynced: dict[int, int] = {}
    real_write, real_sync, log = os.pwrite, os.fdatasync, _log(root, "s0").stat()
    frames = 0

    def write(fd: int, data: bytes, offset: int) -> int:
        nonlocal frames
        if os.fstat(fd).st_ino == log.st_ino:
            frames += 1
            unsynced[fd] = unsynced.get(fd, 0) + 1
            assert unsynced[fd] == 1
        return real_write(fd, data, offset)

    def sync(fd: int) -> None:
        real_sync(fd)
        unsynced[fd] = 0

    monkeypatch.setattr(os, "pwrite", write)
    monkeypatch.setattr(os, "fdatasync", sync)
    answers = store.append_group(group)
    monkeypatch.undo()
    assert [isinstance(answer, Receipt) for answer in answers] == [True, True]
    assert frames > 2
    assert _lengths(root) == [2, 2, 2, 3, 8]


def test_new_torn_and_changed_logs_in_a_group(store: JsonlLogStore, root: Path, made: Made) -> None:
    """What has to be published, repaired or refused is so, beside what is only appended to."""
    headers = [SessionHeader(id=f"s{number}", created_at=7, cwd="/w") for number in range(5)]
    for header in headers[1:]:
        with store.create(header) as writer:
            writer.append(made.batch(0, 2))
    torn = Path(store.locate(headers[1]).path)
    with torn.open("ab") as file:
        file.write(b"\xff" * 9)
    writers = [store.create(headers[0]), *(store.open(header.id) for header in headers[1:])]
    changed = Path(store.locate(headers[2]).path)
    with changed.open("ab") as file:
        file.write(made.frame(made.line(2)))
    answers = store.append_group(_group(writers, made))
    assert [type(answer) for answer in answers] == [Receipt, Receipt, ForeignChange, Receipt, Receipt]
    for writer in writers:
        writer.close()
    assert _lengths(root) == [1, 3, 3, 3, 3]
    assert list(torn.parent.glob("*.torn-*"))


def test_without_threads_the_caller_does_it_all(
    store: JsonlLogStore, writers: list[JsonlLogWriter], made: Made, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the limit of threads is reached a group is made all the same."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    answers = store.append_group(_group(writers, made))
    monkeypatch.undo()
    assert all(isinstance(answer, Receipt) for answer in answers)
    assert _lengths(root) == [3] * 5


def test_a_closed_store_goes_on(store: JsonlLogStore, writers: list[JsonlLogWriter], made: Made, root: Path) -> None:
    """Closing ends the threads; a writer that is still open may be used in a group all the same."""
    store.append_group(_group(writers, made))
    threads = list(store._crew._threads)
    for _ in range(2):
        store.close()
        assert not any(thread.is_alive() for thread in threads)
    store.append_group(_group(writers, made))
    assert _lengths(root) == [4] * 5


def test_groups_of_several_callers(store: JsonlLogStore, writers: list[JsonlLogWriter], made: Made, root: Path) -> None:
    """Callers share the helpers, and each gets its own answers."""

    def call(mine: list[JsonlLogWriter]) -> None:
        for _ in range(30):
            for (writer, batch), answer in zip(group := _group(mine, made), store.append_group(group), strict=True):
                assert isinstance(answer, Receipt), answer
                assert answer.next_seq == writer.next_seq == batch.next_seq
        ended.append(len(mine))

    ended: list[int] = []
    threads = [threading.Thread(target=call, args=(mine,)) for mine in (writers[:2], writers[2:])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(ended) == [2, 3]
    assert _lengths(root) == [32] * 5


def test_a_forgotten_store_leaves_no_thread(root: Path, made: Made) -> None:
    """Threads end with the store even where nobody closes it."""
    store = JsonlLogStore(root)
    with store.create(made.session_header("s0")) as one, store.create(made.session_header("s1")) as two:
        store.append_group([(one, made.batch(0)), (two, made.batch(0))])
    threads = list(store._crew._threads)
    assert threads
    del store, one, two
    gc.collect()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
