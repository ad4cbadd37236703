"""The frame index beside a log: which stretch begins where, with which event.

It only saves time. It is never synced, a reader that finds it absent or wrong does without, and nothing it says is
believed before the log has confirmed it.
"""

from __future__ import annotations

import contextlib
import os
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from dsh_persistence.files import open_regular

_MAGIC = b"dsh-py frame idx"
_RECORD = struct.Struct("<QQ")
"""The seq of a stretch's first event, and the offset in the log where the stretch begins."""
_PENDING = 64
"""So many stretches are recorded at once: an append each would also make the log's own sync commit this file."""
_WORTH_STRETCHES = 64
"""A log of fewer needs no index; most sessions are short, and a file less in each folder makes them quicker to list."""


def index_path(log: str) -> str:
    """Return where the index of a log lies."""
    return f"{log}.idx"


class IndexReader(Sequence[int]):
    """The first seqs of an index file, read where they are asked for."""

    def __init__(self, log: str) -> None:
        """Raises ``OSError`` when there is no index."""
        self._fd, status = open_regular(index_path(log))
        size = status.st_size
        known = os.pread(self._fd, len(_MAGIC), 0) == _MAGIC
        self._count = (size - len(_MAGIC)) // _RECORD.size if known and size > len(_MAGIC) else 0

    def close(self) -> None:
        """Release the file."""
        os.close(self._fd)

    def stretch_of(self, seq: int) -> tuple[int, int] | None:
        """Return (first seq, offset) of the stretch that should hold ``seq``, or of the last one before it."""
        position = bisect_right(self, seq) - 1
        return None if position < 0 else self._record(position)

    def records(self) -> Iterator[tuple[int, int]]:
        """Yield the (first seq, offset) of every stretch the index has."""
        return map(self._record, range(self._count))

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, position: int) -> int:  # type: ignore[override]  # bisect asks for one at a time
        return self._record(position)[0]

    def _record(self, position: int) -> tuple[int, int]:
        first_seq, offset = _RECORD.unpack(
            os.pread(self._fd, _RECORD.size, len(_MAGIC) + position * _RECORD.size).ljust(_RECORD.size, b"\xff")
        )
        return first_seq, offset


class IndexWriter:
    """Keeps a log's index in step with its writer. Nothing that goes wrong here matters to anybody."""

    def __init__(self, log: str, known: Sequence[tuple[int, int]]) -> None:
        """``known`` are the (first seq, offset) of every stretch that the log has; the file is made to say so."""
        self._path = index_path(log)
        self._known = known
        self._fd: int | None = None
        self._size = 0
        self._pending: list[bytes] = []

    def add(self, first_seq: int, offset: int) -> None:
        """Record a stretch that has become durable; the file follows some stretches later, or at ``flush``."""
        self._pending.append(_RECORD.pack(first_seq, offset))
        if len(self._pending) >= _PENDING:
            self.flush()

    def flush(self) -> None:
        """Bring the file up to date. A reader finds what an index does not have yet in the log itself."""
        if not self._pending or (self._fd is None and not self._is_worth_it()):
            return
        pending, self._pending = self._pending, []
        with contextlib.suppress(OSError):
            if self._fd is None:
                self._fd = self._open()
            self._size += os.pwrite(self._fd, b"".join(pending), self._size)

    def close(self) -> None:
        """Bring the file up to date and release it."""
        self.flush()
        fd, self._fd = self._fd, None
        if fd is not None:
            with contextlib.suppress(OSError):
                os.close(fd)

    def _is_worth_it(self) -> bool:
        return len(self._known) + len(self._pending) >= _WORTH_STRETCHES or os.path.lexists(self._path)

    def _open(self) -> int:
        content = _MAGIC + b"".join(_RECORD.pack(*record) for record in self._known)
        self._known = ()
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if os.pread(fd, len(content) + 1, 0) != content:
            os.ftruncate(fd, 0)
            os.pwrite(fd, content, 0)
        self._size = len(content)
        return fd
