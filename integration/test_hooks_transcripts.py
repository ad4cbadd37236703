"""What a hook can read of the conversation: where it is told to look, and that what was just said stands there."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from hooks.house import House, Listener, ran

from dsh_agent import AGENTS, AgentsConfig, Spawn, agents
from dsh_agent_core import LocalBashPluginConfig, local_bash, model, sessions, tools
from dsh_context import App
from dsh_hook_bridges import HookBridgesConfig, cache_path, hook_bridges
from dsh_tool_bash import ToolBashConfig, tool_bash

DIALECTS = ["claude-code", "codex"]
MARKER = "a-marker-of-this-turn"
LONG_MS = 600_000
"""Nothing is written by itself within a test's life; shorter windows come to the same."""
PATH_OF = "import json, sys; print(json.load(sys.stdin)[sys.argv[1]])"
DIRECTLY = 'cat "$transcript_path"'
BY_DSHPY = f'{shlex.quote(sys.executable)} -m dsh_cli cat "$transcript_path"'


@pytest.fixture
def house(tmp_path) -> House:
    return House(top=tmp_path)


@pytest.fixture(params=DIALECTS)
def dialect(request) -> str:
    return request.param


def reader(read: str, name: str, *, field: str = "transcript_path") -> str:
    """Return a hook that reads the log that ``field`` names with ``read`` and notes what it found."""
    return (
        f'transcript_path=$({shlex.quote(sys.executable)} -c {shlex.quote(PATH_OF)} {field}) && {read} >"$PWD/{name}"'
    )


@pytest.mark.parametrize(
    ("read", "bridges", "more"),
    [
        (DIRECTLY, {}, {"encoding": "raw"}),
        (BY_DSHPY, {}, {"encoding": "zstd"}),
        (DIRECTLY, {"mirror": True}, {"encoding": "raw"}),
        (DIRECTLY, {"mirror": True}, {"encoding": "zstd"}),
        (DIRECTLY, {"mirror": True}, {"sessions_root": "sqlite:///{}/sessions.db"}),
    ],
    ids=["raw", "zstd by dshpy cat", "mirror of raw", "mirror of zstd", "mirror of a database"],
)
async def test_the_turn_that_runs_is_there(house, dialect, read, bridges, more):
    """H08: what the assistant has just said can be read, however long batches wait and seldom checkpoints are."""
    if "sessions_root" in more:
        more = {"sessions_root": more["sessions_root"].format(house.top)}
    for point in ("PreToolUse", "PostToolUse", "Stop"):
        house.hook(dialect, point, reader(read, point))
    call = {"name": "bash", "arguments": {"command": "echo $((6 * 7))-by-the-tool", "description": "Count"}}
    replies = [{"text": f"{MARKER}-1", "tools": [call]}, {"text": f"{MARKER}-2"}]

    async with house.agent(*replies, bridges=bridges, window_ms=LONG_MS, checkpoints="turn", **more) as agent:
        await agent.prompt("go")

        assert ["pass"] * 3 == [decision for _, decision, *_ in ran(agent.session)]
        for point, words in (
            ("PreToolUse", f"{MARKER}-1"),
            ("PostToolUse", f"{MARKER}-1"),
            ("Stop", f"{MARKER}-2"),
            ("Stop", "42-by-the-tool"),
        ):
            assert words in (house.project / point).read_text()
        rows = map(json.loads, (house.project / "Stop").read_text().splitlines())
        events = [row for row in rows if row["type"] != "session"]
        stop = next(event.seq for event in agent.session.events if event.data.get("point") == "Stop")
        expected = [(event.seq, event.type) for event in agent.session.events[:stop]]
        assert expected == [(event["seq"], event["type"]) for event in events[:stop]]


