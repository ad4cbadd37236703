"""The bash tool: one command of the model (BEHAVIOUR §5.1 to §5.3)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dsh_agent import JobRefused, Jobs, ToolError, ToolExecution, ToolResult
from dsh_bash import DSH_ENV_PREFIX, Bash, BashError, BashExecRequest, BashExecSpec, BashProcess

from ._job import BashJob
from ._numbers import is_positive, json_number
from ._registry import BashEnvRegistry
from ._render import render_result, result_value

_DESCRIPTION = (
    "Runs a bash command and returns what it printed. Each call gets a fresh shell, so neither the directory nor "
    "variables carry over: name a directory with `workdir` instead of calling cd. The result is standard output, then "
    "a [stderr] section if anything was written there. A command that fails ends its result with [exit code: N]; look "
    "for it before going on. Of long output the end is kept, and the result names a file with all of it. Current "
    f"facts about the harness are in the managed ${DSH_ENV_PREFIX}* variables; inspect them when you need one. "
)
_WITH_BACKGROUND = (
    "Set `run_in_background` for servers and long work: the call returns a job id at once, and job_output reads it."
)
_WITHOUT_BACKGROUND = "There is no background execution here: every command has to end by itself."


class BashTool:
    """Runs the model's commands. Implements ``dsh_agent.Tool``.

    ``jobs`` is asked at each background call and may answer None. The request is built from the named arguments
    only: an ``env`` or ``stdin`` that a model sends changes nothing.
    """

    name = "bash"

    def __init__(
        self,
        bash: Bash,
        registry: BashEnvRegistry,
        *,
        jobs: Callable[[], Jobs | None],
        enable_run_in_background: bool = True,
    ) -> None:
        self._bash = bash
        self._registry = registry
        self._jobs = jobs
        self._background_is_enabled = enable_run_in_background
        self.description = _DESCRIPTION + (_WITH_BACKGROUND if enable_run_in_background else _WITHOUT_BACKGROUND)
        self.parameters = _parameters(enable_run_in_background=enable_run_in_background)

    def is_concurrency_safe(self, arguments: Mapping[str, Any]) -> bool:  # noqa: ARG002 - the seam's signature
        """Answer no: a command may change anything, so none overlaps with another call."""
        return False

    async def execute(self, execution: ToolExecution) -> ToolResult:
        """Run one command, or start it as a job.

        Raises ``ToolError`` for arguments that cannot be run, a command that could not start and one that was
        aborted; what the registry's resolvers raise passes through, and then nothing was started. A nonzero exit, a
        timeout and a signal are results. When the task is cancelled, the command's whole tree ends first.
        """
        arguments = execution.arguments
        _check(arguments)
        try:
            workdir = self._workdir(execution)
            snapshot = self._registry.collect(execution)
            spec = self._bash.resolve(
                BashExecRequest(
                    command=arguments["command"],
                    workdir=workdir,
                    timeout_ms=arguments.get("timeoutMs"),
                    dsh_env=snapshot,
                )
            )
            if arguments.get("run_in_background"):
                return await self._start(spec, execution)
            return await self._run(spec, execution)
        except BashError as error:
            raise ToolError(str(error)) from error

    async def _run(self, spec: BashExecSpec, execution: ToolExecution) -> ToolResult:
        result = await self._bash.run(spec)
        if result.aborted:
            raise ToolError("tool call aborted", name="AbortError", code="ABORTED")
        job_id = None if result.leftover is None else self._adopt(result.leftover, spec, execution)
        return ToolResult.of_text(render_result(result, leftover_job=job_id), value=result_value(result))

    def _adopt(self, leftover: BashProcess, spec: BashExecSpec, execution: ToolExecution) -> str | None:
        """Make a job of what a command left running, so that it can be seen and ended; return its id."""
        jobs = self._jobs()
        if jobs is None:
            return None
        try:
            return jobs.start(
                kind=self.name,
                label=spec.command,
                owner=execution.agent,
                call_id=execution.call_id,
                run=lambda: BashJob(leftover),
                is_news=False,
            )
        except JobRefused:
            return None  # there is no room; the result says all the same that something runs

    async def _start(self, spec: BashExecSpec, execution: ToolExecution) -> ToolResult:
        if not self._background_is_enabled:
            raise ToolError("run_in_background is disabled for this deployment (enableRunInBackground: false)")
        jobs = self._jobs()
        if jobs is None:
            raise ToolError(
                "background jobs unavailable: no job service is running; run the command in the foreground",
                name="JobsUnavailable",
                code="JOBS_UNAVAILABLE",
            )
        await asyncio.sleep(0)  # a call that was cancelled before it came here ends here, and starts nothing
        job_id = jobs.start(
            kind=self.name,
            label=spec.command,
            owner=execution.agent,
            call_id=execution.call_id,
            run=lambda: BashJob(self._bash.start(spec)),
        )
        return ToolResult.of_text(f"started background job {job_id}", value={"kind": "background", "jobId": job_id})

    def _workdir(self, execution: ToolExecution) -> str | None:
        wanted: str | None = execution.arguments.get("workdir")
        home = None if execution.agent is None else execution.agent.session.header.cwd
        if not wanted:
            # Canonical, so that the command sees one name of the workspace whatever link the session was opened by.
            return home if home is None or not Path(home).is_absolute() else os.path.realpath(home)
        if Path(wanted).is_absolute():
            return wanted
        base = self._bash.resolve(BashExecRequest(command=":")).workdir if home is None else home
        return os.path.normpath(os.path.join(base, wanted))


def _check(arguments: Mapping[str, Any]) -> None:
    for name in ("command", "description"):
        if not arguments[name].strip():
            raise ToolError(f"invalid {name}: expected a non-empty string")
    timeout_ms = arguments.get("timeoutMs")
    if timeout_ms is not None and not is_positive(timeout_ms):
        raise ToolError(f"invalid timeoutMs: expected a positive number, got {json_number(timeout_ms)}")


def _parameters(*, enable_run_in_background: bool) -> Mapping[str, Any]:
    properties = {
        "command": {"type": "string", "description": "The bash command to run."},
        "description": {"type": "string", "description": "What the command is for, in a few words, for the user."},
        "timeoutMs": {"type": "number", "description": "Milliseconds after which the command is ended."},
        "workdir": {
            "type": "string",
            "description": "Where to run: absolute, or relative to the session's directory, which is the default.",
        },
    }
    if enable_run_in_background:
        properties["run_in_background"] = {
            "type": "boolean",
            "description": "Start a background job and return its id; no timeout applies.",
        }
    return {"type": "object", "properties": properties, "required": ["command", "description"]}
