"""The tools with which a model follows its background jobs (BEHAVIOUR §5.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._job_text import list_line, status_text
from ._jobs import Jobs
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

    async def execute(self, execution: ToolExecution) -> ToolResult:
        """Answer one call. Raises ``ToolError``."""
        agent = execution.agent
        try:
            text = await self.answer(execution.arguments, None if agent is None else agent.session.id)
        except JobError as error:
            raise ToolError(str(error)) from error
        return ToolResult.of_text(text)

    async def answer(self, arguments: Mapping[str, Any], owner: str | None) -> str:
        raise NotImplementedError


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

    async def answer(self, arguments: Mapping[str, Any], owner: str | None) -> str:
        """Return the new output and a status line."""
        job_id = _job_id(arguments)
        if arguments.get("wait"):
            timeout_ms = min(arguments.get("timeout_ms", DEFAULT_WAIT_MS), MAX_WAIT_MS)
            await self.jobs.wait(job_id, owner=owner, timeout_ms=timeout_ms)
        output = self.jobs.read(job_id, owner=owner) or "(no new output)"
        separator = "" if output.endswith("\n") else "\n"
        return f"{output}{separator}{status_text(self.jobs.get(job_id, owner=owner))}"


class JobList(_JobTool):
    """``job_list``: which jobs there are."""

    name = "job_list"
    description = "List the background jobs of this session with their status."
    parameters: Mapping[str, Any] = {"type": "object", "properties": {}}

    async def answer(self, arguments: Mapping[str, Any], owner: str | None) -> str:  # noqa: ARG002  # it has none
        """Return a line a job."""
        return "\n".join(map(list_line, self.jobs.of(owner))) or "(no background jobs)"


class JobKill(_JobTool):
    """``job_kill``: end a job."""

    name = "job_kill"
    description = "Ask a background job to end; its whole process tree is ended."
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {"job_id": _JOB_ID, "reason": {"type": "string", "description": "Why, for the record."}},
        "required": ["job_id"],
    }

    async def answer(self, arguments: Mapping[str, Any], owner: str | None) -> str:
        """Ask, and say whether there was anything left to end."""
        job_id = _job_id(arguments)
        if self.jobs.kill(job_id, owner=owner, reason=arguments.get("reason") or "killed by the model"):
            return f"requested cancellation of job {job_id}"
        job = self.jobs.get(job_id, owner=owner)
        if job.status == "lost":
            return f"job {job_id} is lost, nothing was signalled: {job.detail}"
        return f"job {job_id} had already finished {status_text(job)}"


def _job_id(arguments: Mapping[str, Any]) -> str:
    job_id: str = arguments["job_id"]
    if not job_id.strip():
        msg = f'invalid job_id: expected a non-empty string, got "{job_id}"'
        raise ToolError(msg)
    return job_id
