"""Every file-system call of a session's life failed, once and several times in a row (G10, G11, G12)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from dsh_persistence import LogWriter, OutcomeUnknown, PersistenceError, Receipt, SessionNotFound
from dsh_persistence.contract.faults import Fault, Injector, failing
from dsh_persistence_jsonl import Encoding, JsonlLogStore
from dsh_session import EncodedBatch, SessionEvent

T = TypeVar("T")
Made = Any  # the conftest's; test modules cannot import it
ERRORS = [Fault.EIO, Fault.ENOSPC, Fault.EINTR, Fault.SHORT]


class Script:
    """Create, append, append, close, open, append, against a root of its own; whatever fails is tried again.

    After each failure and each step a reader looks: what was acknowledged is there, and nothing that was not sent.
    """

    def __init__(self, root: Path, encoding: Encoding, made: Made) -> None:
        self.root = root
        self.encoding: Encoding = encoding
        self.made = made
        self.acknowledged: tuple[SessionEvent, ...] = ()
        self.failures = 0

    def store(self) -> JsonlLogStore:
        return JsonlLogStore(self.root, encoding=self.encoding)

    def run(self, injector: Injector) -> None:
        self.injector = injector
        writer = self.retry(lambda: self.store().create(self.made.session_header()))
        self.append(writer, 2)
        self.append(writer, 1)
        writer.checkpoint()
        writer.close()
        writer = self.retry(lambda: self.store().open("s"))
        self.retry(writer.repair)
        self.append(writer, 3)
        writer.close()

    def retry(self, act: Callable[[], T]) -> T:
        for _ in range(self.injector.times + 1):
            try:
                return act()
            except (OSError, PersistenceError):
                self.failed()
        raise AssertionError("it goes on failing although no call fails any more")

    def append(self, writer: LogWriter, count: int) -> None:
        batch: EncodedBatch = self.made.batch(len(self.acknowledged), count)
        send: Callable[[EncodedBatch], Receipt] = writer.append
        for _ in range(self.injector.times + 1):
            try:
                receipt = send(batch)
            except OutcomeUnknown:
                send = writer.resend
                self.failed(batch)
            except (OSError, PersistenceError):
                self.failed(batch if send == writer.resend else None)
            else:
                assert receipt.next_seq == writer.next_seq == batch.next_seq
                self.acknowledged += batch.events
                self.look()
                return
        raise AssertionError("the batch cannot be written although no call fails any more")

    def failed(self, unknown: EncodedBatch | None = None) -> None:
        self.failures += 1
        assert self.injector.fired
        self.look(unknown)

    def look(self, unknown: EncodedBatch | None = None) -> None:
        """Check that a reader sees what was acknowledged, and of an unknown batch any first events."""
        self.injector.paused = True
        try:
            found = tuple(self.store().read("s").events)
        except SessionNotFound:
            found = ()
        self.injector.paused = False
        sent = self.acknowledged + (() if unknown is None else unknown.events)
        assert len(self.acknowledged) <= len(found) <= len(sent)
        assert found == sent[: len(found)]


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("fault", ERRORS)
def test_every_call_fails(tmp_path: Path, encoding: Encoding, made: Made, *, fault: Fault, times: int) -> None:
    """No acknowledged event is lost, altered or there twice, no session is stuck, and no descriptor stays open."""
    nth, failures, calls = 0, 0, 1
    before = descriptors()
    while nth <= calls:
        nth += 1
        script = Script(tmp_path / str(nth), encoding, made)
        with failing(fault, nth=nth, times=times) as injector:
            script.run(injector)
        assert not injector.trusted_a_second_sync, f"call {nth} of {[called.name for called in injector.trace]}"
        assert not script.failures or injector.fired
        failures += script.failures
        calls = len(injector.trace)
        with script.store().open("s") as writer:
            assert writer.stored is not None
            assert (tuple(writer.stored.events), writer.stored.torn) == (script.acknowledged, None)
            writer.append(made.batch(6))
        assert [path.name for path in (tmp_path / str(nth)).rglob("*.tmp")] == []
    assert descriptors() == before
    assert nth > 60
    assert failures > 20 if fault is not Fault.SHORT or times > 1 else failures == 0
