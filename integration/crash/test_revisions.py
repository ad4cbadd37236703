"""A revision is a promise about bytes: what changes them changes it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dsh_persistence_jsonl import Encoding, JsonlLogStore

from .story import Story


def _keep_times(change: Callable[[Path], object]) -> Callable[[Path], None]:
    def changed(log: Path) -> None:
        status = log.stat()
        change(log)
        os.utime(log, ns=(status.st_atime_ns, status.st_mtime_ns))

    return changed


def _flip(at: int) -> Callable[[Path], None]:
    def flip(log: Path) -> None:
        with log.open("r+b", buffering=0) as file:
            byte = os.pread(file.fileno(), 1, log.stat().st_size + at if at < 0 else at)[0]
            os.pwrite(file.fileno(), bytes([byte ^ 1]), log.stat().st_size + at if at < 0 else at)

    return flip


def _replace(log: Path) -> None:
    copy = shutil.copy2(log, log.with_name("copy"))
    os.replace(copy, log)  # noqa: PTH105  # a test of the system call's effect


CHANGES: dict[str, Callable[[Path], object]] = {
    "grown": lambda log: log.write_bytes(log.read_bytes() + b"x"),
    "cut": lambda log: os.truncate(log, log.stat().st_size - 1),
    "same size": _flip(40),
    "same size, same time": _keep_times(_flip(40)),
    "same size, in the last bytes": _keep_times(_flip(-1)),
    "cut and grown": lambda log: log.write_bytes(log.read_bytes()[:-1] + b"x"),
    "touched": lambda log: os.utime(log, ns=(0, 0)),
    "replaced by a copy": _replace,
}


@pytest.mark.parametrize("encoding", ["zstd", "raw"])
def test_every_change_shows(tmp_path: Path, encoding: Encoding) -> None:
    """G19: appends, repairs and foreign changes, also those that keep the size or the time, change the revision."""
    story, store = Story("one-a"), JsonlLogStore(tmp_path, encoding=encoding)
    log = Path(store.locate(story.header).path)

    def revision() -> str | None:
        (entry,) = store.list()
        return entry.revision

    seen = []
    with store.create(story.header) as writer:
        for _ in range(3):
            writer.append(story.batch_at(writer.next_seq))
            seen.append(revision())
    whole = log.read_bytes()
    for name, change in CHANGES.items():
        log.write_bytes(whole)
        before = revision()
        change(log)
        assert revision() != before, name
    log.write_bytes(whole + b"\0torn")
    seen.append(revision())
    with store.open("one-a") as writer:
        writer.repair()
        seen.append(revision())
    assert len(set(seen)) == len(seen)
