"""What a log tells of jobs, and what becomes of them after a crash (case G11)."""

from __future__ import annotations

from typing import Any

import pytest
from producer import Producer, settle

from dsh_agent import JOBS, Agent, ToolExecution, jobs
from dsh_persistence import MemoryLogStore
from dsh_session import Session

LOST = "the harness that started it is gone and recorded no end; nothing of it can be read or ended from here"


def registered(job_id: str, *, owner: str = "s", kind: str = "bash", label: str = "sleep 500") -> dict[str, Any]:
    return {"jobId": job_id, "owner": owner, "kind": kind, "label": label, "startedAt": 1}


def settled(job_id: str) -> dict[str, Any]:
    end = {"finishedAt": 2, "status": "completed", "cause": "producer", "producerReported": True}
    return {**registered(job_id), **end}


def records(session: Session) -> list[tuple[str, dict[str, Any]]]:
    return [(event.type, event.data) for event in session.events if event.type.startswith("job/")]


async def call(run: Any, agent: Agent, name: str, **arguments: Any) -> str:
    return (
        await run.tools.get(name).execute(ToolExecution(call_id="c", name=name, arguments=arguments, agent=agent))
    ).text


async def store_with(rig: Any, *events: tuple[str, Any]) -> MemoryLogStore:
    """Return a store with session ``s``, whose log ends in ``events``: what a harness left that died."""
    store = MemoryLogStore()
    async with rig(store=store) as run:
        agent = await run.agents.create(session_id="s")
        for type, data in events:
            agent.session.append(type, data)
        await run.agents.close(agent)
    return store


async def test_start_and_end_are_in_the_owners_log(rig: Any) -> None:
    """GENERATIONS §5: the two records, field by field, as ``dsh`` has them."""
    async with rig() as run:
        await run.app.plugin(jobs, None)
        agent = await run.agents.create(session_id="s")
        process = Producer()
        run.app.require(JOBS).start(kind="bash", label="make", owner=agent, call_id="c1", run=lambda: process)
        process.finish("exit code: 3")
        await settle()

        (start, started), (end, ended) = records(agent.session)

        assert ("job/registered", "job/settled") == (start, end)
        call_of = {"callId": "c1", "rootCallId": "c1"}
        base = {"jobId": "bash-1", "owner": "s", "kind": "bash", "label": "make", "toolCall": call_of}
        assert {**base, "startedAt": started["startedAt"]} == started
        told = {"status": "completed", "cause": "producer", "producerReported": True, "detail": "exit code: 3"}
        assert {**started, **told, "finishedAt": ended["finishedAt"]} == ended
        assert started["startedAt"] <= ended["finishedAt"]


async def test_what_ended_it(rig: Any) -> None:
    """GENERATIONS §5: a kill, and the end of the owner, are told apart; a job outside any call names none."""
    async with rig() as run:
        await run.app.plugin(jobs, None)
        agent = await run.agents.create(session_id="s")
        registry = run.app.require(JOBS)
        for _ in range(2):
            registry.start(kind="bash", label="make", owner=agent, run=Producer)
        registry.kill("bash-1", owner="s")
        await settle()
        await run.agents.close(agent)

        assert ["kill", "teardown"] == [data["cause"] for type, data in records(agent.session) if type == "job/settled"]
        assert all("toolCall" not in data for _, data in records(agent.session))
        assert 4 == len([e for e in (await run.persistence.inspect("s")).events if e.type.startswith("job/")])


async def test_a_job_without_an_end_is_lost(rig: Any) -> None:
    """G11: each tool says so, it takes no room, killing it signals nobody, and its id is not used again."""
    store = await store_with(
        rig,
        ("job/registered", registered("bash-1")),
        ("job/registered", registered("bash-2")),
        ("job/settled", settled("bash-1")),
        ("job/registered", registered("bash-3")),
    )
    async with rig(store=store) as run:
        await run.app.plugin(jobs, None)
        agent = await run.agents.resume("s")
        before = agent.session.next_seq

        listed = await call(run, agent, "job_list")
        output = await call(run, agent, "job_output", job_id="bash-2", wait=True)
        killed = await call(run, agent, "job_kill", job_id="bash-2")

        assert "\n".join(f"{id} [bash] lost — sleep 500 ({LOST})" for id in ("bash-2", "bash-3")) == listed
        assert f"(no new output)\n[status: lost, {LOST}]" == output
        assert f"job bash-2 is lost, nothing was signalled: {LOST}" == killed
        assert before == agent.session.next_seq
        registry = run.app.require(JOBS)
        ids = [registry.start(kind="bash", label="x", owner=agent, run=Producer) for _ in range(10)]
        assert [f"bash-{n}" for n in range(4, 14)] == ids


