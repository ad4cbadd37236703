"""A plain honest executor: what keeps the promises in few words, and what the broken ones are made from.

It looks at its commands in a loop, holds them together by their process group, and writes no output to files; so it is
none to use.
"""

from __future__ import annotations

import asyncio
import math
import subprocess
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from dsh_subprocess import InvalidEnvironment, child_env

from .. import (  # noqa: TID252  # imports inside a package are relative
    BashClosed,
    BashError,
    BashExecRequest,
    BashExecSpec,
    BashMissing,
    BashOutput,
    BashRunResult,
    BashStartCancelled,
    BashStartFailed,
    InvalidBashRequest,
    WorkdirMissing,
)
from ._capabilities import BashCapabilities
from ._plain_command import PlainCommand, PlainLeftover, PlainStream

OVERRIDES = {"NO_COLOR": "1", "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}


class PlainBash:
    """Runs commands on this machine: ``async with PlainBash() as bash``."""

    capabilities = BashCapabilities(
        shows_processes=True,
        leaves_children=True,
        tells_leftovers=True,
        inherits_environment=True,
        finds_bash_on_path=True,
    )
    command_type: type[PlainCommand] = PlainCommand
    stream_type: type[PlainStream] = PlainStream
    timeout_ms: float = 120_000
    max_timeout_ms: float = 600_000
    grace_ms: float = 400
    max_output_bytes = 16_000

    def __init__(self) -> None:
        self.commands: set[PlainCommand] = set()
        self.closed = False

    def resolve(self, request: BashExecRequest) -> BashExecSpec:
        """Decide what a request leaves open."""
        timeout_ms = self.timeout_ms if request.timeout_ms is None else request.timeout_ms
        grace_ms = self.grace_ms if request.grace_ms is None else request.grace_ms
        for name, value in (("timeout_ms", timeout_ms), ("grace_ms", grace_ms)):
            if not (math.isfinite(value) and value > 0):
                raise InvalidBashRequest(name, f"{name} must be positive and finite, not {value}")
        limit = self.max_output_bytes if request.stdout_max_bytes is None else request.stdout_max_bytes
        if limit <= 0:
            raise InvalidBashRequest("stdout_max_bytes", f"stdout_max_bytes must be positive, not {limit}")
        return BashExecSpec(
            command=request.command,
            workdir=str(Path.cwd()) if request.workdir is None else request.workdir,
            timeout_ms=min(timeout_ms, self.max_timeout_ms),
            stdout_max_bytes=limit,
            grace_ms=grace_ms,
            stdin=request.stdin,
            env=None if request.env is None else MappingProxyType(dict(request.env)),
            dsh_env=None if request.dsh_env is None else MappingProxyType(dict(request.dsh_env)),
            cancel=request.cancel,
        )

    async def run(self, spec: BashExecSpec) -> BashRunResult:
        """Run to the end; a cancelled task ends the command first."""
        command = self.launch(spec, foreground=True)
        try:
            await command.wait()
        except asyncio.CancelledError:
            await self.leave(command)
            raise
        return self.result(spec, command)

    def start(self, spec: BashExecSpec) -> PlainCommand:
        """Start in the background; what the system refuses is told by the command."""
        try:
            return self.launch(spec, foreground=False)
        except (WorkdirMissing, BashMissing, BashStartFailed) as error:
            return self.command_type(self, spec, None, failure=error)

    def launch(self, spec: BashExecSpec, *, foreground: bool) -> PlainCommand:
        """Start a command and watch it. Raises ``BashError``."""
        self.check(spec)
        env = self.child_environment(spec, foreground=foreground)
        process = self.spawn(spec, env)
        command = self.command_type(
            self,
            spec,
            process,
            stdout_max_bytes=spec.stdout_max_bytes if foreground else self.max_output_bytes,
            deadline_s=spec.timeout_ms / 1000 if foreground else math.inf,
        )
        self.commands.add(command)
        command.watching.add_done_callback(lambda _: self.commands.discard(command))
        return command

    def check(self, spec: BashExecSpec) -> None:
        """Refuse what can never run, or not now."""
        if self.closed:
            raise BashClosed
        if spec.cancel is not None and spec.cancel.is_set():
            raise BashStartCancelled
        if "\0" in spec.command:
            raise InvalidBashRequest("command", "a command must not hold NUL")

    def environment(self, spec: BashExecSpec) -> dict[str, str | None]:
        """Return the explicit entries, the last of a name deciding."""
        return {**OVERRIDES, **(spec.env or {}), **(spec.dsh_env or {})}

    def child_environment(self, spec: BashExecSpec, *, foreground: bool) -> dict[str, str]:  # noqa: ARG002  # alike
        """Return what the command gets, the same for both kinds."""
        try:
            return child_env(self.environment(spec))
        except InvalidEnvironment as error:
            raise InvalidBashRequest("env", str(error)) from error

    def arguments(self, command: str) -> list[str]:
        """Return what is executed."""
        return ["bash", "-c", command]

    def spawn(self, spec: BashExecSpec, env: dict[str, str]) -> subprocess.Popen[bytes]:
        """Start the process in a session of its own."""
        if not Path(spec.workdir).is_dir():
            raise WorkdirMissing(spec.workdir)
        try:
            return subprocess.Popen(
                self.arguments(spec.command),
                cwd=spec.workdir,
                env=env,
                stdin=self.standard_input(spec),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise self.without_bash(env) from error
        except OSError as error:
            raise BashStartFailed(f"bash could not be started: {error}") from error

    def standard_input(self, spec: BashExecSpec) -> int | None:
        """Return what standard input is made of, in the terms of ``subprocess``."""
        return subprocess.DEVNULL if spec.stdin is None else subprocess.PIPE

    def without_bash(self, env: dict[str, str]) -> BashError:
        """Return the error for a bash that is not there."""
        return BashMissing(env.get("PATH"))

    def result(self, spec: BashExecSpec, command: PlainCommand) -> BashRunResult:
        """Return what became of a foreground command."""
        return BashRunResult(
            exit_code=command.exit_code,
            signal=command.signal,
            timed_out=command.cause == "deadline",
            aborted=command.cause not in {None, "deadline"},
            timeout_ms=spec.timeout_ms,
            stdout=self.output(command.stdout),
            stderr=self.output(command.stderr),
            pipes_held=command.pipes_held,
            leftover=None if command.gone() else PlainLeftover(command),
        )

    def output(self, stream: PlainStream) -> BashOutput:
        """Return what is kept of a stream."""
        return BashOutput(
            text=stream.text(),
            truncated=stream.total_bytes > stream.max_bytes,
            spill_path=None,
            total_bytes=stream.total_bytes,
        )

    async def leave(self, command: PlainCommand) -> None:
        """End a command nobody waits for any longer."""
        command.end("left")
        await command.wait()

    async def close(self) -> None:
        """End what runs, and start nothing more."""
        self.closed = True
        for command in [*self.commands]:
            command.end("closed")
            await command.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
