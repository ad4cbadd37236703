"""The registry of background jobs (BEHAVIOUR §5.4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from producer import Producer, settle

from dsh_agent import Agent, Job, JobOutcome, JobRefused, Jobs, JobUnknown, ModelRoute, WaitInvalid, _jobs
from dsh_context import App
from dsh_session import Session, SessionHeader

MakeAgent = Callable[[str], Agent]


@pytest.fixture
async def agent() -> AsyncIterator[MakeAgent]:
    """Return a function that makes an agent over a bare session."""
    async with App() as app:

        def make(session_id: str) -> Agent:
            session = Session(SessionHeader.new(session_id=session_id))
            return Agent(app, session, route=ModelRoute(provider="p", model="m"), system_prompt="")

        yield make


@pytest.fixture
async def jobs() -> AsyncIterator[Jobs]:
    registry = Jobs()
    yield registry
    await registry.close()


def start(
    jobs: Jobs, process: Producer | None = None, *, owner: Agent | None = None, kind: str = "bash", **more: Any
) -> str:
    return jobs.start(kind=kind, label="sleep 9", owner=owner, run=lambda: process or Producer(), **more)


class TestStart:
    async def test_ids_count_per_kind(self, jobs: Jobs) -> None:
        """§5.3: ``<kind>-<n>`` from 1, for the whole harness."""
        assert ["bash-1", "bash-2", "other-1"] == [start(jobs), start(jobs), start(jobs, kind="other")]

    async def test_preflight_order(self, jobs: Jobs, agent: MakeAgent) -> None:
        """5.20: kind, label, owner, room, and only then is anything run; no refusal uses up an id."""
        ran: list[str] = []
        stranger = agent("stranger")
        for _ in range(10):
            start(jobs)

        def refusal(kind: str, label: str, owner: Agent | None) -> str:
            with pytest.raises(JobRefused) as caught:
                jobs.start(kind=kind, label=label, owner=owner, run=lambda: ran.append("ran"))  # type: ignore[arg-type, return-value, func-returns-value]
            return str(caught.value)

        assert "invalid kind: expected a non-empty string" == refusal(" ", " ", stranger)
        assert "invalid label: expected a non-empty string" == refusal("bash", " ", stranger)
        assert "session stranger has no live agent here" in refusal("bash", "x", stranger)
        assert "10 jobs are active, the limit is 10" in refusal("bash", "x", None)
        await jobs.close()
        assert "jobs service disposed" in refusal(" ", " ", stranger)
        assert [] == ran

    async def test_a_run_that_fails_uses_no_id(self, jobs: Jobs) -> None:
        """5.20: any failure leaves no id and no job."""

        def refuse() -> Producer:
            raise LookupError("no")

        with pytest.raises(LookupError):
            jobs.start(kind="bash", label="x", owner=None, run=refuse)

        assert [] == jobs.of(None)
        assert "bash-1" == start(jobs)

    async def test_a_start_that_cannot_be_recorded_leaves_nothing_running(self, jobs: Jobs, agent: MakeAgent) -> None:
        """5.20: a job that the log does not know would be nobody's after a crash."""
        owner, process = agent("s"), Producer()
        jobs.adopt(owner)

        def full(size_bytes: int) -> None:
            raise BufferError("full")

        remove = owner.session.guard(full)
        with pytest.raises(BufferError):
            start(jobs, process, owner=owner)
        remove()

        assert ["its start could not be recorded"] == process.reasons
        assert ([], "bash-1") == (jobs.of("s"), start(jobs, owner=owner))

    async def test_room_is_counted_for_each_owner(self, jobs: Jobs, agent: MakeAgent) -> None:
        """5.20: ten for each session and ten of no session; one that is stopping takes room, an ended one does not."""
        first, second = agent("a"), agent("b")
        for owner in (first, second):
            jobs.adopt(owner)
        processes = [Producer(obeys=False) for _ in range(10)]
        for process in processes:
            start(jobs, process, owner=first)
        jobs.kill("bash-1", owner="a")

        with pytest.raises(JobRefused, match="the limit is 10"):
            start(jobs, owner=first)
        start(jobs, owner=second)
        start(jobs)
        processes[0].finish()
        await settle()

        assert "bash-13" == start(jobs, owner=first)
        for process in processes[1:]:
            process.finish()

    async def test_the_owner_is_the_live_agent(self, jobs: Jobs, agent: MakeAgent) -> None:
        """5.20: not one that was let go, nor another one over a session of the same id."""
        owner = agent("a")
        jobs.adopt(owner)
        start(jobs, owner=owner)
        with pytest.raises(JobRefused, match="no live agent"):
            start(jobs, owner=agent("a"))
        await jobs.release(owner)

        with pytest.raises(JobRefused, match="no live agent"):
            start(jobs, owner=owner)


