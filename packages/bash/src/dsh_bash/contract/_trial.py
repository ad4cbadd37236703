"""An executor on trial: a place in its world, commands in it, and what is left of them afterwards."""

# What is wrong with an executor shows here as well; assertions are how the suite speaks.
# ruff: noqa: S101, TID252

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

import pytest

from .._seam import Bash, BashProcess
from .._values import BashDelta, BashExecRequest, BashRunResult
from ._capabilities import BashCapabilities, OpenBash
from .plugin import PROMISE

PATIENCE_S = 60
"""How long a test may hang. Nothing that keeps its promises is held to a time."""
DEADLINE_MS = 700
"""The deadline of commands that are to meet theirs: what they do before it needs far less."""
A_MEGABYTE = 1 << 20


class Trial:
    """One opened executor: ``async with trial``. Its commands run in a fresh folder unless they name another."""

    bash: Bash
    place: str
    """The folder, without symbolic links in its name. It lies where the commands run."""

    def __init__(self, open_bash: OpenBash, capabilities: BashCapabilities) -> None:
        self.open_bash = open_bash
        self.capabilities = capabilities
        self._stack = AsyncExitStack()
        self._markers: list[str] = []
        self._files: list[str] = []

    def need(self, capability: str) -> None:
        """Skip the test of an executor that does not declare this."""
        if not getattr(self.capabilities, capability):
            pytest.skip(f"the executor does not declare {capability}")

    def marker(self) -> str:
        """Return a time to sleep that no other process sleeps for; what sleeps for it is found by it."""
        self._markers.append(f"60.{uuid.uuid4().int % 10**15:015d}")
        return self._markers[-1]

    async def run(self, command: str, **fields: Any) -> BashRunResult:
        """Run a command to its end; without a deadline of its own it has one that no good executor meets."""
        request: dict[str, Any] = {"workdir": self.place, "timeout_ms": PATIENCE_S * 500} | fields
        result = await self.bash.run(self.bash.resolve(BashExecRequest(command=command, **request)))
        self._files += [path for path in (result.stdout.spill_path, result.stderr.spill_path) if path is not None]
        return result

    async def text(self, command: str, **fields: Any) -> str:
        """Run a command and return what it printed."""
        return (await self.run(command, **fields)).stdout.text

    def start(self, command: str, **fields: Any) -> BashProcess:
        """Start a command in the background."""
        request: dict[str, Any] = {"workdir": self.place} | fields
        return self.bash.start(self.bash.resolve(BashExecRequest(command=command, **request)))

    def read(self, process: BashProcess) -> BashDelta:
        """Read what a background command has printed, and remember its files."""
        delta = process.read_output()
        self._files += [path for path in (delta.stdout_spill_path, delta.stderr_spill_path) if path is not None]
        return delta

    async def first_output(self, process: BashProcess) -> str:
        """Return what the first read gives that gives anything."""
        while not (text := self.read(process).text):  # noqa: ASYNC110  # nothing tells of new output
            await asyncio.sleep(0.01)
        return text

    async def appears(self, name: str) -> None:
        """Wait until a command has made this file."""
        result = await self.run(f"while [ ! -e {name} ]; do sleep 0.02; done")
        assert not result.timed_out, f"the file {name} never came"

    async def environment(self, **fields: Any) -> dict[str, str]:
        """Return the environment that a command has."""
        return parse_environment(await self.text("env -0", stdout_max_bytes=A_MEGABYTE, **fields))

    async def living(self, marker: str) -> int:
        """Return how many processes have the marker in their command line; zombies have none."""
        # The pattern comes by standard input, so that it is in no command line of the search itself.
        return int(await self.text("grep -alFf - /proc/[0-9]*/cmdline 2>/dev/null | wc -l", stdin=f"{marker}\n"))

    async def __aenter__(self) -> Self:
        async with self._stack:
            self.bash = await self._stack.enter_async_context(self.open_bash())
            self.place = "/"
            self.place = (await self.text('cd "$(mktemp -d)" && pwd -P')).strip()
            assert self.place.startswith("/"), f"there is no place to run in: {self.place!r}"
            self._stack.push_async_callback(self._clean)
            self._stack = self._stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _clean(self) -> None:
        if self._markers and self.capabilities.shows_processes:
            kill = "kill -9 $(grep -alFf - /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3) 2>/dev/null"
            await self.run(kill, stdin="".join(f"{marker}\n" for marker in self._markers))
        await self.run(f'rm -rf {self.place}; while read -r file; do rm -f "$file"; done', stdin="\n".join(self._files))


Scenario = Callable[[Any, Trial], Coroutine[Any, Any, None]]


def on_trial(scenario: Scenario) -> Callable[[Any, Trial], None]:
    """Make a test of a coroutine: the trial is open while it runs, on a loop of its own.

    So the contract needs no plugin of anybody's pytest.
    """

    async def hold(self: Any, trial: Trial) -> None:
        async with asyncio.timeout(PATIENCE_S), trial:
            await scenario(self, trial)

    @functools.wraps(scenario)
    def test(self: Any, trial: Trial) -> None:
        asyncio.run(hold(self, trial))

    setattr(test, PROMISE, (scenario.__doc__ or "").partition(":")[0])
    return test


def parse_environment(text: str) -> dict[str, str]:
    """Return what ``env -0`` printed as a map."""
    return dict(entry.split("=", 1) for entry in text.split("\0") if entry)


def ending(result: BashRunResult) -> tuple[int | None, str | None, bool, bool]:
    """Return how a command ended: its exit code, its signal, whether it timed out, whether it was aborted."""
    return result.exit_code, result.signal, result.timed_out, result.aborted


def state(process: BashProcess) -> tuple[str, int | None, str | None]:
    """Return how a background command stands: its status, exit code and signal."""
    return process.status, process.exit_code, process.signal
