from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dsh_agent import JOBS, PERSISTENCE, TOOLS, Agent, Jobs, ToolError, ToolExecution, ToolExists, Tools
from dsh_bash import BASH
from dsh_bash_local import LocalBash
from dsh_context import App, Context, Fiber, plugin
from dsh_paths import DshHomeInvalid
from dsh_persistence import SessionPersistence
from dsh_persistence_jsonl import JsonlLogStore
from dsh_tool_bash import BASH_ENV, BashEnvContributor, ContributorRefused, ToolBashConfig, tool_bash

Call = Callable[..., ToolExecution]
MakeAgent = Callable[..., Agent]


def state(fiber: Fiber) -> str:
    return fiber.state


def answer(_: ToolExecution) -> Mapping[str, str]:
    return {"DSH_ANSWER": "42"}


@plugin(BASH_ENV, name="answer")
async def contributing(ctx: Context, config: str) -> None:
    contributor = BashEnvContributor(name=config, variables={"DSH_ANSWER": "The answer."}, resolve=answer)
    ctx.effect(ctx.require(BASH_ENV).register(contributor))


@pytest.fixture
async def tools(app: App, local: LocalBash) -> Tools:
    tools = Tools()
    await app.provide(TOOLS, tools)
    await app.provide(BASH, local)
    return tools


async def run(tools: Tools, execution: ToolExecution) -> str:
    tool = tools.get("bash")
    assert tool is not None
    return (await tool.execute(execution)).text


async def test_offers_the_tool(app: App, tools: Tools, call: Call) -> None:
    """The plugin registers the tool and provides the registry, with the log path as its one listed row (§4.4)."""
    fiber = await app.plugin(tool_bash, ToolBashConfig(home="/h"))
    assert (fiber.name, state(fiber)) == ("tool-bash", "active")
    assert await run(tools, call("echo $DSH_HOME")) == "/h\n"
    rows = app.require(BASH_ENV).list()
    assert [(row.contributor, row.key) for row in rows] == [("session-persistence", "DSH_SESSION_JSONL")]


async def test_goes_with_all_it_did(app: App, tools: Tools) -> None:
    """Stopping the plugin takes back the tool and the registry, and it can be mounted again."""
    fiber = await app.plugin(tool_bash, ToolBashConfig(home="/h"))
    await fiber.stop()
    assert (tools.get("bash"), app.get(BASH_ENV)) == (None, None)
    await app.plugin(tool_bash, ToolBashConfig(home="/h"))
    assert tools.get("bash") is not None


async def test_waits_for_tools_and_bash(app: App, local: LocalBash) -> None:
    """The plugin runs only while there are tools to register with and an executor to run commands."""
    fiber = await app.plugin(tool_bash, ToolBashConfig(home="/h"))
    await app.provide(TOOLS, Tools())
    assert (state(fiber), fiber.missing) == ("waiting", (BASH,))
    provision = await app.provide(BASH, local)
    assert state(fiber) == "active"
    await provision.withdraw()
    assert (state(fiber), app.require(TOOLS).get("bash"), app.get(BASH_ENV)) == ("waiting", None, None)


async def test_contributor_comes_and_goes_with_its_plugin(app: App, tools: Tools, call: Call) -> None:
    """§4.3: a contribution is there while its plugin runs, whichever of the two plugins comes first."""
    early = await app.plugin(contributing, "a")
    fiber = await app.plugin(tool_bash, ToolBashConfig(home="/h"))
    assert await run(tools, call("echo $DSH_ANSWER")) == "42\n"
    await early.stop()
    assert await run(tools, call("echo [$DSH_ANSWER]")) == "[]\n"
    again = await app.plugin(contributing, "b")
    await fiber.stop()
    assert state(again) == "waiting"


async def test_two_contributors_of_one_key(app: App, tools: Tools) -> None:
    """4.6: the second plugin to claim a key does not start, and says why."""
    await app.plugin(tool_bash, ToolBashConfig(home="/h"))
    await app.plugin(contributing, "a")
    with pytest.raises(ContributorRefused, match='already owned by contributor "a"'):
        await app.plugin(contributing, "b")


async def test_log_path_is_reserved(app: App, tools: Tools) -> None:
    """Q7: nobody else may claim the log path; its owner is named by the list only."""
    await app.plugin(tool_bash, ToolBashConfig(home="/h"))
    contributor = BashEnvContributor(name="c", variables={"DSH_SESSION_JSONL": "d"}, resolve=answer)
    with pytest.raises(ContributorRefused, match='cannot own reserved key "DSH_SESSION_JSONL"'):
        app.require(BASH_ENV).register(contributor)


async def test_persistence_follows(app: App, tools: Tools, call: Call, agent: MakeAgent, tmp_path: Path) -> None:
    """§4.6: a replaced backend counts from the next command on, without the plugin starting anew."""
    fiber = await app.plugin(tool_bash, ToolBashConfig(home="/h"))
    registry = app.require(BASH_ENV)
    execution = call("echo $DSH_SESSION_JSONL", agent=agent())
    assert await run(tools, execution) == "\n"
    async with (
        SessionPersistence(JsonlLogStore(tmp_path / "a")) as a,
        SessionPersistence(JsonlLogStore(tmp_path / "b")) as b,
    ):
        provision = await app.provide(PERSISTENCE, a)
        assert (await run(tools, execution)).startswith(f"{tmp_path}/a/")
        await provision.replace(b)
        assert (await run(tools, execution)).startswith(f"{tmp_path}/b/")
        await provision.withdraw()
    assert (state(fiber), app.require(BASH_ENV)) == ("active", registry)


async def test_jobs_are_asked_for_at_each_call(app: App, tools: Tools, call: Call, jobs: Jobs) -> None:
    """5.6: a job service that comes later serves later calls."""
    await app.plugin(tool_bash, ToolBashConfig(home="/h"))
    execution = call("true", run_in_background=True)
    with pytest.raises(ToolError, match="unavailable"):
        await run(tools, execution)
    await app.provide(JOBS, jobs)
    assert await run(tools, execution) == "started background job bash-1"
    assert (await jobs.wait("bash-1", owner=None, timeout_ms=60_000)).status == "completed"


async def test_background_can_be_disabled(app: App, tools: Tools) -> None:
    """5.5: the configuration decides whether background execution is offered."""
    await app.plugin(tool_bash, ToolBashConfig(home="/h", enable_run_in_background=False))
    (definition,) = tools.definitions()
    assert "run_in_background" not in definition["parameters"]["properties"]


async def test_failed_start_leaves_nothing(app: App, tools: Tools) -> None:
    """A start that fails, for its home or for a tool of the same name, leaves neither tool nor registry behind."""
    with pytest.raises(DshHomeInvalid):
        await app.plugin(tool_bash, ToolBashConfig(home=""))
    await app.plugin(tool_bash, ToolBashConfig(home="/h"))
    first = tools.get("bash")
    await app.fibers[-1].stop()
    assert first is not None
    tools.register(first)
    with pytest.raises(ToolExists):
        await app.plugin(tool_bash, ToolBashConfig(home="/h"))
    assert (app.get(BASH_ENV), app.fibers) == (None, ())