class TestAccess:
    async def test_a_job_belongs_to_its_session(self, jobs: Jobs, agent: MakeAgent) -> None:
        """5.21: for every operation; what is unowned is everybody's."""
        owner = agent("a")
        jobs.adopt(owner)
        start(jobs, owner=owner)
        start(jobs)
        everything: list[Callable[[str, str | None], object]] = [
            lambda job_id, who: jobs.get(job_id, owner=who),
            lambda job_id, who: jobs.read(job_id, owner=who),
            lambda job_id, who: jobs.kill(job_id, owner=who),
        ]

        for operation in everything:
            for who in ("b", None):
                with pytest.raises(JobUnknown, match="job bash-1 belongs to another session") as caught:
                    operation("bash-1", who)
                assert ("bash-1", True) == (caught.value.job_id, caught.value.is_foreign)
            with pytest.raises(JobUnknown, match="unknown job bash-9") as caught:
                operation("bash-9", "a")
            assert not caught.value.is_foreign
        with pytest.raises(JobUnknown):
            await jobs.wait("bash-1", owner="b", timeout_ms=1)
        assert ["bash-2"] == [job.id for job in jobs.of("b")]
        assert ["bash-1", "bash-2"] == [job.id for job in jobs.of("a")]
        assert (Job, "bash-2") == (type(jobs.get("bash-2", owner="b")), jobs.get("bash-2", owner=None).id)


class TestRead:
    async def test_a_stream_is_read_once(self, jobs: Jobs) -> None:
        """5.22: each piece comes once; reading a job that runs reports nothing."""
        start(jobs, Producer("one"))

        assert ["one", ""] == [jobs.read("bash-1", owner=None), jobs.read("bash-1", owner=None)]
        assert not jobs.get("bash-1", owner=None).reported

    async def test_a_final_result_can_be_read_again(self, jobs: Jobs) -> None:
        """5.22: nothing while it runs, then the same each time; the read of an ended job marks it as reported."""
        process = Producer(final="42")
        start(jobs, process)
        before = jobs.read("bash-1", owner=None)
        process.finish()
        await settle()
        assert not jobs.get("bash-1", owner=None).reported

        after = [jobs.read("bash-1", owner=None) for _ in range(2)]

        assert ("", ["42", "42"]) == (before, after)
        assert jobs.get("bash-1", owner=None).reported


class TestKill:
    async def test_stopping_then_killed(self, jobs: Jobs) -> None:
        """5.23: the job is told, is stopping until it has ended, and nobody needs to be told of its end."""
        process = Producer(obeys=False)
        start(jobs, process)

        assert jobs.kill("bash-1", owner=None, reason="enough")

        stopping = jobs.get("bash-1", owner=None)
        assert (["enough"], "stopping", True, True) == (
            process.reasons,
            stopping.status,
            stopping.reported,
            stopping.is_live,
        )
        process.ended.set_result(JobOutcome(status="killed", detail="signal: SIGTERM"))
        await settle()
        ended = jobs.get("bash-1", owner=None)
        assert ("killed", "signal: SIGTERM", False) == (ended.status, ended.detail, ended.is_live)
        assert not jobs.kill("bash-1", owner=None)
        assert ["enough"] == process.reasons

    async def test_a_cancel_that_raises_changes_nothing(self, jobs: Jobs) -> None:
        """5.23."""
        process = Producer()
        process.cancel_fails = True
        start(jobs, process)

        with pytest.raises(OSError, match="no signal"):
            jobs.kill("bash-1", owner=None)

        job = jobs.get("bash-1", owner=None)
        assert ("running", False) == (job.status, job.reported)
        process.cancel_fails = False


