"""The registry of background jobs: work that outlives the call that started it (BEHAVIOUR §5.4)."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from ._job import Job, JobOutcome, JobProcess, JobStatus
from ._job_log import JobCause, JobStart, log_end, log_start, read_history
from .errors import JobRefused, JobUnknown, WaitInvalid

if TYPE_CHECKING:
    from ._agent import Agent

logger = logging.getLogger(__name__)

ACTIVE_LIMIT = 10
"""Live jobs one session may have; those of no session share one such room."""

TEARDOWN_S = 10.0
"""How long the end of an owner, or of the registry, waits for jobs it cancelled."""

T = TypeVar("T")
Observer = Callable[[Job], None]
Listener = Callable[[Job, "Agent | None"], None]


@dataclass(slots=True, kw_only=True, eq=False)
class _Record:
    """A job of this run, as it changes."""

    id: str
    kind: str
    label: str
    agent: Agent | None
    process: JobProcess
    start: JobStart | None = None
    status: JobStatus = "running"
    detail: str = ""
    reported: bool = False
    cause: JobCause = "producer"
    waiters: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    unwatch: Callable[[], object] | None = None

    @property
    def owner(self) -> str | None:
        return None if self.agent is None else self.agent.session.id

    @property
    def is_live(self) -> bool:
        return not self.ended.is_set()

    def snapshot(self) -> Job:
        return Job(
            id=self.id,
            kind=self.kind,
            label=self.label,
            owner=self.owner,
            status=self.status,
            detail=self.process.remark if self.is_live else self.detail,
            reported=self.reported,
        )


class Jobs:
    """The jobs of a harness. A job of a session is seen by that session only; one of no session by everybody.

    It watches each job in a task of its own; none of them outlives ``close``.
    """

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}
        self._counts: dict[str, int] = {}
        self._owners: dict[str, Agent] = {}
        self._lost: dict[str, dict[str, Job]] = {}
        self._observers: list[Observer] = []
        self._listeners: list[Listener] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def adopt(self, agent: Agent) -> None:
        """Let an agent own jobs, and take in what its log tells of jobs of an earlier run."""
        history = read_history(agent.session)
        self._owners[agent.session.id] = agent
        self._lost[agent.session.id] = history.lost
        for kind, count in history.counts.items():
            self._counts[kind] = max(self._counts.get(kind, 0), count)

    async def release(self, agent: Agent) -> None:
        """End the jobs of an agent, wait until they have ended, and forget them and it. Idempotent."""
        if self._owners.get(agent.session.id) is not agent:
            return
        del self._owners[agent.session.id], self._lost[agent.session.id]
        await self._tear_down([job for job in self._records.values() if job.agent is agent], "owner disposed")

    def start(
        self,
        *,
        kind: str,
        label: str,
        owner: Agent | None,
        run: Callable[[], JobProcess],
        call_id: str | None = None,
        is_news: bool = True,
    ) -> str:
        """Start a job and return its id, such as ``bash-1``; ``call_id`` is the tool call that asked for it.

        Where its end is no news, nobody is told of it: whoever wants to know looks.

        Raises ``JobRefused``, what ``run`` raises, or what keeps the owner's log from recording it; then no id is used
        up and nothing runs on.
        """
        self._check(kind, label, owner)
        number = self._counts.get(kind, 0) + 1
        record = _Record(
            id=f"{kind}-{number}", kind=kind, label=label, agent=owner, process=run(), reported=not is_news
        )
        if owner is not None:
            try:
                record.start = log_start(owner.session, record.snapshot(), call_id=call_id)
            except BaseException:
                record.process.cancel("its start could not be recorded")
                self._own(_until_end(record.process))
                raise
        self._counts[kind] = number
        self._records[record.id] = record
        record.unwatch = self._own(self._watch(record))
        self._changed(record)
        return record.id

    def get(self, job_id: str, *, owner: str | None) -> Job:
        """Return a job that ``owner`` may see, lost ones included. Raises ``JobUnknown``."""
        record = self._find(job_id, owner)
        return record if isinstance(record, Job) else record.snapshot()

    def of(self, owner: str | None) -> list[Job]:
        """Return the jobs that ``owner`` may see: lost ones, then those of this run, oldest first."""
        lost = self._lost.get(owner, {}).values() if owner is not None else ()
        mine = (job.snapshot() for job in self._records.values() if job.owner in (None, owner))
        return [*lost, *mine]

    def read(self, job_id: str, *, owner: str | None) -> str:
        """Return a job's output, see ``JobProcess.read_output``; reading one that has ended marks it as reported.

        A lost one has none. Raises ``JobUnknown``.
        """
        record = self._find(job_id, owner)
        if isinstance(record, Job):
            return ""
        output = record.process.read_output()
        if not record.is_live and not record.reported:
            record.reported = True
            self._changed(record)
        return output

    def kill(self, job_id: str, *, owner: str | None, reason: str = "killed") -> bool:
        """Ask a job to end; False when there is nothing left to end, or it is lost.

        Raises ``JobUnknown``, and what the job's ``cancel`` raises, which changes nothing.
        """
        record = self._find(job_id, owner)
        if isinstance(record, Job) or not record.is_live:
            return False
        record.process.cancel(reason)
        record.status, record.reported, record.cause = "stopping", True, "kill"
        self._changed(record)
        return True

    async def wait(self, job_id: str, *, owner: str | None, timeout_ms: float) -> Job:
        """Return the job when it has ended, or as it stands after ``timeout_ms``; a lost one at once.

        Who waits learns of the end, so nobody else tells it. Cancelling the wait leaves the job alone. Raises
        ``WaitInvalid`` and ``JobUnknown``.
        """
        if not (math.isfinite(timeout_ms) and timeout_ms > 0):
            raise WaitInvalid(timeout_ms)
        record = self._find(job_id, owner)
        if isinstance(record, Job):
            return record
        record.waiters += 1
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await record.ended.wait()
        except TimeoutError:
            pass  # a job that still runs is an answer, not a failure
        finally:
            record.waiters -= 1
        return record.snapshot()

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Call ``observer`` with each job after each change of it, until the returned function is called."""
        return _enter(self._observers, observer)

    def on_completion(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with each job that has ended and its owner, after the observers of that change."""
        return _enter(self._listeners, listener)

    async def close(self) -> None:
        """End every job, wait until all have ended, and start no more. Idempotent."""
        self._closed = True
        await self._tear_down(list(self._records.values()), "jobs service disposed")
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _check(self, kind: str, label: str, owner: Agent | None) -> None:
        if self._closed:
            raise JobRefused("jobs service disposed: it starts nothing any more")
        if not kind.strip():
            raise JobRefused("invalid kind: expected a non-empty string")
        if not label.strip():
            raise JobRefused("invalid label: expected a non-empty string")
        session_id = None if owner is None else owner.session.id
        if session_id is not None and self._owners.get(session_id) is not owner:
            raise JobRefused(f"session {session_id} has no live agent here that could own a job; start or resume it")
        active = sum(job.is_live and job.owner == session_id for job in self._records.values())
        if active >= ACTIVE_LIMIT:
            raise JobRefused(f"{active} jobs are active, the limit is {ACTIVE_LIMIT}; kill one or wait for it")

    def _find(self, job_id: str, owner: str | None) -> _Record | Job:
        record = self._records.get(job_id)
        # Ids are counted for the whole harness, so what a session knows as a lost job's may be another's by now.
        lost = None if owner is None else self._lost.get(owner, {}).get(job_id)
        if lost is not None and (record is None or record.owner != owner):
            return lost
        if record is None or record.owner not in (None, owner):
            raise JobUnknown(job_id, is_foreign=record is not None)
        return record

    def _own(self, work: Coroutine[Any, Any, None]) -> Callable[[], object]:
        """Run ``work`` in a task that ``close`` ends and awaits; return what ends it sooner."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task.cancel

    async def _watch(self, record: _Record) -> None:
        try:
            outcome, told = await record.process.wait(), True
        except Exception as error:  # a producer is foreign code; its job has ended all the same
            logger.exception("job %s failed to tell how it ended", record.id)
            outcome, told = JobOutcome(status="failed", detail=str(error) or type(error).__name__), False
        self._settle(record, outcome, told_by_producer=told)

    def _settle(self, record: _Record, outcome: JobOutcome, *, told_by_producer: bool) -> None:
        """Record the end, wake who waits, then tell observers and listeners; the first end that is told counts."""
        if not record.is_live:
            return
        record.status, record.detail = outcome.status, outcome.detail
        record.reported = record.reported or record.waiters > 0
        record.ended.set()
        job = record.snapshot()
        if record.agent is not None and record.start is not None:
            session, cause = record.agent.session, record.cause
            try:
                log_end(session, record.start, job, cause=cause, told_by_producer=told_by_producer)
            except Exception:  # whatever keeps the log from growing, the job has ended
                logger.exception("the end of job %s is not in the log of session %s", record.id, record.owner)
        self._changed(record)
        for listener in tuple(self._listeners):
            try:
                listener(job, record.agent)
            except Exception:
                logger.exception("a completion listener failed for job %s", record.id)

    def _changed(self, record: _Record) -> None:
        job = record.snapshot()
        for observer in tuple(self._observers):
            try:
                observer(job)
            except Exception:
                logger.exception("an observer failed for job %s", record.id)

    async def _tear_down(self, records: Iterable[_Record], reason: str) -> None:
        """Cancel jobs, wait for their end, and drop them. Nobody is told: whom it concerned is going, too."""
        records = list(records)
        for record in records:
            record.reported = True
            if record.is_live:
                self._cancel(record, reason)
        try:
            async with asyncio.timeout(TEARDOWN_S):
                for record in records:
                    await record.ended.wait()
        except TimeoutError:
            for record in records:
                self._force_end(record, f"it did not end within {TEARDOWN_S:g} s of being cancelled")
        for record in records:
            self._records.pop(record.id, None)

    def _cancel(self, record: _Record, reason: str) -> None:
        record.cause = "teardown"
        try:
            record.process.cancel(reason)
        except Exception as error:  # a producer is foreign code; the others must end as well
            logger.exception("job %s cannot be cancelled", record.id)
            self._force_end(record, f"it could not be cancelled: {error}")
        else:
            record.status = "stopping" if record.is_live else record.status

    def _force_end(self, record: _Record, detail: str) -> None:
        self._settle(record, JobOutcome(status="failed", detail=detail), told_by_producer=False)
        if record.unwatch is not None:
            record.unwatch()


async def _until_end(process: JobProcess) -> None:
    try:
        await process.wait()
    except Exception:  # a producer is foreign code
        logger.exception("a job that was never registered failed to tell how it ended")


def _enter(group: list[T], member: T) -> Callable[[], None]:
    group.append(member)

    def leave() -> None:
        if member in group:
            group.remove(member)

    return leave
