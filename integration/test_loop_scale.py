"""A hundred agents in one process: nobody is taken for another, nothing grows but the logs, nothing is left."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support import bash, decode_log, results

from dsh_agent import Agent, ModelRequest, ModelRoute, ScriptedModel
from dsh_agent_core import Harness, HarnessConfig, harness
from dsh_session import Session, SessionMeta, StreamChunk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

AGENTS = 100
TURNS = 20
WARM_TURNS = 5
BYTES_BY_EVENT = 1024
"""What an event may take in memory beside its data."""
SLACK_BYTES = 8 << 20
WRITERS = 5
"""Threads that write logs; each may remember the session it has written last."""


class Asker:
    """A model that has the shell say whose it is, and then says it itself."""

    route = ModelRoute(provider="scripted", model="scripted")

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamChunk]:
        last = request.messages[-1]
        said = last["content"][0]["text"]
        reply = {"text": said.strip()} if last["role"] == "tool" else bash('echo "$DSH_SESSION_ID"')
        async for chunk in ScriptedModel.from_replies([reply]).stream(request):
            yield chunk


def _held() -> tuple[int, int, int]:
    """Return how many descriptors, threads and children this process has."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count(), len(children)


def _resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_hundred_agents(tmp_path: Path) -> None:
    """20 turns with a command each, all at once: their own ids, flat memory, and after the close nothing of them."""
    asyncio.run(_hold(tmp_path / "warm", 2, 2))  # what a process makes once, such as imports, is made here
    before = _held()

    asyncio.run(_hold(tmp_path / "home", AGENTS, TURNS))

    assert before == _held()


async def _hold(home: Path, agents: int, turns: int) -> None:
    model = Asker()
    config = HarnessConfig(model=model, route=model.route, dsh_home=str(home), system_prompt="Be brief.")
    tasks = len(asyncio.all_tasks())
    async with harness(config) as running:
        known = await _converse(running, agents, turns)
        assert [] == list(running.agents)
        assert [] == list(running.sessions)
        assert tasks == len(asyncio.all_tasks())
        gc.collect()
        left = [type(thing) for reference in known if (thing := reference()) is not None]
        assert Agent not in left, "something still knows closed agents"
        assert len(left) <= WRITERS, "something still knows closed sessions"
    assert tasks == len(asyncio.all_tasks())


async def _converse(running: Harness, count: int, turns: int) -> Sequence[weakref.ref[Agent | Session]]:
    agents = [await running.agents.create(meta=SessionMeta(cwd="/")) for _ in range(count)]
    warm_turns = min(WARM_TURNS, turns)
    await asyncio.gather(*(_take_turns(agent, warm_turns) for agent in agents))
    warm_bytes, warm_logs = _resident_bytes(), _log_bytes(agents)
    await asyncio.gather(*(_take_turns(agent, turns - warm_turns) for agent in agents))
    assert _resident_bytes() - warm_bytes < _log_bytes(agents) - warm_logs + SLACK_BYTES
    for agent in agents:
        location = running.persistence.locate(agent.session.header)
        assert location is not None
        await running.agents.close(agent)
        _check(agent, decode_log(Path(location.path)), turns)
    return [weakref.ref(thing) for agent in agents for thing in (agent, agent.session)]


async def _take_turns(agent: Agent, turns: int) -> None:
    for _ in range(turns):
        result = await agent.prompt("Who are you?")
        assert ("completed", agent.session.id) == (result.reason["kind"], result.text)


def _log_bytes(agents: Sequence[Agent]) -> int:
    return sum(len(event.encoded) + BYTES_BY_EVENT for agent in agents for event in agent.session.events)


def _check(agent: Agent, log: Sequence[dict[str, Any]], turns: int) -> None:
    """The log on disk is the session's, and names nobody else."""
    header, *rows = log
    assert agent.session.id == header["id"]
    assert [event.type for event in agent.session.events] == [row["type"] for row in rows]
    assert [f"{agent.session.id}\n"] * turns == results(agent.session)
    shown = [row["data"]["message"]["content"][0]["text"] for row in rows if row["type"] == "tool/result"]
    assert results(agent.session) == shown