class TestWait:
    @pytest.mark.parametrize("timeout_ms", [0, -1, float("inf"), float("nan")])
    async def test_a_time_that_is_none(self, jobs: Jobs, timeout_ms: float) -> None:
        """5.24: the time is looked at first."""
        with pytest.raises(WaitInvalid) as caught:
            await jobs.wait("nobody", owner=None, timeout_ms=timeout_ms)

        expected = f"invalid wait timeout: expected a positive number of milliseconds, got {timeout_ms}"
        assert expected == str(caught.value)

    async def test_time_runs_out(self, jobs: Jobs) -> None:
        """5.24: then the job is returned as it stands, and its end is still news."""
        process = Producer()
        start(jobs, process)

        assert "running" == (await jobs.wait("bash-1", owner=None, timeout_ms=1)).status
        process.finish()
        await settle()
        assert not jobs.get("bash-1", owner=None).reported

    async def test_who_waits_is_told(self, jobs: Jobs) -> None:
        """5.24: everybody who waits gets the end, and it counts as reported."""
        process = Producer()
        start(jobs, process)
        waiting = [asyncio.create_task(jobs.wait("bash-1", owner=None, timeout_ms=60_000)) for _ in range(2)]
        await settle()
        process.finish()

        ended = await asyncio.gather(*waiting)

        assert [("completed", "exit code: 0", True)] * 2 == [(job.status, job.detail, job.reported) for job in ended]

    async def test_a_cancelled_wait_leaves_the_job_alone(self, jobs: Jobs) -> None:
        """5.24: the job lives, and its end is nobody's news any more but the owner's."""
        process = Producer()
        start(jobs, process)
        waiting = asyncio.create_task(jobs.wait("bash-1", owner=None, timeout_ms=60_000))
        await settle()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

        assert ("running", []) == (jobs.get("bash-1", owner=None).status, process.reasons)
        process.finish()
        await settle()
        assert not jobs.get("bash-1", owner=None).reported


class TestSettlement:
    async def test_order(self, jobs: Jobs, agent: MakeAgent) -> None:
        """5.25: the record and the log, then who waits, then observers, then completion listeners, each contained."""
        owner, process, seen = agent("s"), Producer(), []
        jobs.adopt(owner)
        start(jobs, process, owner=owner)

        def look(who: str) -> None:
            waiter_was_woken = waiting._fut_waiter is None or waiting._fut_waiter.done()  # type: ignore[attr-defined]
            seen.append((who, jobs.get("bash-1", owner="s").status, owner.session.events[-1].type, waiter_was_woken))

        def observe(job: Job) -> None:
            look("observer")
            raise LookupError

        def listen(job: Job, to: Agent | None) -> None:
            assert to is owner
            look("listener")
            raise LookupError

        for _ in range(2):
            jobs.observe(observe)
            jobs.on_completion(listen)
        waiting = asyncio.create_task(jobs.wait("bash-1", owner="s", timeout_ms=60_000))
        await settle()
        process.finish()
        await waiting

        facts = ("completed", "job/settled", True)
        assert [("observer", *facts)] * 2 + [("listener", *facts)] * 2 == seen

    async def test_observers_see_each_change_until_they_leave(self, jobs: Jobs) -> None:
        """5.25: a start, a kill and an end."""
        process, seen = Producer(obeys=False), []
        leave = jobs.observe(lambda job: seen.append(job.status))
        start(jobs, process)
        jobs.kill("bash-1", owner=None)
        process.finish()
        await settle()
        leave()
        leave()
        start(jobs)

        assert ["running", "stopping", "completed"] == seen

    async def test_the_first_end_counts(self, jobs: Jobs, agent: MakeAgent, monkeypatch: pytest.MonkeyPatch) -> None:
        """5.25: a job that was given up has failed, whatever its producer says; an end stays."""
        monkeypatch.setattr(_jobs, "TEARDOWN_S", 0.05)
        owner, process = agent("s"), Producer(obeys=False)
        jobs.adopt(owner)
        start(jobs, process, owner=owner)
        start(jobs, owner=owner)
        ends: list[Job] = []
        jobs.on_completion(lambda job, _: ends.append(job))

        await jobs.release(owner)
        process.finish()
        await settle()

        gave_up = "it did not end within 0.05 s of being cancelled"
        assert [("bash-2", "killed", "signal: SIGTERM"), ("bash-1", "failed", gave_up)] == [
            (end.id, end.status, end.detail) for end in ends
        ]
        settled = [event.data for event in owner.session.events if event.type == "job/settled"]
        assert [("killed", "teardown", True), ("failed", "teardown", False)] == [
            (end["status"], end["cause"], end["producerReported"]) for end in settled
        ]

    async def test_a_producer_that_raises_has_failed(self, jobs: Jobs, agent: MakeAgent) -> None:
        """5.25: whatever happens to a job, it ends."""
        owner, process = agent("s"), Producer()
        jobs.adopt(owner)
        start(jobs, process, owner=owner)
        process.ended.set_exception(LookupError("lost count"))
        await settle()

        job = jobs.get("bash-1", owner="s")
        assert ("failed", "lost count", False) == (job.status, job.detail, job.is_live)
        assert owner.session.events[-1].data["producerReported"] is False

    async def test_a_log_that_cannot_grow_keeps_no_job_from_ending(self, jobs: Jobs, agent: MakeAgent) -> None:
        """5.25: the end is told all the same."""
        owner, process, ends = agent("s"), Producer(), []
        jobs.adopt(owner)
        start(jobs, process, owner=owner)
        jobs.on_completion(lambda job, _: ends.append(job.status))

        def full(size_bytes: int) -> None:
            raise BufferError("full")

        owner.session.guard(full)
        process.finish()
        await settle()

        assert ["completed"] == ends


