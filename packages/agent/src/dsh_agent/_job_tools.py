"""The tools with which a model follows its background jobs (BEHAVIOUR §5.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from dsh_context import Context, plugin

from ._jobs import Job, Jobs
from ._services import JOBS, TOOLS
from ._tools import ToolExecution, ToolResult
from .errors import JobError, ToolError

DEFAULT_WAIT_MS = 30_000
MAX_WAIT_MS = 600_000

_JOB_ID = {"type": "string", "description": "The id that the start of the job returned."}


class _JobTool:
    """What the three tools share."""

    name: str
    description: str
    parameters: Mapping[str, Any]

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs

    def is_concurrency_safe(self, arguments: Mapping[str, Any]) -> bool:  # noqa: ARG002  # the seam's signature
        return True

    def find(self, execution: ToolExecution) -> Job:
        job_id = execution.arguments["job_id"]
        if not job_id.strip():
            msg = f'invalid job_id: expected a non-empty string, got "{job_id}"'
            raise ToolError(msg)
        try:
            return self.jobs.get(job_id, owner=_owner(execution))
        except JobError as error:
            raise ToolError(str(error)) from error


class JobOutput(_JobTool):
    """``job_output``: what a job has printed since the last look."""

    name = "job_output"
    description = (
        "Read what a background job has printed since the last read, and its status. "
        "With wait, first wait until it ends or timeout_ms has passed."
    )
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "job_id": _JOB_ID,
            "wait": {"type": "boolean", "description": "Wait for the end of the job."},
            "timeout_ms": {"type": "number", "description": "How long to wait, in milliseconds."},
        },
        "required": ["job_id"],
    }

    async def execute(self, execution: ToolExecution) -> ToolResult:
        """Return the new output and a status line."""
        job = self.find(execution)
        if execution.arguments.get("wait"):
            await _wait(job, execution.arguments.get("timeout_ms", DEFAULT_WAIT_MS))
        output = job.process.read_output() or "(no new output)"
        separator = "" if output.endswith("\n") else "\n"
        return ToolResult.of_text(f"{output}{separator}{_status(job)}")


class JobList(_JobTool):
    """``job_list``: which jobs there are."""

    name = "job_list"
    description = "List the background jobs of this session with their status."
    parameters: Mapping[str, Any] = {"type": "object", "properties": {}}

    async def execute(self, execution: ToolExecution) -> ToolResult:
        """Return a line a job."""
        lines = [f"{job.id} [{job.kind}] {job.process.status} — {job.label}" for job in self.jobs.of(_owner(execution))]
        return ToolResult.of_text("\n".join(lines) or "(no background jobs)")


class JobKill(_JobTool):
    """``job_kill``: end a job."""

    name = "job_kill"
    description = "Ask a background job to end; its whole process tree is ended."
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {"job_id": _JOB_ID, "reason": {"type": "string", "description": "Why, for the record."}},
        "required": ["job_id"],
    }

    async def execute(self, execution: ToolExecution) -> ToolResult:
        """Ask, and say whether there was anything left to end."""
        job = self.find(execution)
        if job.process.kill():
            return ToolResult.of_text(f"requested cancellation of job {job.id}")
        return ToolResult.of_text(f"job {job.id} had already finished {_status(job)}")


@plugin(TOOLS, name="jobs")
async def jobs(ctx: Context, _config: None) -> None:
    """Provide ``JOBS`` and its tools; stopping kills what still runs."""
    registry = Jobs()
    ctx.effect(registry.close)
    await ctx.provide(JOBS, registry)
    tools = ctx.require(TOOLS)
    for tool in (JobOutput(registry), JobList(registry), JobKill(registry)):
        ctx.effect(tools.register(tool))


def _owner(execution: ToolExecution) -> str | None:
    return None if execution.agent is None else execution.agent.session.id


def _status(job: Job) -> str:
    detail = job.process.detail
    return f"[status: {job.process.status}{', ' if detail else ''}{detail}]"


async def _wait(job: Job, timeout_ms: float) -> None:
    if timeout_ms <= 0:
        msg = f"invalid wait timeout: expected a positive number of milliseconds, got {timeout_ms}"
        raise ToolError(msg)
    try:
        async with asyncio.timeout(min(timeout_ms, MAX_WAIT_MS) / 1000):
            await job.process.wait()
    except TimeoutError:
        pass  # a job that still runs is an answer, not a failure
