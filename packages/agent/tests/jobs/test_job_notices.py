"""How an agent learns that a job of its has ended (BEHAVIOUR §5.5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from producer import Producer, settle

from dsh_agent import JOBS, Agent, AgentFailed, JobsConfig, ScriptedModel, TurnEnded, jobs
from dsh_session import SessionEvent

TEXT = {"text": "noted"}


class Bench:
    """One agent with jobs; ``turns`` counts those that have ended."""

    def __init__(self, run: Any, agent: Agent) -> None:
        self.run, self.agent, self.session = run, agent, agent.session
        self.turns = 0
        self._ended = asyncio.Condition()

    async def on_turn(self, _: TurnEnded) -> None:
        async with self._ended:
            self.turns += 1
            self._ended.notify_all()

    async def turn(self, count: int) -> None:
        """Wait until ``count`` turns have ended; the bound only prevents a hang."""
        async with asyncio.timeout(20), self._ended:
            await self._ended.wait_for(lambda: self.turns >= count)
        await settle()

    def start(self, label: str = "make") -> Producer:
        process = Producer("out\n")
        self.run.app.require(JOBS).start(kind="bash", label=label, owner=self.agent, run=lambda: process)
        return process

    async def end_job(self, label: str = "make") -> None:
        self.start(label).finish()
        await settle()

    @property
    def users(self) -> list[str]:
        """What stands in the conversation as user messages."""
        return [e.data["content"][0]["text"] for e in self.session.events if e.type == "user/message"]


OpenBench = Callable[..., AbstractAsyncContextManager[Bench]]


@pytest.fixture
def bench(rig: Any) -> OpenBench:
    @asynccontextmanager
    async def start(replies: Any = (), *, config: JobsConfig | None = None, **more: Any) -> AsyncIterator[Bench]:
        async with rig(replies, **more) as run:
            await run.app.plugin(jobs, config)
            opened = Bench(run, await run.agents.create(session_id="s"))
            run.app.on(TurnEnded, opened.on_turn)
            yield opened

    return start


def notice(number: int, label: str = "make") -> str:
    end = "[status: completed, exit code: 0]"
    return f"background job bash-{number} (bash: {label}) finished {end}. Read its output with job_output."


async def test_an_idle_owner_gets_a_turn(bench: OpenBench, types: Any) -> None:
    """§5.5: the text and the source; the turn has nothing else, and is closed like every other."""
    async with bench([TEXT]) as it:
        await it.end_job()
        await it.turn(1)

        (message,) = [event.data for event in it.session.events if event.type == "user/message"]
        assert [{"type": "text", "text": notice(1)}] == message["content"]
        summary = "bash make [status: completed, exit code: 0]"
        assert {"kind": "tool-jobs", "form": "notice", "summary": summary} == message["source"]
        assert ["turn/start", "agent/inbox/spliced", "step/start", "system/message", "user/message"] == types(
            it.session
        )[3:8]
        assert "turn/end" == types(it.session)[-1]
        assert it.session.events[-1].data["reason"] == {"kind": "completed"}


async def test_a_long_summary_is_cut(bench: OpenBench) -> None:
    """§5.5: the summary stays one short line; the notice itself is whole."""
    async with bench([TEXT]) as it:
        await it.end_job("x" * 500)
        await it.turn(1)

        (message,) = [event.data for event in it.session.events if event.type == "user/message"]
        assert (120, "…") == (len(message["source"]["summary"]), message["source"]["summary"][-1])
        assert [notice(1, "x" * 500)] == it.users


async def test_quiet_delivery_waits_for_the_next_turn(bench: OpenBench) -> None:
    """§5.5: no turn is opened; the notice comes before what the human says."""
    async with bench([TEXT], config=JobsConfig(completion_delivery="quiet")) as it:
        await it.end_job()
        assert (0, []) == (it.turns, it.users)

        await it.agent.prompt("hi")

        assert (1, [notice(1), "hi"]) == (it.turns, it.users)


async def test_wakes_have_a_budget(bench: OpenBench) -> None:
    """§5.5: three turns without a human, then notices wait; a human takes them along and renews the budget."""
    async with bench([TEXT] * 8) as it:
        for number in range(1, 4):
            await it.end_job()
            await it.turn(number)
        await it.end_job()
        await it.end_job()
        assert 3 == it.turns

        await it.agent.prompt("hi")
        assert [notice(4), notice(5), "hi"] == it.users[3:]
        for number in range(5, 8):
            await it.end_job()
            await it.turn(number)
        await it.end_job()

        assert 7 == it.turns


async def test_the_budget_is_configured(bench: OpenBench) -> None:
    """§5.5: ``max_consecutive_wakes``."""
    async with bench([TEXT], config=JobsConfig(max_consecutive_wakes=1)) as it:
        await it.end_job()
        await it.turn(1)
        await it.end_job()

        assert 1 == it.turns


async def test_who_knows_is_not_told(bench: OpenBench) -> None:
    """§5.5: not after a kill, not where somebody waited, and not of a job that is nobody's."""
    async with bench() as it:
        registry = it.run.app.require(JOBS)
        it.start()
        registry.kill("bash-1", owner="s")
        process = it.start()
        waiting = asyncio.create_task(registry.wait("bash-2", owner="s", timeout_ms=60_000))
        await settle()
        process.finish()
        await waiting
        unowned = Producer()
        registry.start(kind="bash", label="x", owner=None, run=lambda: unowned)
        unowned.finish()
        await settle()

        assert (0, []) == (it.turns, it.users)