class TestDisposal:
    async def test_of_an_owner(self, jobs: Jobs, agent: MakeAgent) -> None:
        """5.26: its jobs are cancelled, waited for, reported and forgotten; those of others go on."""
        owner, other, process = agent("a"), agent("b"), Producer()
        for who in (owner, other):
            jobs.adopt(who)
        start(jobs, process, owner=owner)
        start(jobs, owner=other)
        start(jobs)
        ends: list[Job] = []
        jobs.on_completion(lambda job, _: ends.append(job))

        await jobs.release(owner)
        await jobs.release(owner)

        assert ["owner disposed"] == process.reasons
        assert [("bash-1", "killed", True)] == [(job.id, job.status, job.reported) for job in ends]
        assert ["bash-2", "bash-3"] == [job.id for job in jobs.of("b")]
        with pytest.raises(JobUnknown, match="unknown job bash-1"):
            jobs.get("bash-1", owner="a")
        assert ("job/settled", "teardown") == (
            owner.session.events[-1].type,
            owner.session.events[-1].data["cause"],
        )

    async def test_waits_for_the_end(self, jobs: Jobs, agent: MakeAgent) -> None:
        """5.26: the owner is not let go before its jobs have ended."""
        owner, process = agent("a"), Producer(obeys=False)
        jobs.adopt(owner)
        start(jobs, process, owner=owner)
        releasing = asyncio.create_task(jobs.release(owner))
        await settle()
        assert not releasing.done()
        assert "stopping" == jobs.get("bash-1", owner="a").status

        process.finish()
        await releasing

    async def test_a_cancel_that_raises_ends_the_record(self, jobs: Jobs, agent: MakeAgent) -> None:
        """5.26: such a job has failed, and the others are ended all the same."""
        owner, broken, sound = agent("a"), Producer(), Producer()
        broken.cancel_fails = True
        jobs.adopt(owner)
        for process in (broken, sound):
            start(jobs, process, owner=owner)
        ends: list[Job] = []
        jobs.on_completion(lambda job, _: ends.append(job))

        await jobs.release(owner)

        expected = [("failed", "it could not be cancelled: no signal"), ("killed", "signal: SIGTERM")]
        assert expected == [(job.status, job.detail) for job in ends]

    async def test_of_the_registry(self, agent: MakeAgent) -> None:
        """5.26: every job ends, nothing starts any more, and no task is left."""
        before = asyncio.all_tasks()
        jobs, owner, processes = Jobs(), agent("a"), [Producer(), Producer()]
        jobs.adopt(owner)
        start(jobs, processes[0], owner=owner)
        start(jobs, processes[1])

        await jobs.close()
        await jobs.close()

        assert [["jobs service disposed"]] * 2 == [process.reasons for process in processes]
        assert before == asyncio.all_tasks()
        assert [] == jobs.of("a")
