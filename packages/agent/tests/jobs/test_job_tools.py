"""The tools that follow background jobs: the exact texts (BEHAVIOUR §5.5)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from producer import Producer, settle

from dsh_agent import JOBS, TOOLS, Jobs, ToolError, ToolExecution, Tools, jobs
from dsh_context import App


class Rig:
    def __init__(self, jobs: Jobs, tools: Tools) -> None:
        self.jobs, self.tools = jobs, tools

    def start(self, process: Producer, label: str = "sleep 5") -> None:
        self.jobs.start(kind="bash", label=label, owner=None, run=lambda: process)

    async def call(self, name: str, **arguments: Any) -> str:
        tool = self.tools.get(name)
        assert tool is not None
        return (await tool.execute(ToolExecution(call_id="c", name=name, arguments=arguments))).text


@pytest.fixture
async def harness() -> AsyncIterator[Rig]:
    async with App() as app:
        tools = Tools()
        await app.provide(TOOLS, tools)
        await app.plugin(jobs, None)
        yield Rig(app.require(JOBS), tools)


async def test_schemas(harness: Rig) -> None:
    """§5.5: the arguments of the three tools."""
    described = {
        tool["name"]: (
            {name: schema["type"] for name, schema in tool["parameters"]["properties"].items()},
            tool["parameters"].get("required", []),
        )
        for tool in harness.tools.definitions()
    }

    assert {
        "job_output": ({"job_id": "string", "wait": "boolean", "timeout_ms": "number"}, ["job_id"]),
        "job_list": ({}, []),
        "job_kill": ({"job_id": "string", "reason": "string"}, ["job_id"]),
    } == described


async def test_output_and_status(harness: Rig) -> None:
    """§5.5: the delta, or a word that there is none, a newline if it lacks one, and a status line."""
    process = Producer("one\n")
    harness.start(process)

    assert "one\n[status: running]" == await harness.call("job_output", job_id="bash-1")
    assert "(no new output)\n[status: running]" == await harness.call("job_output", job_id="bash-1")
    process.output = "two"
    assert "two\n[status: running]" == await harness.call("job_output", job_id="bash-1")
    process.finish()
    ended = await harness.call("job_output", job_id="bash-1", wait=True)
    assert "(no new output)\n[status: completed, exit code: 0]" == ended


async def test_output_of_a_killed_job(harness: Rig) -> None:
    """§5.5: stopping until it has ended, then killed by what."""
    process = Producer(obeys=False)
    harness.start(process)
    await harness.call("job_kill", job_id="bash-1")
    assert "(no new output)\n[status: stopping]" == await harness.call("job_output", job_id="bash-1")
    process.obeys = True
    process.cancel("again")

    ended = await harness.call("job_output", job_id="bash-1", wait=True)

    assert "(no new output)\n[status: killed, signal: SIGTERM]" == ended


async def test_a_wait_that_times_out_is_an_answer(harness: Rig) -> None:
    """§5.5: a timed-out wait is a normal result."""
    harness.start(Producer())

    text = await harness.call("job_output", job_id="bash-1", wait=True, timeout_ms=1)

    assert "(no new output)\n[status: running]" == text


async def test_waits_are_capped(harness: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """§5.5: 30 s unless it is said, never more than 600 s; without ``wait`` the time does not matter."""
    asked: list[float] = []

    async def wait(job_id: str, *, owner: str | None, timeout_ms: float) -> None:
        asked.append(timeout_ms)

    monkeypatch.setattr(harness.jobs, "wait", wait)
    harness.start(Producer())
    for arguments in ({}, {"timeout_ms": 5}, {"timeout_ms": 1e9}):
        await harness.call("job_output", job_id="bash-1", wait=True, **arguments)
    await harness.call("job_output", job_id="bash-1", timeout_ms=-1)

    assert [30_000, 5, 600_000] == asked


async def test_list(harness: Rig) -> None:
    """§5.5: a line a job; how one ended is not in it, what is strange about one that has not ended is."""
    assert "(no background jobs)" == await harness.call("job_list")
    first, second = Producer(), Producer()
    harness.start(first)
    harness.start(second, label="make")
    first.finish()
    second.remark = "its shell has ended"
    await settle()

    assert (
        "bash-1 [bash] completed — sleep 5\nbash-2 [bash] running — make (its shell has ended)"
        == await harness.call("job_list")
    )
    assert "(no new output)\n[status: running, its shell has ended]" == await harness.call(
        "job_output", job_id="bash-2"
    )


async def test_kill(harness: Rig) -> None:
    """§5.5: asked, with its reason, or too late."""
    process = Producer()
    harness.start(process)
    harness.start(Producer())

    assert "requested cancellation of job bash-1" == await harness.call("job_kill", job_id="bash-1", reason="enough")
    await harness.call("job_kill", job_id="bash-2")
    await settle()
    late = await harness.call("job_kill", job_id="bash-1")

    assert ("job bash-1 had already finished [status: killed, signal: SIGTERM]", ["enough"]) == (late, process.reasons)


@pytest.mark.parametrize("name", ["job_output", "job_kill"])
@pytest.mark.parametrize(
    ("job_id", "message"),
    [
        ("", 'invalid job_id: expected a non-empty string, got ""'),
        (" ", 'invalid job_id: expected a non-empty string, got " "'),
        ("x", "unknown job x"),
    ],
)
async def test_ids_that_are_none(harness: Rig, name: str, job_id: str, message: str) -> None:
    """§5.5, 5.21: a fault of the call is a result that the model reads."""
    with pytest.raises(ToolError) as caught:
        await harness.call(name, job_id=job_id)
    assert message == str(caught.value)


async def test_a_time_that_is_none(harness: Rig) -> None:
    """5.24."""
    harness.start(Producer())
    with pytest.raises(ToolError, match="invalid wait timeout: expected a positive number of milliseconds, got 0"):
        await harness.call("job_output", job_id="bash-1", wait=True, timeout_ms=0)


async def test_stopping_the_plugin_ends_what_runs() -> None:
    """5.26: nothing outlives the harness, and the tools go with it."""
    async with App() as app:
        tools = Tools()
        await app.provide(TOOLS, tools)
        await app.plugin(jobs, None)
        process = Producer()
        app.require(JOBS).start(kind="bash", label="x", owner=None, run=lambda: process)

    assert ["jobs service disposed"] == process.reasons
    assert [] == tools.definitions()
