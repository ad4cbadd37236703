"""One process tree: its first process, its streams, and the ladder that ends it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping

from ._minder import Minder
from ._output import CollectedOutput
from ._pipes import PipeReader, PipeWriter
from ._spec import ProcessExit, SpawnSpec
from ._start_failure import start_failure
from ._stdio import open_stdio
from ._streams import Streams
from .errors import SpawnFailed

_PATIENCE_S = 5.0


class ProcessTree:
    """A started command with its descendants. Made by ``ProcessHost.spawn``; every method belongs to its event loop.

    Two moments are told apart. The tree is *settled* when ``wait`` has its answer: the first process ended and its
    output was read. It is *gone* when no process of it is left, as far as its minder sees.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        minder: Minder,
        spec: SpawnSpec,
        streams: Streams,
        on_change: Callable[[ProcessTree], None],
    ) -> None:
        self._loop = loop
        self._minder = minder
        self._grace_s = spec.grace_ms / 1000
        self._streams = streams
        self._on_change = on_change
        self._pid = -1
        self._failure: SpawnFailed | None = None
        self._decided = asyncio.Event()
        self._exited = self._terminated = False
        self._exit_code: int | None = None
        self._signal: str | None = None
        self._result: ProcessExit | None = None
        self._settled = asyncio.Event()
        self._gone = asyncio.Event()
        self._watchers: set[asyncio.Task[None]] = set()
        self._exit_waiters = 0
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def start(self, spec: SpawnSpec, env: Mapping[str, str]) -> None:
        """Have the first process started. A refusal of the system is kept for ``wait``."""
        try:
            stdio = open_stdio(spec)
        except OSError as error:
            self.failed(start_failure(spec, error))
            return
        self._minder.start(spec, env, stdio, self)
        self._streams.attach(self._loop, stdio, self._pipes_changed)
        if self._failure is not None:
            self._streams.abandon()

    @property
    def pid(self) -> int:
        """The first process's id, also its group's; -1 before it was started, and when it could not be."""
        return self._pid

    @property
    def settled(self) -> bool:
        """Whether ``wait`` has its answer."""
        return self._settled.is_set()

    @property
    def result(self) -> ProcessExit | None:
        """What ``wait`` returns, once the tree has settled."""
        return self._result

    @property
    def failure(self) -> SpawnFailed | None:
        """What ``wait`` raises, when the tree could not start."""
        return self._failure

    @property
    def gone(self) -> bool:
        """Whether no process of the tree was left when last looked."""
        return self._gone.is_set()

    @property
    def released(self) -> bool:
        """Whether nothing of the tree is left to own: settled, gone, and no raw output open."""
        return self.settled and self.gone and not self._streams.reading

    @property
    def terminated(self) -> bool:
        """Whether the tree was told to end before it settled."""
        return self._terminated

    @property
    def stdout(self) -> CollectedOutput:
        """The collected standard output. Raises ``StreamUnavailable`` when the spec did not collect it."""
        return self._streams.collected("stdout")

    @property
    def stderr(self) -> CollectedOutput:
        """The collected standard error. Raises ``StreamUnavailable`` when the spec did not collect it."""
        return self._streams.collected("stderr")

    @property
    def stdin_pipe(self) -> PipeWriter:
        """The raw standard input. Raises ``StreamUnavailable``, or ``SpawnFailed`` when nothing runs."""
        self._check_started()
        return self._streams.writer()

    @property
    def stdout_pipe(self) -> PipeReader:
        """The raw standard output. Raises ``StreamUnavailable``, or ``SpawnFailed`` when nothing runs."""
        self._check_started()
        return self._streams.reader("stdout")

    @property
    def stderr_pipe(self) -> PipeReader:
        """The raw standard error. Raises ``StreamUnavailable``, or ``SpawnFailed`` when nothing runs."""
        self._check_started()
        return self._streams.reader("stderr")

    async def started(self) -> int:
        """Return the first process's id once it runs. Raises ``SpawnFailed`` when it could not start."""
        await self._decided.wait()
        self._check_started()
        return self._pid

    async def wait(self) -> ProcessExit:
        """Return how the first process ended, once its output is complete (BEHAVIOUR 2.26).

        A descendant that keeps a collected pipe open delays this by the grace at most. Any number of tasks may wait;
        cancelling one changes nothing for the tree. Raises ``SpawnFailed`` when it could not start.
        """
        await self._settled.wait()
        if self._result is None:
            raise self._failure or RuntimeError("a settled tree has either a result or a failure")
        return self._result

    async def wait_for_exit(self, timeout_s: float | None = None) -> bool:
        """Return True once the whole tree is gone, False when ``timeout_s`` seconds pass first (BEHAVIOUR 2.25)."""
        if self.gone:
            return True
        self._exit_waiters += 1
        self._minder.hurry()
        try:
            async with asyncio.timeout(timeout_s):
                await self._gone.wait()
        except TimeoutError:
            return self.gone
        finally:
            self._exit_waiters -= 1
        return True

    async def wait_ended(self) -> bool:
        """Wait until the tree is settled and then gone; return False when it outlives that by grace and patience.

        For a terminated tree the whole wait is bounded, so what cannot be killed is told instead of waited for.
        """
        await self._settled.wait()
        return await self.wait_for_exit(self._grace_s + _PATIENCE_S)

    def terminate(self) -> None:
        """Send SIGTERM to the tree, and SIGKILL after the grace to what is left of it (BEHAVIOUR 2.22, 2.23).

        Once the tree is gone its output is not waited for any longer. Calling it again while the ladder runs, or
        after the end, does nothing.
        """
        if self.settled and self.gone:
            return
        self._terminated = self._terminated or not self.settled
        if self.gone:
            self._stop_reading()
        elif "kill" not in self._timers:
            self._after("kill", self._grace_s, self.kill_now)
            self._minder.terminate()

    def kill_now(self) -> None:
        """Send SIGKILL to the tree at once, without grace and without waiting."""
        if self.settled and self.gone:
            return
        self._terminated = self._terminated or not self.settled
        self._stop_timer("kill")
        self._after("give up", self._grace_s, self._give_up)
        self._minder.kill()

    def terminate_when(self, event: asyncio.Event) -> None:
        """Terminate the tree as soon as ``event`` is set, unless it has settled by then."""

        async def watch() -> None:
            await event.wait()
            if not self.settled:
                self.terminate()

        if not self.settled:
            # The tree owns this task: settling cancels it, and the host awaits it when it closes.
            task = self._loop.create_task(watch())
            self._watchers.add(task)
            task.add_done_callback(self._watchers.discard)

    async def release(self) -> None:
        """Close the raw pipe ends and end the watching of events. The host calls this when it closes."""
        self._streams.close_raw()
        watchers = list(self._watchers)
        for task in watchers:
            task.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)

    def _check_started(self) -> None:
        if self._failure is not None:
            raise self._failure

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for the end of the tree; asked by its minder, as what follows is told by it."""
        return "kill" in self._timers or self._exit_waiters > 0 or not self.settled

    def started_as(self, pid: int) -> None:
        """The first process runs."""
        self._pid = pid
        self._decided.set()

    def failed(self, failure: SpawnFailed) -> None:
        """The tree could not be started."""
        self._failure = failure
        self._streams.abandon()
        self._stop_timers()
        self._decided.set()
        self._gone.set()
        self._settled.set()
        self._end_watchers()
        self._on_change(self)

    def exited(self, exit_code: int | None) -> None:
        """The first process has ended."""
        self._exited = True
        if exit_code is not None:
            self._exit_code = exit_code if exit_code >= 0 else None
            self._signal = _signal_name(-exit_code) if exit_code < 0 else None
        self._pipes_changed()
        if not self.settled:
            self._after("drain", self._grace_s, self._stop_reading)

    def vanished(self) -> None:
        """No process of the tree is left."""
        self._gone.set()
        for name in ("kill", "give up"):
            self._stop_timer(name)
        if self._terminated and not self.settled:
            self._stop_reading()  # what holds a pipe now has escaped, and will not be waited for
        self._on_change(self)

    def _pipes_changed(self) -> None:
        if self._exited and not self.settled and not self._streams.collecting:
            self._settle(pipes_held=False)
        self._on_change(self)

    def _stop_reading(self) -> None:
        self._settle(pipes_held=self._streams.stop_collecting())

    def _give_up(self) -> None:
        """The first process outlived SIGKILL by the grace: its end will not be seen by those who wait now."""
        if not self.settled:
            self._stop_reading()

    def _settle(self, *, pipes_held: bool) -> None:
        self._stop_timer("drain")
        self._result = ProcessExit(exit_code=self._exit_code, signal=self._signal, pipes_held=pipes_held)
        self._settled.set()
        self._streams.stop_input()
        self._end_watchers()
        self._on_change(self)

    def _end_watchers(self) -> None:
        for task in self._watchers:
            task.cancel()

    def _after(self, name: str, delay_s: float, action: Callable[[], None]) -> None:
        self._stop_timer(name)

        def fire() -> None:
            del self._timers[name]
            action()

        self._timers[name] = self._loop.call_later(delay_s, fire)

    def _stop_timers(self) -> None:
        for name in tuple(self._timers):
            self._stop_timer(name)

    def _stop_timer(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"  # a real-time signal between the named ones
