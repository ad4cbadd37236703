"""The executor: bash as a process tree of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from dsh_bash import (
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
from dsh_subprocess import (
    STRICT,
    Collect,
    CollectedOutput,
    ExecutableMissing,
    HostClosed,
    Ignore,
    InvalidSpec,
    ProcessExit,
    ProcessHost,
    ProcessTree,
    SpawnFailed,
    SpawnSpec,
    StdinData,
    WorkingDirectoryMissing,
)

from ._config import MAX_GRACE_MS, LocalBashConfig, is_positive, is_size
from ._merge import explicit_env
from ._process import LocalBashProcess
from .errors import InvalidConfig

_STRAGGLERS_S = 0.05
"""How long what is about to end anyway may outlive its shell before it counts as left running."""


class LocalBash:
    """Runs ``bash -c`` with a rebuilt environment: ``async with LocalBash() as bash``. Implements ``dsh_bash.Bash``.

    Without a ``host`` it owns one, and leaving the block ends every command. A given host stays its owner's: what
    was started in the background lives on there. ``parent_env`` is what commands inherit from, None the process's
    environment at each command; a given host brings its own, so both together raise ``InvalidConfig``.
    """

    def __init__(
        self,
        config: LocalBashConfig | None = None,
        *,
        host: ProcessHost | None = None,
        parent_env: Mapping[str, str] | None = None,
    ) -> None:
        if host is not None and parent_env is not None:
            raise InvalidConfig("parent_env", "belongs to the host: give it to the ProcessHost instead")
        self._config = config or LocalBashConfig()
        self._owns_host = host is None
        self._host = host or ProcessHost(parent_env=parent_env)

    def resolve(self, request: BashExecRequest) -> BashExecSpec:
        """Decide what ``request`` leaves open (BEHAVIOUR §3.1); a directory is neither completed nor looked for.

        The environment maps are copied: what a caller changes later does not reach the command. Raises
        ``InvalidBashRequest``, and ``WorkdirMissing`` when the process's own directory is wanted and was deleted.
        """
        config = self._config
        timeout_ms = config.timeout_ms if request.timeout_ms is None else request.timeout_ms
        if not is_positive(timeout_ms):
            raise InvalidBashRequest("timeout_ms", "bash-local: request.timeout_ms must be a positive finite number")
        stdout_max_bytes = config.max_output_bytes if request.stdout_max_bytes is None else request.stdout_max_bytes
        if not is_size(stdout_max_bytes):
            raise InvalidBashRequest(
                "stdout_max_bytes", "bash-local: request.stdout_max_bytes must be a positive number"
            )
        grace_ms = config.grace_ms if request.grace_ms is None else request.grace_ms
        if not (is_positive(grace_ms) and grace_ms <= MAX_GRACE_MS):
            raise InvalidBashRequest(
                "grace_ms", f"bash-local: request.grace_ms must be a positive number of at most {MAX_GRACE_MS}"
            )
        workdir = config.cwd if request.workdir is None else request.workdir
        return BashExecSpec(
            command=request.command,
            workdir=_own_directory() if workdir is None else workdir,
            timeout_ms=min(timeout_ms, config.max_timeout_ms),
            stdout_max_bytes=stdout_max_bytes,
            grace_ms=grace_ms,
            stdin=request.stdin,
            env=None if request.env is None else MappingProxyType(dict(request.env)),
            dsh_env=None if request.dsh_env is None else MappingProxyType(dict(request.dsh_env)),
            cancel=request.cancel,
        )

    async def run(self, spec: BashExecSpec) -> BashRunResult:
        """Run to the end, the deadline or the cancel event, whichever comes first (BEHAVIOUR §3.3).

        After a deadline or a cancel the result comes when the whole tree is gone. When the awaiting task is
        cancelled, the tree is terminated and waited for first; a second cancellation kills it at once.
        """
        tree = self._spawn(spec, spec.stdout_max_bytes)
        timed_out = False

        def expire() -> None:
            nonlocal timed_out
            if not tree.settled and not tree.terminated:
                timed_out = True
                tree.terminate()

        timer = asyncio.get_running_loop().call_later(spec.timeout_ms / 1000, expire)
        try:
            ended = await tree.wait()
            if tree.terminated:
                await tree.wait_ended()
            else:
                await tree.wait_for_exit(_STRAGGLERS_S)
        except SpawnFailed as failure:
            raise self._start_error(spec, failure) from failure
        except asyncio.CancelledError:
            await _end(tree)
            raise
        finally:
            timer.cancel()
        return _result(spec, tree, ended, timed_out=timed_out)

    def start(self, spec: BashExecSpec) -> LocalBashProcess:
        """Start in the background and return at once (BEHAVIOUR §3.4)."""
        return LocalBashProcess(self._spawn(spec, self._config.max_output_bytes))

    async def close(self) -> None:
        """End every command when the host is this executor's own. Idempotent."""
        if self._owns_host:
            await self._host.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _spawn(self, spec: BashExecSpec, stdout_max_bytes: int) -> ProcessTree:
        if spec.cancel is not None and spec.cancel.is_set():
            raise BashStartCancelled
        config = self._config
        try:
            tree = self._host.spawn(
                SpawnSpec(
                    argv=("bash", "-c", spec.command),
                    cwd=spec.workdir,
                    policy=STRICT,
                    env=explicit_env(spec),
                    stdin=Ignore() if spec.stdin is None else StdinData(data=_utf8(spec.stdin)),
                    stdout=Collect(max_bytes=stdout_max_bytes, spill_max_bytes=config.max_spill_bytes),
                    stderr=Collect(max_bytes=config.max_output_bytes, spill_max_bytes=config.max_spill_bytes),
                    grace_ms=spec.grace_ms,
                )
            )
        except InvalidSpec as error:
            field = {"argv": "command", "cwd": "workdir", "stdout": "stdout_max_bytes"}.get(error.field, error.field)
            raise InvalidBashRequest(field, f"bash-local: request.{field}: {error}") from error
        except HostClosed as error:
            raise BashClosed from error
        if spec.cancel is not None:
            tree.terminate_when(spec.cancel)
        return tree

    def _start_error(self, spec: BashExecSpec, failure: SpawnFailed) -> BashError:
        match failure:
            case WorkingDirectoryMissing():
                return WorkdirMissing(spec.workdir)
            case ExecutableMissing():
                return BashMissing(self._host.child_env(explicit_env(spec), policy=STRICT).get("PATH"))
            case _:
                return BashStartFailed(f"bash could not be started: {failure}")


async def _end(tree: ProcessTree) -> None:
    tree.terminate()
    try:
        await tree.wait_ended()
    except asyncio.CancelledError:
        tree.kill_now()
        raise


def _result(spec: BashExecSpec, tree: ProcessTree, ended: ProcessExit, *, timed_out: bool) -> BashRunResult:
    return BashRunResult(
        exit_code=ended.exit_code,
        signal=ended.signal,
        timed_out=timed_out,
        aborted=tree.terminated and not timed_out,
        timeout_ms=spec.timeout_ms,
        stdout=_output(tree.stdout),
        stderr=_output(tree.stderr),
        pipes_held=ended.pipes_held,
        leftover=None if tree.gone else LocalBashProcess(tree, is_leftover=True),
    )


def _output(output: CollectedOutput) -> BashOutput:
    return BashOutput(
        text=output.text(),
        truncated=output.truncated,
        spill_path=output.spill_path,
        total_bytes=output.total_bytes,
    )


def _own_directory() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        raise WorkdirMissing(".") from None


def _utf8(text: str) -> bytes:
    """Encode for the child; pairs of surrogates become one character, a lone one the replacement character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
