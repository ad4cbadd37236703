"""Background jobs: processes that outlive the call that started them (BEHAVIOUR §5.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from .errors import JobError

JobStatus = Literal["running", "completed", "killed"]

ACTIVE_LIMIT = 10
"""Running jobs one session may have."""


class JobProcess(Protocol):
    """What runs behind a job."""

    @property
    def status(self) -> JobStatus:
        """How far it is."""

    @property
    def detail(self) -> str:
        """How it ended, such as ``exit code: 0``; empty while it runs."""

    def read_output(self) -> str:
        """Return what it has printed since the last call."""

    def kill(self) -> bool:
        """Ask it to end; False when it has ended already."""

    async def wait(self) -> None:
        """Return when it has ended. Never raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A started job."""

    id: str
    kind: str
    label: str
    owner: str | None
    """The session that started it; None for a call outside any agent."""
    process: JobProcess


class Jobs:
    """The jobs of a harness. A job of a session is seen by that session only."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._counts: dict[str, int] = {}

    def start(self, *, kind: str, label: str, owner: str | None, run: Callable[[], JobProcess]) -> str:
        """Start a job and return its id, such as ``bash-1``.

        Raises ``JobError`` or what ``run`` raises; no id is used up then.
        """
        active = sum(job.owner == owner and job.process.status == "running" for job in self._jobs.values())
        if active >= ACTIVE_LIMIT:
            msg = f"{active} jobs of this session are running, the limit is {ACTIVE_LIMIT}; kill one or wait for it"
            raise JobError(msg)
        process = run()
        self._counts[kind] = self._counts.get(kind, 0) + 1
        job = Job(id=f"{kind}-{self._counts[kind]}", kind=kind, label=label, owner=owner, process=process)
        self._jobs[job.id] = job
        return job.id

    def get(self, job_id: str, *, owner: str | None) -> Job:
        """Return a job that ``owner`` may see. Raises ``JobError``."""
        job = self._jobs.get(job_id)
        if job is None:
            msg = f"unknown job {job_id}"
            raise JobError(msg)
        if job.owner not in (None, owner):
            msg = f"job {job_id} belongs to another session"
            raise JobError(msg)
        return job

    def of(self, owner: str | None) -> Iterator[Job]:
        """Yield the jobs that ``owner`` may see, oldest first."""
        return (job for job in tuple(self._jobs.values()) if job.owner in (None, owner))

    async def close(self) -> None:
        """Kill every running job and wait until all have ended."""
        for job in self._jobs.values():
            job.process.kill()
        for job in self._jobs.values():
            await job.process.wait()
