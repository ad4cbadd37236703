"""Who a hook is told that it works for: ids, paths and environment of its own session, and of no other."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hooks.house import House
from support import bash

from dsh_agent import Agent
from dsh_agent_core import Harness

DIALECTS = ["claude-code", "codex"]
POINTS = ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"]
SAY_ID = 'echo "$DSH_SESSION_ID"'
TURN = [bash(SAY_ID), {"text": "Done."}]
AMBIENT = {
    "DSH_SESSION_ID": "outer",
    "DSH_SESSION_JSONL": "/old",
    "DSH_FOO": "1",
    "DSH_": "x",
    "OPENAI_API_KEY": "k1",
    "DSH_PROVIDER_API_KEY": "k2",
    "GITHUB_TOKEN": "k3",
    "PLAIN": "kept",
}


@pytest.fixture
def house(tmp_path) -> House:
    return House(top=tmp_path)


@pytest.fixture(params=DIALECTS)
def dialect(request) -> str:
    return request.param


@pytest.fixture(params=["jsonl", "database"])
def root(request, tmp_path) -> str | None:
    """The root of sessions: the home's folder, or a database, which has no file for a session."""
    return None if request.param == "jsonl" else f"sqlite:///{tmp_path}/sessions.db"


def path_of(running: Harness, agent: Agent) -> str | None:
    location = running.persistence.locate(agent.session.header)
    return None if location is None else location.path


async def test_start_resume_fork(house, dialect, root):
    """C01: S1, S1, S2, in payload, environment and path, from the very first hook on, and why it starts."""
    for point in POINTS:
        house.hook(dialect, point, house.recorder("runs"))
    due: list[tuple[str, str | None]] = []

    async def turn(running: Harness, agent: Agent) -> str:
        due.append((agent.session.id, path_of(running, agent)))
        await agent.prompt("go")
        results = [*agent.session.events.of_type("tool/result")]
        assert f"{agent.session.id}\n" == results[-1].data["message"]["content"][0]["text"]
        return agent.session.id

    async with house.harness(*TURN, sessions_root=root) as running:
        first = await turn(running, await running.agents.create(meta=house.meta))
    async with house.harness(*TURN, *TURN, sessions_root=root) as running:
        resumed = await running.agents.resume(first)
        await turn(running, resumed)
        await running.agents.close(resumed)
        second = await turn(running, await running.agents.fork(first))

    runs = house.recorded("runs")
    assert POINTS * 3 == [run["payload"]["hook_event_name"] for run in runs]
    assert [first, first, second] == [session_id for session_id, _ in due]
    assert first != second
    expected = [identity for identity in due for _ in POINTS]
    absent = "" if dialect == "claude-code" else None
    told = [(run["payload"]["session_id"], run["payload"]["transcript_path"]) for run in runs]
    assert [(session_id, path or absent) for session_id, path in expected] == told
    found = [(run["env"]["DSH_SESSION_ID"], run["env"].get("DSH_SESSION_JSONL")) for run in runs]
    assert expected == found
    assert {house.home} == {run["env"]["DSH_HOME"] for run in runs}
    starts = [run["payload"] for run in runs if run["payload"]["hook_event_name"] == "SessionStart"]
    assert ["startup", "resume", "fork"] == [payload["source"] for payload in starts]
    assert [None, None, first] == [payload.get("parent_session_id") for payload in starts]
    if root is None:
        # A session that was never told anything has no log; every other hook can open what it is given.
        late = [run["has_transcript"] for run in runs if run["payload"] is not starts[0]]
        assert [True] * (3 * len(POINTS) - 1) == late


