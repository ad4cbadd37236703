"""How a job is told to a model (BEHAVIOUR §5.5)."""

from __future__ import annotations

from ._job import Job

_SUMMARY_CHARS = 120


def status_text(job: Job) -> str:
    """Return the status and what there is to say beside it: ``[status: completed, exit code: 0]``."""
    return f"[status: {job.status}, {job.detail}]" if job.detail else f"[status: {job.status}]"


def list_line(job: Job) -> str:
    """Return the line of one job; what is strange about one that has no end is said, how one ended is not."""
    line = f"{job.id} [{job.kind}] {job.status} — {job.label}"
    return f"{line} ({job.detail})" if job.detail and (job.is_live or job.status == "lost") else line


def completion_notice(job: Job) -> str:
    """Return what the owner of an ended job is told."""
    end = status_text(job)
    return f"background job {job.id} ({job.kind}: {job.label}) finished {end}. Read its output with job_output."


def completion_summary(job: Job) -> str:
    """Return the same in one short line, for who shows a conversation."""
    line = f"{job.kind} {job.label} {status_text(job)}"
    return line if len(line) <= _SUMMARY_CHARS else f"{line[: _SUMMARY_CHARS - 1]}…"