async def test_nobody_is_told_of_a_teardown(bench: OpenBench) -> None:
    """5.26: jobs that end with their agent open no turn for it."""
    async with bench() as it:
        it.start()
        await it.run.agents.close(it.agent)
        await settle()

        assert (0, []) == (it.turns, it.users)


async def test_a_busy_owner_is_told_in_its_turn(bench: OpenBench) -> None:
    """§5.5: what ends while a turn runs is told with the turn's next step, and opens none."""
    echo = {"tools": [{"name": "echo", "arguments": {"text": "x"}}]}
    async with bench([echo, {"text": "done"}]) as it:
        hold = it.run.echo.hold = asyncio.Event()
        prompt = asyncio.create_task(it.agent.prompt("go"))
        await it.run.echo.started.wait()
        await it.end_job()
        await it.end_job("test")
        hold.set()

        assert "done" == (await prompt).text
        await it.agent.wait_idle()

        assert (1, ["go", notice(1), notice(2, "test")]) == (it.turns, it.users)


async def test_an_owner_that_says_its_last_words_is_told_all_the_same(bench: OpenBench) -> None:
    """§5.5: what ends during the last step makes the turn go on."""
    async with bench([{"text": "done", "delay_ms": 50}, TEXT]) as it:
        prompt = asyncio.create_task(it.agent.prompt("go"))
        while "request/context" not in [event.type for event in it.session.events]:
            await asyncio.sleep(0)
        await it.end_job()

        assert "noted" == (await prompt).text
        assert (1, ["go", notice(1)]) == (it.turns, it.users)


async def test_a_notice_is_taken_back_when_the_end_was_read(bench: OpenBench) -> None:
    """§5.5: what a model has read in the same step it is not told again, and no turn is opened for it."""
    calls = [
        {"name": "echo", "arguments": {"text": "x"}},
        {"name": "job_output", "arguments": {"job_id": "bash-1"}},
    ]
    async with bench([{"tools": calls}, {"text": "done"}]) as it:
        hold = it.run.echo.hold = asyncio.Event()
        prompt = asyncio.create_task(it.agent.prompt("go"))
        await it.run.echo.started.wait()
        await it.end_job()
        waited = len(it.agent.waiting("next-step"))
        hold.set()
        await prompt
        await settle()

        assert (1, ["go"]) == (it.turns, it.users)
        assert (1, 0) == (waited, len(it.agent.waiting("next-step")))


async def test_a_model_that_fails_in_such_a_turn(bench: OpenBench) -> None:
    """§6.3: the turn ends in the log as failed, and the next one runs."""
    async with bench([{"fail": "no"}, TEXT]) as it:
        await it.end_job()
        await it.turn(1)
        assert "error" == it.session.events[-1].data["reason"]["kind"]
        await it.end_job()
        await it.turn(2)

        assert {"kind": "completed"} == it.session.events[-1].data["reason"]


async def test_what_fails_outside_a_turn_is_announced(bench: OpenBench) -> None:
    """Nobody awaits a turn that an agent opened by itself, so its failure is an event."""
    async with bench([TEXT]) as it:
        failed: list[AgentFailed] = []
        it.run.app.on(AgentFailed, failed.append)

        def full(size_bytes: int) -> None:
            raise BufferError("full")

        guards: list[Callable[[], None]] = []

        def fill(event: SessionEvent) -> None:
            if event.type == "agent/inbox/spliced" and not guards:
                guards.append(it.session.guard(full))

        it.session.subscribe(fill)
        it.start().finish()
        await settle()
        guards[0]()

        assert [it.agent] == [event.agent for event in failed]
        assert isinstance(failed[0].error, BufferError)
        await it.end_job()
        await it.turn(1)


class HeldModel:
    """Answers never."""

    route = ScriptedModel.route

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        self.asked.set()
        await asyncio.Event().wait()
        yield


@pytest.mark.parametrize("how", ["close", "leave"])
async def test_a_turn_of_its_own_ends_with_the_agent(rig: Any, how: str) -> None:
    """No task outlives the agent, or the harness, and the log is balanced."""
    before, model = asyncio.all_tasks(), HeldModel()
    async with rig(model=model) as run:
        await run.app.plugin(jobs, None)
        agent = await run.agents.create(session_id="s")
        process = Producer()
        run.app.require(JOBS).start(kind="bash", label="x", owner=agent, run=lambda: process)
        process.finish()
        async with asyncio.timeout(20):
            await model.asked.wait()
        if how == "close":
            await run.agents.close(agent)
            agent.followup("late", {"kind": "tool-jobs"})
            await settle()

    assert ("turn/end", "aborted") == (agent.session.events[-1].type, agent.session.events[-1].data["reason"]["kind"])
    assert before == asyncio.all_tasks()
