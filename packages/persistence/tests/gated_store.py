"""A store that can be made to fail, or to wait, from outside; what it stores is another store's affair."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from dsh_persistence import (
    LogStore,
    LogWriter,
    Receipt,
    Repair,
)
from dsh_persistence.contract.faults import FaultyStore, FaultyWriter
from dsh_session import EncodedBatch, SessionHeader


class _AfterWrite(Exception):
    def __init__(self, error: Exception) -> None:
        self.error = error


class Faults:
    """What the medium does next, and what it was asked to do."""

    def __init__(self) -> None:
        self.failures: list[BaseException | None] = []
        """One entry is taken for each append or resend: an error to raise, or None to let it pass."""
        self.gate = threading.Event()
        """Appends wait here while it is not set."""
        self.gate.set()
        self.opening = threading.Event()
        """Opening waits here while it is not set."""
        self.opening.set()
        self.reached = threading.Event()
        """Set when an append or an open has arrived at its gate."""
        self.batches: list[tuple[int, int]] = []
        """First seq and size of every batch that was tried."""
        self.resent: list[tuple[int, int]] = []
        """Those that were sent again to settle an unknown outcome."""
        self.groups: list[int] = []
        """How many batches each group had."""
        self.overlap = False
        """Whether two calls have used one writer at a time."""
        self.repaired: list[str] = []
        self.closed: list[str] = []

    @staticmethod
    def after_write(error: Exception) -> BaseException:
        """Return a failure that comes when the batch is there already; what the writer raises is ``error``."""
        return _AfterWrite(error)


class GatedWriter(FaultyWriter):
    def __init__(self, store: GatedStore, inner: LogWriter, faults: Faults, session_id: str) -> None:
        super().__init__(store, inner)
        self._faults = faults
        self._id = session_id
        self._used = False

    def append(self, batch: EncodedBatch) -> Receipt:
        self._faults.batches.append((batch.first_seq, len(batch.events)))
        return self._write(self.inner.append, batch)

    def resend(self, batch: EncodedBatch) -> Receipt:
        self._faults.resent.append((batch.first_seq, len(batch.events)))
        return self._write(self.inner.resend, batch)

    def _write(self, write: Callable[[EncodedBatch], Receipt], batch: EncodedBatch) -> Receipt:
        faults = self._faults
        faults.overlap |= self._used
        self._used = True
        try:
            faults.reached.set()
            assert faults.gate.wait(30)
            error = faults.failures.pop(0) if faults.failures else None
            if isinstance(error, _AfterWrite):
                write(batch)
                raise error.error
            if error is not None:
                raise error
            return write(batch)
        finally:
            self._used = False

    def repair(self) -> Repair | None:
        self._faults.repaired.append(self._id)
        return self.inner.repair()

    def close(self) -> None:
        self._faults.overlap |= self._used
        self._faults.closed.append(self._id)
        self.inner.close()


class GatedStore(FaultyStore):
    """Puts faults before a store; what the store does is untouched."""

    def __init__(self, inner: LogStore, faults: Faults) -> None:
        super().__init__(inner)
        self._faults = faults

    def create(self, header: SessionHeader) -> GatedWriter:
        return GatedWriter(self, self.inner.create(header), self._faults, header.id)

    def open(self, session_id: str) -> GatedWriter:
        self._faults.reached.set()
        assert self._faults.opening.wait(30)
        return GatedWriter(self, self.inner.open(session_id), self._faults, session_id)

    def append_group(self, items: Sequence[tuple[LogWriter, EncodedBatch]]) -> list[Receipt | Exception]:
        self._faults.groups.append(len(items))
        answers: list[Receipt | Exception] = []
        for writer, batch in items:
            try:
                answers.append(writer.append(batch))
            except Exception as error:  # noqa: BLE001  # as the seam says
                answers.append(error)
        return answers

    def close(self) -> None:
        self._faults.closed.append("store")
        self.inner.close()