async def test_both_logs_of_a_delegation_are_there(house, dialect):
    """Where a child's turn ends, its parent's log can be read up to that moment as well as its own."""
    for field in ("transcript_path", "agent_transcript_path"):
        house.hook(dialect, "SubagentStop", reader(DIRECTLY, field, field=field))

    async with house.harness({"text": MARKER}, encoding="raw", window_ms=LONG_MS, checkpoints="turn") as running:
        parent = await running.agents.create(meta=house.meta)
        child = await running.agents.spawn(parent, Spawn(label="reviewer"))
        parent.inject("A note for later.", {"kind": "plugin:test"})
        await child.prompt("Review it.")

    assert "A note for later." in (house.project / "transcript_path").read_text()
    assert MARKER in (house.project / "agent_transcript_path").read_text()


async def test_a_mirror_grows_line_by_line(house, dialect):
    """It holds each line once, over several turns and a resume, and lies where nobody else reads."""
    house.hook(dialect, "UserPromptSubmit", "true")
    house.hook(dialect, "Stop", house.recorder("runs"))
    for _ in range(2):
        async with house.harness({"text": "1"}, {"text": "2"}, bridges={"mirror": True}) as running:
            stored = await running.persistence.list()
            new = not stored
            agent = await (
                running.agents.create(meta=house.meta) if new else running.agents.resume(stored[0].header.id)
            )
            await agent.prompt("go")
            await agent.prompt("go")

    path = Path(house.payloads("runs")[-1]["transcript_path"])
    assert (cache_path(house.home), 0o600) == (str(path.parent), path.stat().st_mode & 0o777)
    _, *events = map(json.loads, path.read_text().splitlines())
    assert list(range(len(events))) == [event["seq"] for event in events]
    assert 4 == sum(event["type"] == "turn/start" for event in events)


@pytest.mark.parametrize("store", ["zstd", "raw", "database"])
async def test_where_the_log_is(house, dialect, store):
    """A log with a file of its own is named; of one in a database each dialect says in its own way that it is none."""
    house.hook(dialect, "Stop", house.recorder("runs"))
    database = f"sqlite:///{house.top}/sessions.db"
    more = {"sessions_root": database} if store == "database" else {"encoding": store}

    async with house.harness({"text": "Done."}, **more) as running:
        agent = await running.agents.create(meta=house.meta)
        await agent.prompt("go")

        location = running.persistence.locate(agent.session.header)
        [run] = house.recorded("runs")
        expected = {"claude-code": "", "codex": None}[dialect] if location is None else location.path
        assert expected == run["payload"]["transcript_path"]
        assert (location and location.path) == run["env"].get("DSH_SESSION_JSONL")
        assert (store != "database") == run["has_transcript"]


async def test_without_any_log(house, dialect):
    """With no persistence at all hooks run and decide; there is no path, and no file is made for one."""
    house.hook(dialect, "PreToolUse", "echo 'not that' >&2; exit 2", matcher="Bash")
    house.hook(dialect, "Stop", house.recorder("runs"))
    call = {"name": "bash", "arguments": {"command": "touch ran.txt", "description": "Leave a file"}}
    scripted = Listener([{"tools": [call]}, {"text": "Done."}])
    async with App() as app:
        await app.plugin(sessions, None)
        await app.plugin(tools, None)
        await app.plugin(model, scripted)
        await app.plugin(local_bash, LocalBashPluginConfig())
        await app.plugin(tool_bash, ToolBashConfig(home=house.home))
        await app.plugin(hook_bridges, HookBridgesConfig(home=house.home, user_home=str(house.user)))
        await app.plugin(agents, AgentsConfig(route=scripted.route))
        agent = await app.require(AGENTS).create(meta=house.meta)

        await agent.prompt("go")

    assert ["block", "pass"] == [decision for _, decision, *_ in ran(agent.session)]
    [run] = house.recorded("runs")
    assert {"claude-code": "", "codex": None}[dialect] == run["payload"]["transcript_path"]
    assert (agent.session.id, None) == (run["env"]["DSH_SESSION_ID"], run["env"].get("DSH_SESSION_JSONL"))
    assert [] == list(house.project.iterdir())
    assert not Path(house.home).exists()
