"""Background commands inside a real agent loop, over real commands and a JSONL log."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from waiting import is_alive, until

from dsh_agent import Agent, TurnEnded
from dsh_persistence_jsonl import JsonlLogStore
from dsh_session import SessionEvent, SessionMeta

if TYPE_CHECKING:
    from conftest import OpenLoop

Replies = Sequence[Mapping[str, Any]]


def bash(command: str, **arguments: Any) -> Mapping[str, Any]:
    return {"tools": [{"name": "bash", "arguments": {"command": command, "description": "d", **arguments}}]}


def job(name: str, **arguments: Any) -> Mapping[str, Any]:
    return {"tools": [{"name": f"job_{name}", "arguments": arguments}]}


def results(agent: Agent) -> list[str]:
    """The text of each tool result in the log."""
    return [e.data["message"]["content"][0]["text"] for e in agent.session.events if e.type == "tool/result"]


def pid_in(path: Path) -> int | None:
    return int(path.read_text()) if path.exists() and path.read_text().endswith("\n") else None


async def test_a_job_from_start_to_notice(open_loop: OpenLoop, tmp_path: Path) -> None:
    """§5.3, §5.5: started, listed, ended, told in a turn of its own, read there."""
    wait = f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; echo $DSH_SESSION_ID; exit 3"
    replies = [
        bash(wait, run_in_background=True),
        job("list"),
        {"text": "waiting"},
        job("output", job_id="bash-1"),
        {"text": "done"},
    ]
    async with open_loop(replies) as loop:
        ended: list[int] = []
        loop.app.on(TurnEnded, lambda turn: ended.append(turn.turn))
        agent = await loop.agents.create(session_id="s1")
        assert (await agent.prompt("go")).text == "waiting"
        (tmp_path / "go").touch()
        await until(lambda: ended == [1, 2])
        assert results(agent) == [
            "started background job bash-1",
            f"bash-1 [bash] running — {wait}",
            "s1\n[status: completed, exit code: 3]",
        ]
        said = [e.data["content"][0]["text"] for e in agent.session.events if e.type == "user/message"]
        told = f"background job bash-1 (bash: {wait}) finished [status: completed, exit code: 3]."
        assert said == ["go", f"{told} Read its output with job_output."]


async def test_what_a_self_backgrounding_command_leaves(open_loop: OpenLoop, tmp_path: Path) -> None:
    """G10: the model reads that the shell has ended and its work has not; nothing claims that it is over."""
    work = f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"
    replies = [
        bash(f"nohup bash -c '{work}' >/dev/null 2>&1 & echo started", run_in_background=True),
        {"text": "a"},
        job("output", job_id="bash-1"),
        {"text": "b"},
        {"text": "c"},
    ]
    async with open_loop(replies) as loop:
        ended: list[int] = []
        loop.app.on(TurnEnded, lambda turn: ended.append(turn.turn))
        agent = await loop.agents.create(session_id="s1")
        await agent.prompt("start it")
        await until(lambda: loop.jobs.get("bash-1", owner="s1").detail != "")
        await agent.prompt("look")
        remark = "its shell has ended with exit code 0; processes it started still run"
        assert results(agent)[1] == f"started\n[status: running, {remark}]"
        assert ended == [1, 2]
        (tmp_path / "go").touch()
        await until(lambda: ended == [1, 2, 3])


async def test_killing_what_a_self_backgrounding_command_left(open_loop: OpenLoop, tmp_path: Path) -> None:
    """G10: job_kill ends processes that outlived their shell."""
    pid = tmp_path / "pid"
    command = f"nohup sleep 600 >/dev/null 2>&1 & echo $! > {pid}"
    replies = [bash(command, run_in_background=True), {"text": "a"}, job("kill", job_id="bash-1"), {"text": "b"}]
    async with open_loop(replies) as loop:
        agent = await loop.agents.create(session_id="s1")
        await agent.prompt("start it")
        await until(lambda: loop.jobs.get("bash-1", owner="s1").detail != "")
        await agent.prompt("end it")
        assert results(agent)[1] == "requested cancellation of job bash-1"
        ended = await loop.jobs.wait("bash-1", owner="s1", timeout_ms=10_000)
        assert (ended.status, ended.detail) == ("killed", "exit code: 0; what it left running was ended")
        assert not is_alive(int(pid.read_text()))


@pytest.mark.parametrize("how", ["close", "leave"])
async def test_jobs_end_with_their_agent_and_with_the_harness(open_loop: OpenLoop, tmp_path: Path, how: str) -> None:
    """G09: neither a job nor what it started in turn is alive when its session was closed; the log has their ends."""
    pids = [tmp_path / "one", tmp_path / "two"]
    replies = [
        bash(f"echo $$ > {pids[0]}; exec sleep 500", run_in_background=True),
        bash(f"sh -c 'sleep 501 & echo $! > {pids[1]}; wait'", run_in_background=True),
        {"text": "a"},
    ]
    async with open_loop(replies) as loop:
        agent = await loop.agents.create(session_id="s1")
        await agent.prompt("start them")
        await until(lambda: None not in map(pid_in, pids))
        if how == "close":
            await loop.agents.close(agent)
            assert [is_alive(pid_in(path) or 0) for path in pids] == [False, False]
            assert loop.jobs.of("s1") == []
    assert [is_alive(pid_in(path) or 0) for path in pids] == [False, False]
    ends = [event.data for event in agent.session.events if event.type == "job/settled"]
    assert sorted((end["jobId"], end["status"], end["cause"]) for end in ends) == [
        ("bash-1", "killed", "teardown"),
        ("bash-2", "killed", "teardown"),
    ]
    stored = JsonlLogStore(tmp_path / "sessions").read("s1").events
    assert len([event for event in stored if event.type == "job/settled"]) == 2


async def test_what_a_foreground_command_left_running_is_a_job(open_loop: OpenLoop, tmp_path: Path) -> None:
    """G09: a leftover is never invisible: the result names a job, which can be ended and whose end is no news."""
    pid = tmp_path / "pid"
    command = f"echo up; sleep 502 >/dev/null 2>&1 & echo $! > {pid}"
    replies = [bash(command), job("list"), {"text": "a"}, job("kill", job_id="bash-1"), {"text": "b"}]
    async with open_loop(replies) as loop:
        ended: list[int] = []
        loop.app.on(TurnEnded, lambda turn: ended.append(turn.turn))
        agent = await loop.agents.create(session_id="s1")
        await agent.prompt("start it")
        assert results(agent) == [
            "up\n[processes it started still run: job bash-1]",
            f"bash-1 [bash] running — {command} (its shell has ended with exit code 0; processes it started still run)",
        ]
        assert "its shell has ended with exit code 0" in loop.jobs.get("bash-1", owner="s1").detail
        assert is_alive(int(pid.read_text()))
        await agent.prompt("end it")
        assert results(agent)[2] == "requested cancellation of job bash-1"
        assert (await loop.jobs.wait("bash-1", owner="s1", timeout_ms=10_000)).status == "killed"
        assert not is_alive(int(pid.read_text()))
        assert ended == [1, 2], "nobody was woken"


async def test_a_leftover_ends_with_its_agent(open_loop: OpenLoop, tmp_path: Path) -> None:
    """G09: closing the session leaves nothing of a foreground command either; a held pipe is told (G01)."""
    pid = tmp_path / "pid"
    async with open_loop([bash(f"sleep 502 & echo $! > {pid}; echo up"), {"text": "a"}]) as loop:
        agent = await loop.agents.create(session_id="s1")
        await agent.prompt("start it")
        held = "an output pipe is still held, and not read any more"
        assert results(agent) == [f"up\n[processes it started still run: job bash-1; {held}]"]
        await loop.agents.close(agent)
        assert not is_alive(int(pid.read_text()))


async def test_a_call_cancelled_at_its_start(open_loop: OpenLoop) -> None:
    """5.8: a turn that is cancelled as the call is logged starts nothing, and the result says so."""
    async with open_loop([bash("sleep 600", run_in_background=True)]) as loop:
        agent = await loop.agents.create(session_id="s1")
        turn = asyncio.create_task(agent.prompt("go"))

        def cancel(event: SessionEvent) -> None:
            if event.type == "tool/call":
                turn.cancel()

        agent.session.subscribe(cancel)
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert (loop.jobs.of("s1"), results(agent)) == ([], ["Error: tool call aborted before dispatch"])
        (result,) = [event.data for event in agent.session.events if event.type == "tool/result"]
        assert result["error"] == {"name": "AbortError", "code": "ABORTED_BEFORE_DISPATCH"}
        assert not [event for event in agent.session.events if event.type.startswith("job/")]


CRASHING = """
import asyncio, os, signal, sys
from pathlib import Path
from dsh_agent import AGENTS, MODEL, PERSISTENCE, SESSIONS, TOOLS, AgentsConfig, ScriptedModel, Tools, agents, jobs
from dsh_bash import BASH
from dsh_bash_local import LocalBash
from dsh_context import App
from dsh_persistence import SessionPersistence
from dsh_persistence_jsonl import JsonlLogStore
from dsh_session import Sessions
from dsh_tool_bash import ToolBashConfig, tool_bash

