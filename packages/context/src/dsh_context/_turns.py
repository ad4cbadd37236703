"""Work that one task does and others wait for, and the failures it gathers on the way."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Self

from .errors import ContextError

if TYPE_CHECKING:
    from contextvars import Token

# The turns that the running code is part of. A context variable, because a start may fan out into child tasks.
_TURNS: ContextVar[tuple[Turn, ...]] = ContextVar("dsh_context_turns", default=())


class Turn:
    """One piece of work, entered by the task that does it. Nobody waits for a turn that waits for himself."""

    __slots__ = ("_done", "_token", "failures", "waiters", "waits_for")

    def __init__(self) -> None:
        self._done = asyncio.Event()
        self._token: Token[tuple[Turn, ...]] | None = None
        self.waits_for: set[Turn] = set()
        """The turns that code inside this one waits for now."""
        self.failures = Failures()
        self.waiters = 0
        """How many calls waited, and so learn of the failures."""

    def __enter__(self) -> Self:
        self._token = _TURNS.set((*_TURNS.get(), self))
        return self

    def __exit__(self, *exc: object) -> None:
        if self._token is not None:
            _TURNS.reset(self._token)
        self._done.set()

    @property
    def needs_us(self) -> bool:
        """Whether the turn cannot end before the calling code goes on, so that waiting for it would never end."""
        ours = set(_TURNS.get())
        seen: set[Turn] = set()
        ahead: list[Turn] = [self]
        while ahead:
            turn = ahead.pop()
            if turn in ours:
                return True
            if turn not in seen:
                seen.add(turn)
                ahead.extend(turn.waits_for)
        return False

    async def wait(self) -> None:
        """Return when the work is over, or at once when it needs the caller."""
        if self._done.is_set() or self.needs_us:
            return
        self.waiters += 1
        ours = _TURNS.get()
        for turn in ours:
            turn.waits_for.add(self)
        try:
            await self._done.wait()
        finally:
            for turn in ours:
                turn.waits_for.discard(self)


class Failures:
    """A context manager, used again and again, that keeps what its bodies raise until ``rise``.

    An interruption (the running task is cancelled, or the interpreter is told to stop) is kept apart: it must reach
    the caller as it is. A ``CancelledError`` in a task that nobody cancelled comes from something the body awaited
    and is an error like any other.
    """

    __slots__ = ("errors", "interruption")

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        self.interruption: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: object) -> bool:
        if error is None:
            return False
        if isinstance(error, GeneratorExit):  # the coroutine is being thrown away: it may not await again
            return False
        if isinstance(error, Exception):
            self.errors.append(error)
        elif isinstance(error, asyncio.CancelledError) and not _task_is_cancelled():
            leak = ContextError("a CancelledError leaked out of something awaited; suppress it where the task is ended")
            leak.__cause__ = error
            self.errors.append(leak)
        else:
            self.interruption = self.interruption or error
        return True

    @property
    def first(self) -> BaseException | None:
        """The interruption, else the first error, else None."""
        return self.interruption or next(iter(self.errors), None)

    def rise(self, message: str) -> None:
        """Raise the interruption if there was one, else all errors as one group, else nothing."""
        if self.interruption is not None:
            if self.errors:
                raise self.interruption from ExceptionGroup(message, self.errors)
            raise self.interruption
        self.rise_errors(message)

    def rise_errors(self, message: str) -> None:
        """Raise all errors as one group, if there are any; the interruption is another task's."""
        if self.errors:
            raise ExceptionGroup(message, self.errors)


def _task_is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
