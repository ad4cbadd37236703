"""How a run is ended before it is done: by a signal, or since nobody reads its output."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

from dsh_agent import CancelCause

from ._exit import ExitCode

_BASE = 128
"""What shells add to the number of a signal."""


class Interruption:
    """Ends a run for the first reason there is."""

    def __init__(self, end: Callable[[CancelCause], object]) -> None:
        """``end`` is what ends it for now."""
        self.code: ExitCode | None = None
        """The exit code of a run that was ended."""
        self._end = end

    def aim(self, end: Callable[[CancelCause], object]) -> None:
        """From now on, end the run in this way."""
        self._end = end

    def request(self, code: ExitCode, cause: CancelCause = "user") -> None:
        """End the run, unless it is ending already."""
        if self.code is None:
            self.code = code
            self._end(cause)


@contextmanager
def caught_signals(interruption: Interruption, notify: Callable[[str], None]) -> Generator[None, None, None]:
    """Let SIGINT, SIGTERM and SIGHUP request the end of the run; after any of them SIGINT quits the process at once.

    The log then has what the last checkpoint made durable, and the keepers of children see that their owner is gone.
    A signal that is ignored, as under ``nohup``, stays so.
    """
    loop = asyncio.get_running_loop()
    received: list[int] = []

    def react(number: int) -> None:
        interruption.request(ExitCode(_BASE + number), "user" if number == signal.SIGINT else "disposed")
        if number == signal.SIGINT:
            notify("the turn is being cancelled; Ctrl-C again quits at once")

    def handle(number: int, _frame: FrameType | None) -> None:
        if not received:
            loop.call_soon_threadsafe(react, number)
        elif number == signal.SIGINT:
            os._exit(ExitCode.INTERRUPTED)
        received.append(number)

    caught = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    caught = [number for number in caught if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in caught}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