async def test_sessions_side_by_side(house, dialect):
    """F02: two agents of one process, their turns at the same time: every hook has its own session's id throughout."""
    before = dict(os.environ)
    house.hook(dialect, "PreToolUse", house.recorder("runs"))
    calls = [{"name": "bash", "arguments": {"command": "sleep 0.01", "description": "Wait"}}] * 10
    replies = [{"tools": calls}, {"tools": calls}, {"text": "Done."}, {"text": "Done."}]

    async with house.harness(*replies) as running:
        agents = [await running.agents.create(meta=house.meta) for _ in range(2)]
        await asyncio.gather(*(agent.prompt("go") for agent in agents))

        runs = [(run["payload"]["session_id"], run["env"]["DSH_SESSION_ID"]) for run in house.recorded("runs")]
        assert sorted([(agent.session.id,) * 2 for agent in agents] * 10) == sorted(runs)
    assert before == dict(os.environ)


def read_env(path: Path) -> Mapping[str, str]:
    """Return what ``env -0`` has written."""
    pairs = (pair.partition("=") for pair in path.read_text().split("\0") if pair)
    return {name: value for name, _, value in pairs}


async def environments(house: House, **more: Any) -> Mapping[str, Mapping[str, str]]:
    """Return what a hook, a command, a second one, a background job and a resumed session's hook find."""
    wait = {"tools": [{"name": "job_output", "arguments": {"job_id": "bash-1", "wait": True}}]}
    calls = [bash("env -0 >first"), bash("env -0 >second"), bash("env -0 >background", run_in_background=True), wait]
    more["parent_env"] = {**os.environ, **AMBIENT}
    async with house.harness(*calls, {"text": "Done."}, **more) as running:
        agent = await running.agents.create(meta=house.meta)
        path = path_of(running, agent)
        await agent.prompt("go")
    (house.project / "hook").rename(house.project / "before")
    async with house.harness({"text": "Done."}, **more) as running:
        resumed = await running.agents.resume(agent.session.id)
        await resumed.prompt("go")
    names = ("before", "first", "second", "background", "hook")
    found = {name: read_env(house.project / name) for name in names}
    return {"due": {"DSH_SESSION_ID": agent.session.id, "DSH_SESSION_JSONL": path or ""}, **found}


async def test_ambient_names_reach_no_child(house, dialect, root):
    """F01: only the managed set, with this session's values; a path only where there is a file."""
    house.hook(dialect, "UserPromptSubmit", "env -0 >hook")

    found = dict(await environments(house, sessions_root=root))

    due = {"DSH_HOME": house.home, **found.pop("due")}
    managed = {name: value for name, value in due.items() if value}
    for where, environment in found.items():
        shell = {} if where in ("before", "hook") else {"DSH_SHELL": "1"}
        ours = {name: value for name, value in environment.items() if name.upper().startswith("DSH_")}
        assert {**managed, **shell} == ours, where


async def test_every_child_is_scrubbed_alike(house, dialect):
    """F03: the same names are gone from a command, a background job and a hook, also later and after a resume."""
    house.hook(dialect, "UserPromptSubmit", "env -0 >hook")

    found = dict(await environments(house))

    del found["due"]
    for where, environment in found.items():
        left = {name: value for name, value in environment.items() if name in AMBIENT and not name.startswith("DSH_")}
        assert {"PLAIN": "kept"} == left, where


async def test_what_a_handler_passes(house, dialect):
    """A name in passEnv reaches that hook alone, and a managed one is none to pass."""
    house.hook(dialect, "Stop", house.recorder("with"), passEnv=["GITHUB_TOKEN", "DSH_SESSION_ID"])
    house.hook(dialect, "Stop", house.recorder("without"))

    async with house.agent({"text": "Done."}, parent_env={**os.environ, **AMBIENT}) as agent:
        await agent.prompt("go")

    [[passed], [kept]] = house.recorded("with"), house.recorded("without")
    assert ("k3", agent.session.id) == (passed["env"]["GITHUB_TOKEN"], passed["env"]["DSH_SESSION_ID"])
    assert "GITHUB_TOKEN" not in kept["env"]
    assert any("DSH_SESSION_ID is a managed name" in text for text in house.told("config"))