async def test_the_registry_may_come_after_the_agent(rig: Any) -> None:
    """G11: lost jobs are known, and new ones can start, also where the plugin is mounted later."""
    store = await store_with(rig, ("job/registered", registered("bash-7")))
    async with rig(store=store) as run:
        agent = await run.agents.resume("s")
        await run.app.plugin(jobs, None)

        assert f"bash-7 [bash] lost — sleep 500 ({LOST})" == await call(run, agent, "job_list")
        assert "bash-8" == run.app.require(JOBS).start(kind="bash", label="x", owner=agent, run=Producer)


async def test_a_clean_end_loses_nothing(rig: Any) -> None:
    """G11: jobs that were ended with their agent are not lost; ids go on counting."""
    store = MemoryLogStore()
    async with rig(store=store) as run:
        await run.app.plugin(jobs, None)
        agent = await run.agents.create(session_id="s")
        run.app.require(JOBS).start(kind="bash", label="x", owner=agent, run=Producer)
    async with rig(store=store) as run:
        await run.app.plugin(jobs, None)
        agent = await run.agents.resume("s")

        assert "(no background jobs)" == await call(run, agent, "job_list")
        assert "bash-2" == run.app.require(JOBS).start(kind="bash", label="x", owner=agent, run=Producer)


async def test_the_same_id_in_two_sessions(rig: Any) -> None:
    """G11: a lost job's id may be in use elsewhere by now; each session sees its own."""
    store = await store_with(rig, ("job/registered", registered("bash-1")))
    async with rig(store=store) as run:
        await run.app.plugin(jobs, None)
        other = await run.agents.create(session_id="other")
        process = Producer()
        run.app.require(JOBS).start(kind="bash", label="make", owner=other, run=lambda: process)
        agent = await run.agents.resume("s")

        assert "is lost, nothing was signalled" in await call(run, agent, "job_kill", job_id="bash-1")
        assert "bash-1 [bash] running — make" == await call(run, other, "job_list")
        assert [] == process.reasons


async def test_a_fork_has_lost_nothing(rig: Any) -> None:
    """G11: jobs of the parent are the parent's, but their ids stand in the inherited conversation."""
    store = await store_with(rig, ("job/registered", registered("bash-4")))
    async with rig(store=store) as run:
        await run.app.plugin(jobs, None)
        parent = await run.agents.resume("s")
        child = run.sessions.fork(parent.session, id="child")
        await run.persistence.flush("child")
        await run.persistence.detach(child)
        run.sessions.leave(child)
        agent = await run.agents.resume("child")

        assert "(no background jobs)" == await call(run, agent, "job_list")
        assert "bash-5" == run.app.require(JOBS).start(kind="bash", label="x", owner=agent, run=Producer)


@pytest.mark.parametrize(
    "data", [{}, [], {**registered("bash-5"), "kind": 1}, {"jobId": "bash-5"}, {**registered("x"), "owner": None}]
)
async def test_records_of_another_shape(rig: Any, data: Any) -> None:
    """No rule of the format looks into these records: one that says too little is passed over."""
    store = await store_with(rig, ("job/registered", data))
    async with rig(store=store) as run:
        await run.app.plugin(jobs, None)
        agent = await run.agents.resume("s")

        assert "(no background jobs)" == await call(run, agent, "job_list")
        assert "bash-1" == run.app.require(JOBS).start(kind="bash", label="x", owner=agent, run=Producer)


async def test_random_ids_are_no_counts(rig: Any) -> None:
    """``dsh`` names jobs by random digits: lost ones are known, and ours still count from where ours ended."""
    foreign = ("bash-56f13fa6a7c24e84", "bash-1234567890123456", "bash-007")
    store = await store_with(rig, *(("job/registered", registered(job_id)) for job_id in foreign))
    async with rig(store=store) as run:
        await run.app.plugin(jobs, None)
        agent = await run.agents.resume("s")

        assert list(foreign) == [job.id for job in run.app.require(JOBS).of("s")]
        assert "bash-1" == run.app.require(JOBS).start(kind="bash", label="x", owner=agent, run=Producer)
