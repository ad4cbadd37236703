"""Background jobs and the tools that follow them (BEHAVIOUR §5.4, §5.5)."""

from __future__ import annotations

import asyncio

import pytest

from dsh_agent import JOBS, TOOLS, JobError, Jobs, ToolError, ToolExecution, Tools, jobs
from dsh_context import App


class Process:
    """A job that ends when it is told to."""

    def __init__(self, output: str = "") -> None:
        self.status, self.detail, self.output = "running", "", output
        self.ended = asyncio.Event()

    def finish(self) -> None:
        self.status, self.detail = "completed", "exit code: 0"
        self.ended.set()

    def read_output(self) -> str:
        output, self.output = self.output, ""
        return output

    def kill(self) -> bool:
        if self.status != "running":
            return False
        self.status, self.detail = "killed", "signal: SIGTERM"
        self.ended.set()
        return True

    async def wait(self) -> None:
        await self.ended.wait()


async def run(name: str, registry: Tools, **arguments) -> str:
    tool = registry.get(name)
    execution = ToolExecution(call_id="c", name=name, arguments=arguments)
    return (await tool.execute(execution)).text


@pytest.fixture
async def harness():
    async with App() as app:
        tools = Tools()
        await app.provide(TOOLS, tools)
        await app.plugin(jobs, None)
        yield app.require(JOBS), tools


async def test_ids_count_per_kind():
    """§5.3: ``<kind>-<n>`` from 1."""
    registry = Jobs()
    start = lambda kind: registry.start(kind=kind, label="x", owner=None, run=Process)  # noqa: E731

    assert ["bash-1", "bash-2", "other-1"] == [start("bash"), start("bash"), start("other")]


async def test_a_start_that_fails_uses_no_id():
    """5.20: any failure leaves no id and no job."""
    registry = Jobs()

    def refuse() -> Process:
        raise ToolError("no")

    with pytest.raises(ToolError):
        registry.start(kind="bash", label="x", owner=None, run=refuse)

    assert "bash-1" == registry.start(kind="bash", label="x", owner=None, run=Process)


async def test_the_limit_counts_running_jobs_of_one_owner():
    """5.20: ten for each session; finished ones take no room."""
    registry, processes = Jobs(), []

    def start(owner: str) -> str:
        processes.append(Process())
        return registry.start(kind="bash", label="x", owner=owner, run=lambda: processes[-1])

    for _ in range(10):
        start("a")
    with pytest.raises(JobError, match="the limit is 10"):
        start("a")
    start("b")
    processes[0].finish()

    assert "bash-12" == start("a")


async def test_a_job_belongs_to_its_session():
    """5.21."""
    registry = Jobs()
    registry.start(kind="bash", label="x", owner="a", run=Process)

    assert "bash-1" == registry.get("bash-1", owner="a").id
    with pytest.raises(JobError, match="job bash-1 belongs to another session"):
        registry.get("bash-1", owner="b")
    with pytest.raises(JobError, match="unknown job bash-9"):
        registry.get("bash-9", owner="a")


async def test_job_output_reads_new_output_and_status(harness):
    """§5.5: the delta, or a word that there is none, and a status line."""
    registry, tools = harness
    process = Process("one\n")
    registry.start(kind="bash", label="sleep", owner=None, run=lambda: process)

    first = await run("job_output", tools, job_id="bash-1")
    second = await run("job_output", tools, job_id="bash-1")
    process.finish()
    third = await run("job_output", tools, job_id="bash-1", wait=True)

    assert "one\n[status: running]" == first
    assert "(no new output)\n[status: running]" == second
    assert "(no new output)\n[status: completed, exit code: 0]" == third


async def test_a_wait_that_times_out_is_an_answer(harness):
    """§5.5: a timed-out wait is a normal result."""
    registry, tools = harness
    registry.start(kind="bash", label="sleep", owner=None, run=Process)

    assert (
        await run("job_output", tools, job_id="bash-1", wait=True, timeout_ms=1) == "(no new output)\n[status: running]"
    )


async def test_list_and_kill(harness):
    """§5.5: texts of the two other tools."""
    registry, tools = harness
    assert "(no background jobs)" == await run("job_list", tools)
    registry.start(kind="bash", label="sleep 5", owner=None, run=Process)

    assert "bash-1 [bash] running — sleep 5" == await run("job_list", tools)
    assert "requested cancellation of job bash-1" == await run("job_kill", tools, job_id="bash-1")
    assert (
        await run("job_kill", tools, job_id="bash-1")
        == "job bash-1 had already finished [status: killed, signal: SIGTERM]"
    )


async def test_bad_ids_are_tool_errors(harness):
    """§5.5: an empty id is named, an unknown one too."""
    _, tools = harness

    with pytest.raises(ToolError, match='invalid job_id: expected a non-empty string, got ""'):
        await run("job_output", tools, job_id="")
    with pytest.raises(ToolError, match="unknown job x"):
        await run("job_output", tools, job_id="x")


async def test_stopping_kills_what_runs():
    """Nothing outlives the harness, and the tools go with it."""
    process = Process()
    async with App() as app:
        tools = Tools()
        await app.provide(TOOLS, tools)
        await app.plugin(jobs, None)
        app.require(JOBS).start(kind="bash", label="x", owner=None, run=lambda: process)

    assert "killed" == process.status
    assert [] == tools.definitions()
