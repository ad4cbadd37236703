"""Deliberately broken stores: each fails the promise it breaks, or the contract would prove nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from dsh_persistence import (
    ListedSession,
    LogStore,
    LogTail,
    LogWriter,
    MemoryLogStore,
    PersistenceError,
    Receipt,
    SessionLocation,
    StoredPrefix,
)
from dsh_persistence.contract import LogStoreContract
from dsh_session import EncodedBatch, EventRun, SessionEvent, SessionHeader


class DropsTheLastEvent(MemoryLogStore):
    def read(self, ref: str | SessionLocation, *, from_seq: int = 0) -> StoredPrefix:
        stored = super().read(ref, from_seq=from_seq)
        kept = EventRun(list(stored.events)[:-1], first_seq=stored.events.first_seq)
        return msgspec.structs.replace(stored, events=kept)


class SortsKeys(MemoryLogStore):
    """Encodes data again: equal values, other bytes."""

    def extend(self, session_id: str, batch: EncodedBatch) -> None:
        again = [
            msgspec.structs.replace(event, encoded=json.dumps(event.data, sort_keys=True).encode())
            for event in batch.events
        ]
        super().extend(session_id, EncodedBatch(first_seq=batch.first_seq, events=tuple(again)))


class AcceptsGaps(MemoryLogStore):
    def create(self, header: SessionHeader) -> LogWriter:  # type: ignore[override]
        writer = super().create(header)
        append = writer.append

        def careless(batch: EncodedBatch) -> Receipt:
            writer.next_seq = batch.first_seq
            return append(batch)

        writer.append = careless  # type: ignore[method-assign]
        return writer


class IgnoresTheClaim(MemoryLogStore):
    def claim(self, session_id: str) -> None:
        self._claimed.add(session_id)


class KeepsTheClaim(MemoryLogStore):
    def release(self, session_id: str) -> None:
        pass


class ReplacesWhatIsStored(MemoryLogStore):
    def publish(self, header: SessionHeader) -> None:
        self._logs.pop(header.id, None)
        super().publish(header)


class CreatesAtOnce(MemoryLogStore):
    def create(self, header: SessionHeader) -> LogWriter:  # type: ignore[override]
        self.publish(header)
        return super().create(header)


class NeverChangesItsRevision(MemoryLogStore):
    def read(self, ref: str | SessionLocation, *, from_seq: int = 0) -> StoredPrefix:
        return msgspec.structs.replace(super().read(ref, from_seq=from_seq), revision="1")


class ForgetsTheSeed(MemoryLogStore):
    def read(self, ref: str | SessionLocation, *, from_seq: int = 0) -> StoredPrefix:
        return msgspec.structs.replace(super().read(ref, from_seq=from_seq), cut=0)


class ListsNothing(MemoryLogStore):
    def list(self) -> Iterator[ListedSession]:
        return iter(())


class StreamsOutOfOrder(MemoryLogStore):
    def scan(self, ref: str | SessionLocation) -> Iterator[SessionEvent]:
        return iter(sorted(super().scan(ref), key=lambda event: event.encoded))


class FollowsPastTheEnd(MemoryLogStore):
    """Its cursor skips an event that is still to come."""

    def tail(self, ref: str | SessionLocation, cursor: Mapping[str, int] | None = None) -> LogTail:
        tail = super().tail(ref, cursor if cursor is None else {"seq": min(cursor["seq"], self.read(ref).next_seq)})
        return LogTail(events=tail.events, cursor={"seq": tail.cursor["seq"] + 1})


class FollowsAnyLog(MemoryLogStore):
    def tail(self, ref: str | SessionLocation, cursor: Mapping[str, int] | None = None) -> LogTail:
        stored = self.read(ref, from_seq=0 if cursor is None else cursor["seq"])
        return LogTail(events=stored.events, cursor={"seq": stored.next_seq})


BROKEN = [
    (DropsTheLastEvent, "test_p03_what_was_appended_is_read"),
    (SortsKeys, "test_p15_hard_content"),
    (AcceptsGaps, "test_p05_a_batch_out_of_place_writes_nothing"),
    (IgnoresTheClaim, "test_p07_one_writer_a_session"),
    (KeepsTheClaim, "test_p09_a_reopened_log_goes_on"),
    (ReplacesWhatIsStored, "test_p08_ids_are_unique"),
    (CreatesAtOnce, "test_p02_create_touches_nothing"),
    (NeverChangesItsRevision, "test_p13_revisions"),
    (ForgetsTheSeed, "test_p18_seeds"),
    (ListsNothing, "test_p12_listing"),
    (StreamsOutOfOrder, "test_p24_streaming"),
    (FollowsPastTheEnd, "test_p25_following"),
    (FollowsAnyLog, "test_p26_cursors"),
]


@pytest.mark.parametrize(("kind", "name"), BROKEN, ids=[kind.__name__ for kind, _ in BROKEN])
def test_broken_stores_fail(kind: Callable[[], LogStore], name: str) -> None:
    """A store that breaks a promise fails the test of that promise, which a sound store passes."""
    promise = getattr(LogStoreContract(), name)
    sound = MemoryLogStore()
    promise(lambda: sound)
    broken = kind()
    with pytest.raises((AssertionError, pytest.fail.Exception, PersistenceError)):
        promise(lambda: broken)


def test_numbers_are_those_of_the_readme() -> None:
    """Every test names its promise by number, they have no gap, and the README has the same."""
    readme = Path(__file__).resolve().parent.parent / "README.md"
    if not readme.exists():
        pytest.skip("the README does not lie beside these tests")
    tests = sorted(name for name in vars(LogStoreContract) if name.startswith("test_"))
    for number, name in enumerate(tests, 1):
        assert name.startswith(f"test_p{number:02}_")
        assert (getattr(LogStoreContract, name).__doc__ or "").startswith(f"P{number}: ")
        assert f"| P{number} |" in readme.read_text()
    assert f"| P{len(tests) + 1} |" not in readme.read_text()


def test_a_failure_explains_itself(tmp_path: Path) -> None:
    """In a run of pytest the subclass is collected, runs every promise, and a broken one shows what differs."""
    (tmp_path / "test_mine.py").write_text(
        textwrap.dedent(
            """
            import pytest
            from dsh_persistence import MemoryLogStore
            from dsh_persistence.contract import LogStoreContract

            class Forgetful(MemoryLogStore):
                def publish(self, header):
                    super().publish(header)
                    self._logs[header.id].header = type(header)(id=header.id, created_at=0)

            class TestForgetful(LogStoreContract):
                @pytest.fixture
                def new_location(self):
                    store = Forgetful()
                    return lambda: store

            class TestUnfinished(LogStoreContract):
                pass
            """
        )
    )
    # What the entry point does where the package is installed.
    (tmp_path / "conftest.py").write_text('import pytest\npytest.register_assert_rewrite("dsh_persistence.contract")\n')
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "p03 or p04", "."]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)}
    run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "1 failed, 1 passed, " in run.stdout
    assert "2 errors" in run.stdout
    assert "created_at: 0 != 1700000000000" in run.stdout
    assert "TestUnfinished does not override the fixture new_location" in run.stdout
