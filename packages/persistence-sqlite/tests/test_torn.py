"""What a power cut or a kill leaves of the file, with the journal beside it that mends it."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from dsh_persistence import StoreUnusable

PAGE = 4096


def _die_in_a_transaction(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA cache_size=2")  # so that changed pages reach the file before the commit
    connection.execute("BEGIN IMMEDIATE")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.execute(f"PRAGMA user_version={version}")  # a change of the first page
    connection.execute("UPDATE events SET data = zeroblob(3000)")
    os.kill(os.getpid(), signal.SIGKILL)


def torn(path: Path) -> None:
    """Leave a file in the midst of a transaction, with its head torn and a journal that has all of it."""
    child = multiprocessing.get_context("fork").Process(target=_die_in_a_transaction, args=(path,))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert Path(f"{path}-journal").stat().st_size > PAGE
    with path.open("r+b") as file:
        file.write(bytes(512))


@pytest.fixture
def filled(made: Any) -> Any:
    """A store with a rollback journal."""
    with made.store(journal="delete").create(made.header()) as writer:
        writer.append(made.batch(0, 40))
    return made


def test_a_torn_head_is_mended(filled: Any) -> None:
    """The journal brings the head back, and everything that was acknowledged is there."""
    torn(filled.path)
    assert filled.events() == list(filled.batch(0, 40).events)
    with filled.store().open("s") as writer:
        writer.append(filled.batch(40))
    assert filled.sql("PRAGMA integrity_check") == [("ok",)]


def test_a_torn_head_of_somebody_else(filled: Any) -> None:
    """Whose file it is shows once it is mended; then it is refused as any other."""
    filled.sql("PRAGMA application_id=42")
    torn(filled.path)
    for _ in range(2):
        with pytest.raises(StoreUnusable, match="application id is 0x2a"):
            filled.store().read("s")
    assert filled.sql("SELECT count(*) FROM events") == [(40,)]


def test_a_torn_head_without_a_journal(filled: Any) -> None:
    """Nothing can be done about it, and nothing is."""
    torn(filled.path)
    Path(f"{filled.path}-journal").unlink()
    content = filled.path.read_bytes()
    with pytest.raises(StoreUnusable, match="its head is damaged"):
        filled.store().read("s")
    assert filled.path.read_bytes() == content


def test_a_log_that_was_half_carried_over(made: Any, tmp_path: Path) -> None:
    """A kill while the log is carried into the file leaves a file that is shorter than its head says."""
    store = made.store()
    with store.create(made.header()) as writer:
        for first in range(0, 200, 20):
            writer.append(made.batch(first, 20))
        before = made.path.read_bytes()
        log = Path(f"{made.path}-wal").read_bytes()
    store.close()
    head = made.path.read_bytes()[:PAGE]
    assert head != before[:PAGE]
    shutil.rmtree(f"{made.path}.claims")
    made.path.write_bytes(head + before[PAGE:])
    Path(f"{made.path}-wal").write_bytes(log)
    assert made.events() == list(made.batch(0, 200).events)
    assert made.sql("PRAGMA integrity_check") == [("ok",)]
