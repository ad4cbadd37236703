"""The three standard streams of one tree, each in the form its spec chose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ._output import CollectedOutput
from ._pipes import CollectPump, FeedPump, PipeReader, PipeWriter
from ._spec import Collect, Output, Pipe, SpawnSpec, StdinData
from ._spill import SpillFolder
from ._stdio import Stdio
from .errors import StreamUnavailable


class Streams:
    """Owns our pipe ends. ``on_change`` is called whenever one of them ended or was closed."""

    def __init__(self, spec: SpawnSpec, folder: SpillFolder) -> None:
        self._spec = spec
        self._collected = {
            name: CollectedOutput(output, name, folder)
            for name, output in (("stdout", spec.stdout), ("stderr", spec.stderr))
            if isinstance(output, Collect)
        }
        self._pumps: list[CollectPump] = []
        self._feed: FeedPump | None = None
        self._readers: dict[str, PipeReader] = {}
        self._writer: PipeWriter | None = None

    def attach(self, loop: asyncio.AbstractEventLoop, child: Stdio, on_change: Callable[[], None]) -> None:
        """Take over our ends of a child's pipes."""
        if isinstance(self._spec.stdin, StdinData):
            self._feed = FeedPump(loop, child.stdin, self._spec.stdin.data)
        elif isinstance(self._spec.stdin, Pipe):
            self._writer = PipeWriter(loop, child.stdin, on_change)
        self._attach_output(loop, "stdout", self._spec.stdout, child.stdout, on_change)
        self._attach_output(loop, "stderr", self._spec.stderr, child.stderr, on_change)

    def _attach_output(
        self, loop: asyncio.AbstractEventLoop, name: str, output: Output, fd: int, on_change: Callable[[], None]
    ) -> None:
        if isinstance(output, Collect):
            self._pumps.append(CollectPump(loop, fd, self._collected[name], on_change))
        elif isinstance(output, Pipe):
            self._readers[name] = PipeReader(loop, fd, on_change)

    def collected(self, name: str) -> CollectedOutput:
        """Return a collected stream. Raises ``StreamUnavailable``."""
        if name not in self._collected:
            raise StreamUnavailable(name, "Collect(...)")
        return self._collected[name]

    def reader(self, name: str) -> PipeReader:
        """Return a raw output. Raises ``StreamUnavailable``."""
        if name not in self._readers:
            raise StreamUnavailable(name, "Pipe()")
        return self._readers[name]

    def writer(self) -> PipeWriter:
        """Return the raw input. Raises ``StreamUnavailable``."""
        if self._writer is None:
            raise StreamUnavailable("stdin", "Pipe()")
        return self._writer

    @property
    def collecting(self) -> bool:
        """Whether a collected pipe is still open."""
        return not all(pump.ended for pump in self._pumps)

    @property
    def reading(self) -> bool:
        """Whether the caller still holds a raw output open."""
        return not all(reader.closed for reader in self._readers.values())

    def stop_collecting(self) -> bool:
        """Take what lies in the collected pipes, close them; return whether a descendant still held one."""
        held = [pump.stop() for pump in self._pumps]
        return any(held)

    def stop_input(self) -> None:
        """Close our end of the child's input."""
        if self._feed is not None:
            self._feed.close()
        if self._writer is not None:
            self._writer.close()

    def abandon(self) -> None:
        """Close everything: there is no child."""
        self.stop_collecting()
        self.close_raw()

    def close_raw(self) -> None:
        """Close every raw pipe end."""
        self.stop_input()
        for reader in self._readers.values():
            reader.close()
