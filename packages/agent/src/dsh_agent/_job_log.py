"""Jobs in a session's log: their start, their end, and those that an earlier run left behind (GENERATIONS §5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from dsh_session import Session, SessionEvent

from ._job import Job

JobCause: TypeAlias = Literal["producer", "kill", "teardown"]
"""What ended a job: itself, somebody's kill, or the end of its owner or of the harness."""

JobStart: TypeAlias = Mapping[str, Any]

REGISTERED = "job/registered"
SETTLED = "job/settled"

_LOST = "the harness that started it is gone and recorded no end; nothing of it can be read or ended from here"
_COUNTED = re.compile(r"[1-9][0-9]{0,8}")  # a longer number is no count of ours, but part of a foreign random id


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHistory:
    """What a log says of the jobs of earlier runs."""

    lost: dict[str, Job] = field(default_factory=dict)
    """The session's own jobs that started and did not end, by id; what a fork inherited is not its own."""
    counts: dict[str, int] = field(default_factory=dict)
    """The highest number of each kind, inherited jobs included: their ids stand in the conversation too."""


def log_start(session: Session, job: Job, *, call_id: str | None) -> JobStart:
    """Append that a job has started, and return what its end will repeat. Raises what ``Session.append`` raises."""
    start: dict[str, Any] = {
        "jobId": job.id,
        "owner": session.id,
        "kind": job.kind,
        "label": job.label,
        "startedAt": session.clock(),
    }
    if call_id is not None:
        start["toolCall"] = {"callId": call_id, "rootCallId": call_id}
    session.append(REGISTERED, start)
    return start


def log_end(session: Session, start: JobStart, job: Job, *, cause: JobCause, told_by_producer: bool) -> None:
    """Append that a job has ended. Raises what ``Session.append`` raises."""
    end: dict[str, Any] = {
        "finishedAt": session.clock(),
        "status": job.status,
        "cause": cause,
        "producerReported": told_by_producer,
    }
    if job.detail:
        end["detail"] = job.detail
    session.append(SETTLED, {**start, **end})


def read_history(session: Session) -> JobHistory:
    """Return what the log says of earlier jobs; a record that lacks what every job has is passed over."""
    history = JobHistory()
    for event in session.events.of_type(REGISTERED, SETTLED):
        job = _lost_job(event)
        if job is None:
            continue
        number = job.id.removeprefix(f"{job.kind}-")
        if _COUNTED.fullmatch(number):
            history.counts[job.kind] = max(history.counts.get(job.kind, 0), int(number))
        if event.type == SETTLED:
            history.lost.pop(job.id, None)
        elif job.owner == session.id:
            history.lost[job.id] = job
    return history


def _lost_job(event: SessionEvent) -> Job | None:
    # No rule of the format looks into these records, so nothing but this does.
    if not isinstance(event.data, dict):
        return None
    data = cast("dict[str, Any]", event.data)
    job_id, kind, label, owner = (data.get(key) for key in ("jobId", "kind", "label", "owner"))
    if not (isinstance(job_id, str) and isinstance(kind, str) and isinstance(label, str) and isinstance(owner, str)):
        return None
    return Job(id=job_id, kind=kind, label=label, owner=owner, status="lost", detail=_LOST, reported=True)