async def main(folder):
    call = {"command": "sleep 60", "description": "d", "run_in_background": True}
    model = ScriptedModel.from_replies([{"tools": [{"name": "bash", "arguments": call}]}, {"text": "ok"}])
    sessions, persistence = Sessions(), SessionPersistence(JsonlLogStore(Path(folder) / "sessions"))
    sessions.observe(persistence.attach)
    async with App() as app, LocalBash() as local:
        for key, value in ((SESSIONS, sessions), (PERSISTENCE, persistence), (TOOLS, Tools()), (MODEL, model), (BASH, local)):
            await app.provide(key, value)
        await app.plugin(jobs, None)
        await app.plugin(tool_bash, ToolBashConfig(home=folder))
        await app.plugin(agents, AgentsConfig(route=model.route))
        agent = await app.require(AGENTS).create(session_id="s1")
        await agent.prompt("go")
        await persistence.flush("s1")
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(sys.argv[1]))
"""  # noqa: E501  # a line of the script


async def test_a_job_of_a_harness_that_was_killed(open_loop: OpenLoop, tmp_path: Path) -> None:
    """G11: after a resume it is lost: listed as such, not ended by a kill, no room taken, its id not used again."""
    script = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", CRASHING, str(tmp_path)], check=False, timeout=60, env=dict(os.environ)
    )
    assert script.returncode == -signal.SIGKILL
    replies = [
        job("list"),
        job("kill", job_id="bash-1"),
        bash("true", run_in_background=True),
        job("output", job_id="bash-2", wait=True),
        {"text": "ok"},
    ]
    async with open_loop(replies) as loop:
        agent = await loop.agents.resume("s1")
        assert (await agent.prompt("look")).text == "ok"
        lost = "the harness that started it is gone and recorded no end; nothing of it can be read or ended from here"
        assert results(agent)[1:] == [
            f"bash-1 [bash] lost — sleep 60 ({lost})",
            f"job bash-1 is lost, nothing was signalled: {lost}",
            "started background job bash-2",
            "(no new output)\n[status: completed, exit code: 0]",
        ]


async def test_delegated_sessions_know_where_they_come_from(open_loop: OpenLoop) -> None:
    """Parent and root are in the environment of a delegated session's commands, and in nobody else's."""
    show = bash("env | grep ^DSH_.*SESSION_ID | sort")
    async with open_loop([show, {"text": "ok"}] * 3) as loop:
        seen: list[str] = []
        metas = [None, SessionMeta(parent_session="top", origin="subagent", delegation_depth=1)]
        metas.append(SessionMeta(parent_session="child", origin="subagent", delegation_depth=2))
        for session_id, meta in zip(("top", "child", "grandchild"), metas, strict=True):
            agent = await loop.agents.create(session_id=session_id, meta=meta)
            await agent.prompt("who are you")
            seen += results(agent)
        assert seen == [
            "DSH_SESSION_ID=top\n",
            "DSH_PARENT_SESSION_ID=top\nDSH_ROOT_SESSION_ID=top\nDSH_SESSION_ID=child\n",
            "DSH_PARENT_SESSION_ID=child\nDSH_ROOT_SESSION_ID=top\nDSH_SESSION_ID=grandchild\n",
        ]
