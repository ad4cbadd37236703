"""Our ends of a child's pipes: collected, fed, or handed to the caller."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Callable

from ._output import CollectedOutput

READ_BYTES = 65_536
_LAST_BYTES = 1 << 20


class CollectPump:
    """Moves what arrives in a pipe into a collected output, one read a turn of the loop, until the pipe ends."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, fd: int, output: CollectedOutput, on_end: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._fd = fd
        self._output = output
        self._on_end = on_end
        loop.add_reader(fd, self._ready)

    @property
    def ended(self) -> bool:
        """Whether the pipe was read to its end or given up."""
        return self._fd < 0

    def stop(self) -> bool:
        """Take what lies in the pipe now and close it; return whether someone still held its other end.

        Bounded, because an escaped writer may fill the pipe as fast as it is emptied.
        """
        taken = 0
        while not self.ended and taken < _LAST_BYTES:
            data = self._read()
            if data is None:
                break
            taken += len(data)
        held = not self.ended
        self._close()
        return held

    def _ready(self) -> None:
        if self._read() == b"":
            self._on_end()

    def _read(self) -> bytes | None:
        """Read once: bytes, empty at the end, None when nothing is there."""
        try:
            data = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return None
        if data:
            self._output.feed(data)
        else:
            self._close()
        return data

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._loop.remove_reader(fd)
            os.close(fd)
            self._output.finish()


class FeedPump:
    """Writes bytes into a pipe as the child takes them, then closes it; a child that reads no more ends it quietly."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int, data: bytes) -> None:
        self._loop = loop
        self._fd = fd
        self._rest = memoryview(data)
        loop.add_writer(fd, self._ready)

    def close(self) -> None:
        """Write no more."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._loop.remove_writer(fd)
            os.close(fd)

    def _ready(self) -> None:
        try:
            if self._rest:
                self._rest = self._rest[os.write(self._fd, self._rest) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.close()
            return
        if not self._rest:
            self.close()


class _RawPipe(ABC):
    """One non-blocking descriptor that a single task waits on at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int, on_close: Callable[[], None]) -> None:
        self._loop = loop
        self._fd = fd
        self._on_close = on_close
        self._waiter: asyncio.Future[None] | None = None

    @property
    def closed(self) -> bool:
        """Whether this end is closed."""
        return self._fd < 0

    def close(self) -> None:
        """Close this end and wake who waits on it. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        self._unwatch(fd)
        os.close(fd)
        self._wake()
        self._on_close()

    @abstractmethod
    def _unwatch(self, fd: int) -> None:
        """Stop the loop from watching ``fd``."""

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self, watch: Callable[..., object]) -> None:
        """Wait until the loop reports the descriptor through ``watch``, or until it is closed."""
        if self._waiter is not None:
            raise RuntimeError("another task waits on this pipe; one task at a time may use it")
        self._waiter = self._loop.create_future()
        watch(self._fd, self._wake)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if not self.closed:
                self._unwatch(self._fd)


class PipeReader(_RawPipe):
    """The caller's end of a child's raw output. What is not read stays in the pipe and holds the child back."""

    async def read(self, max_bytes: int = READ_BYTES) -> bytes:
        """Return at least one byte, or none at the end of the stream or after ``close``."""
        while not self.closed:
            try:
                data = os.read(self._fd, max_bytes)
            except BlockingIOError:
                await self._wait(self._loop.add_reader)
                continue
            if not data:
                self.close()
            await asyncio.sleep(0)  # a child that never pauses must not keep the loop to itself
            return data
        return b""

    def _unwatch(self, fd: int) -> None:
        self._loop.remove_reader(fd)


class PipeWriter(_RawPipe):
    """The caller's end of a child's raw input."""

    async def write(self, data: bytes) -> None:
        """Write all of ``data`` as the child takes it. Raises ``BrokenPipeError`` when nobody reads any more."""
        rest = memoryview(data)
        while rest:
            if self.closed:
                raise BrokenPipeError(f"the child's input was closed with {len(rest)} bytes unwritten")
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                await self._wait(self._loop.add_writer)
            else:
                await asyncio.sleep(0)

    def _unwatch(self, fd: int) -> None:
        self._loop.remove_writer(fd)
