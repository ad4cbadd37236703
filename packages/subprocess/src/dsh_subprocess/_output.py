"""The tail of a stream, byte exact, and optionally a file of the whole."""

from __future__ import annotations

from dataclasses import dataclass

from ._spec import Collect
from ._spill import SpillFile, SpillFolder


class TailBuffer:
    """The last ``max_bytes`` bytes of everything fed to it.

    The buffer is cut only after it has grown to twice the limit, so each byte is moved at most once more and memory
    stays within two limits and one read.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.total_bytes = 0
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Append ``data`` to the stream."""
        self.total_bytes += len(data)
        self._buffer += data
        if len(self._buffer) > 2 * self.max_bytes:
            del self._buffer[: -self.max_bytes]

    def value(self) -> bytes:
        """Return the retained tail."""
        return bytes(self._buffer[-self.max_bytes :])

    def since(self, offset: int) -> tuple[bytes, bool]:
        """Return the bytes from a whole-stream offset on, and whether older ones are missing from the answer."""
        retained = min(self.total_bytes, self.max_bytes)
        start = self.total_bytes - retained
        if offset < start:
            return self.value(), True
        wanted = self.total_bytes - offset
        return (bytes(self._buffer[-wanted:]) if wanted > 0 else b""), False


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChunk:
    """One answer of ``CollectedOutput.read_from``."""

    data: bytes
    lossy: bool
    """Bytes between the asked offset and ``data`` had already left the window."""
    next_offset: int
    """Where the next read goes on: the number of bytes the stream has had so far."""


class CollectedOutput:
    """What a collected stream has shown so far; it may be read while the child runs (BEHAVIOUR §2.5)."""

    def __init__(self, collect: Collect, stream: str, folder: SpillFolder) -> None:
        self._tail = TailBuffer(collect.max_bytes)
        self._spill_max_bytes = collect.spill_max_bytes
        self._stream = stream
        self._folder = folder
        self._spill: SpillFile | None = None
        self._spill_done = collect.spill_max_bytes is None

    @property
    def total_bytes(self) -> int:
        """How many bytes the stream has had."""
        return self._tail.total_bytes

    @property
    def truncated(self) -> bool:
        """Whether the stream has had more bytes than are kept; exactly the limit is not truncated."""
        return self._tail.total_bytes > self._tail.max_bytes

    @property
    def spill_path(self) -> str | None:
        """The file that holds the whole stream, or None: no overflow, over its limit, or it could not be written."""
        return None if self._spill is None else self._spill.path

    def data(self) -> bytes:
        """Return the retained tail."""
        return self._tail.value()

    def text(self) -> str:
        """Return the tail as UTF-8 with replacement characters; a cut may leave one at the front."""
        return self._tail.value().decode("utf-8", "replace")

    def read_from(self, offset: int) -> OutputChunk:
        """Return what came at and after a whole-stream byte ``offset``; consumes nothing (BEHAVIOUR 2.46)."""
        data, lossy = self._tail.since(max(offset, 0))
        return OutputChunk(data=data, lossy=lossy, next_offset=self._tail.total_bytes)

    def feed(self, data: bytes) -> None:
        """Append bytes of the stream. The reader of the pipe calls this, nobody else."""
        if not self._spill_done:
            self._feed_spill(data)
        self._tail.feed(data)

    def finish(self) -> None:
        """The stream has ended. A file whose closing fails is withheld (BEHAVIOUR 2.45)."""
        self._spill_done = True
        if self._spill is not None:
            try:
                self._spill.close()
            except OSError:
                self._spill = None

    def _feed_spill(self, data: bytes) -> None:
        """Write to the file, in the loop's thread: these are page cache writes, at most ``spill_max_bytes`` in all."""
        total = self._tail.total_bytes + len(data)
        if total <= self._tail.max_bytes:
            return
        if self._spill_max_bytes is None or total > self._spill_max_bytes:
            self._drop_spill()
            return
        try:
            if self._spill is None:
                self._spill = self._folder.create(self._stream)
                self._spill.write(self._tail.value())
            self._spill.write(data)
        except OSError:
            self._drop_spill()  # a full disk costs the file, never the command's result

    def _drop_spill(self) -> None:
        self._spill_done = True
        spill, self._spill = self._spill, None
        if spill is not None:
            spill.discard()
