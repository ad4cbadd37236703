"""The process that searches, seen from the harness."""

from __future__ import annotations

import marshal
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from ._stop import Stop
from .errors import PatternInvalid, SearchStopped

PROGRAM = str(Path(__file__).with_name("_search_program.py"))
CHUNK_BYTES = 262_144
_SPARE_S = 5.0
"""How much later than we would end it the process ends by itself, for the case that we are gone."""
_POLL_MS = 100
_LENGTH = struct.Struct("<I")

Row = tuple[int, bool, str]
"""A line of a result: its number, whether it matches or stands beside a match, and its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of one piece of a file."""

    rows: list[Row]
    is_full: bool
    """Enough was found; there is no use in sending more."""
    is_cut: bool
    """A line was too long to be searched whole."""


class Searcher:
    """One search in a process of its own, which never outlives it; a context manager.

    The process is our own program and starts nothing, so it needs no keeper: it ends when its input does, when it is
    killed here, and, with a pattern that never ends and a harness that is gone, when its alarm rings.
    """

    def __init__(self, pattern: str, *, context: int, max_matches: int, limit_s: float, stop: Stop) -> None:
        """Start it. Raises ``PatternInvalid`` and ``SearchStopped``."""
        self._stop = stop
        self._limit_s = limit_s
        self._ends_at = time.monotonic() + limit_s
        self._inbox = bytearray()
        try:
            self._start()
        except OSError as error:
            raise SearchStopped("", f"the search could not be started: {error}; use bash with grep") from error
        try:
            self._begin(pattern, context=context, max_matches=max_matches)
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def search(self, head: bytes, file: BinaryIO) -> Iterator[Answer]:
        """Search what was read of a file already, and the rest of it. Raises ``SearchStopped``."""
        data, is_last = head, False
        while not is_last:
            following = file.read(CHUNK_BYTES)
            is_last = not following
            rows, is_full, is_cut = self._ask((data, is_last))
            yield Answer(rows=rows, is_full=is_full, is_cut=is_cut)
            data = following

    def _start(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", PROGRAM],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    env={},
                    cwd="/",
                )
            except OSError:
                self._socket.close()
                raise

    def _begin(self, pattern: str, *, context: int, max_matches: int) -> None:
        request = {
            "pattern": pattern,
            "context": context,
            "max_matches": max_matches,
            "end_s": self._limit_s + _SPARE_S,
        }
        reason = self._ask(request)
        if reason is not None:
            raise PatternInvalid(pattern, f"{reason}; write it as for Python's re")

    def _ask(self, value: Any) -> Any:
        """Send a message and return the answer. One at a time, so neither side ever waits for the other to take it."""
        self._check()
        body = marshal.dumps(value)
        try:
            self._socket.sendall(_LENGTH.pack(len(body)) + body)
        except ConnectionError as error:
            raise self._stopped() from error
        size = _LENGTH.unpack(self._read(_LENGTH.size))[0]
        return marshal.loads(self._read(size))  # noqa: S302  # from a process started here

    def _read(self, size: int) -> bytes:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while len(self._inbox) < size:
            while not poll.poll(_POLL_MS):
                self._check()
            with suppress(ConnectionError):
                if data := self._socket.recv(CHUNK_BYTES):
                    self._inbox += data
                    continue
            raise self._stopped()
        taken = bytes(self._inbox[:size])
        del self._inbox[:size]
        return taken

    def _check(self) -> None:
        self._stop.check()
        if time.monotonic() > self._ends_at:
            raise self._stopped()

    def _stopped(self) -> SearchStopped:
        if time.monotonic() > self._ends_at:
            reason = f"the search took longer than {self._limit_s:g} s"
        else:
            reason = "the process of the search ended, perhaps for want of memory"
        return SearchStopped("", f"{reason}; give a simpler pattern, a narrower path or an include")

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._socket.close()
