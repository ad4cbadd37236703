"""Forked and delegated sessions: what they inherit, and that nobody's log changes (BEHAVIOUR §6.6, GENERATIONS §8)."""

from __future__ import annotations

import asyncio

import pytest

from dsh_agent import (
    AGENTS,
    EXTENSIONS,
    MAX_DEPTH,
    MODEL,
    SESSIONS,
    TOOLS,
    AgentsConfig,
    AgentStarted,
    DelegationTooDeep,
    Extension,
    ForkInvalid,
    NotConfigured,
    ScriptedModel,
    Spawn,
    StartDecision,
    Tools,
    agents,
)
from dsh_context import App
from dsh_persistence import MemoryLogStore, SessionNotFound
from dsh_session import SessionMeta, Sessions

CALL = {"text": "I look.", "tools": [{"name": "echo", "arguments": {"text": "hello"}}]}
REPLIES = [CALL, {"text": "Done."}, {"text": "More."}]


def rows(events):
    return [(event.seq, event.type, event.time, event.encoded, event.source_event_seqs) for event in events]


async def test_a_fork_from_any_event(rig):
    """6.43: every prefix makes a valid session that a model can be asked about; the original stays byte-equal."""
    async with rig([*REPLIES[:2], *[{"text": "Again."}] * 40]) as run:
        agent = await run.agents.create(session_id="trunk", meta=SessionMeta(cwd="/srv"))
        await agent.prompt("go")
        await run.persistence.flush("trunk")
        before, stored = rows(agent.session.events), rows((await run.persistence.inspect("trunk")).events)
        for at in range(agent.session.next_seq):
            fork = await run.agents.fork("trunk", at=at)
            header = fork.session.header
            assert ("/srv", "trunk", True, at + 1, 0) == (
                header.cwd,
                header.parent_session,
                header.is_seeded,
                header.seed_length,
                header.delegation_depth,
            )
            assert before[: at + 1] == rows(fork.session.events)[: at + 1]
            assert fork.session.state.turn is None, "the open turn was closed"
            assert {"kind": "completed"} == (await fork.prompt("and now?")).reason
            assert fork.lineage is None, "a fork is nobody's child"
        assert before == rows(agent.session.events)
        assert stored == rows((await run.persistence.inspect("trunk")).events)


async def test_a_fork_inside_a_turn_has_its_own_closers(rig):
    """GENERATIONS §8: a call without its result is answered as forked, and the turn ends so."""
    async with rig(REPLIES) as run:
        agent = await run.agents.create(session_id="trunk")
        await agent.prompt("go")
        call = next(event for event in agent.session.events if event.type == "tool/call")
        fork = await run.agents.fork("trunk", at=call.seq)
        closers = [event for event in fork.session.events if event.seq > call.seq]
        assert ["session/end-seed", "tool/result", "step/end", "turn/end"] == [event.type for event in closers]
        assert closers[1].data["message"]["id"].startswith("forked-tool-result-")
        assert "TOOL_OUTCOME_UNKNOWN" == closers[1].data["error"]["code"]
        assert {"kind": "forked"} == closers[-1].data["reason"]


async def test_a_fork_of_a_stored_session(rig):
    """What is not live is read from the store, and stays as it is there; the fork is stored with its seed."""
    store = MemoryLogStore()
    async with rig(REPLIES[:2], store=store) as run:
        await (await run.agents.create(session_id="trunk")).prompt("go")
    before = rows(store.read("trunk").events)
    async with rig([{"text": "Elsewhere."}], store=store) as run:
        started: list[str] = []
        run.app.on(AgentStarted, lambda event: started.append(event.source))
        fork = await run.agents.fork("trunk", new_id="branch")
        result = await fork.prompt("go on")
        assert (2, "Elsewhere.", ["fork"]) == (result.turn, result.text, started)
        await run.agents.close(fork)
    assert before == rows(store.read("trunk").events)
    branch = store.read("branch")
    assert ("trunk", len(before)) == (branch.header.parent_session, branch.cut)
    assert before == rows(branch.events)[: len(before)]


async def test_a_fork_that_cannot_be(rig):
    """Each reason has its error, and nothing is made."""
    async with rig(REPLIES) as run:
        agent = await run.agents.create(session_id="trunk")
        with pytest.raises(ForkInvalid, match="it has no events"):
            await run.agents.fork("trunk")
        await agent.prompt("go")
        with pytest.raises(ForkInvalid, match="0 to ") as caught:
            await run.agents.fork("trunk", at=10_000)
        assert ("trunk", 10_000, agent.session.next_seq) == (
            caught.value.session_id,
            caught.value.at,
            caught.value.events,
        )
        with pytest.raises(SessionNotFound):
            await run.agents.fork("absent")
        assert ["trunk"] == [session.id for session in run.sessions]


async def test_a_delegated_session(rig):
    """6.46: a log of its own, the parent's place and modes, one level more; the parent's log has nothing of it."""
    async with rig([{"text": "child"}, {"text": "parent"}]) as run:
        parent = await run.agents.create(session_id="top", meta=SessionMeta(cwd="/srv", sandbox_mode="read-only"))
        parent.session.append("sandbox/mode", {"mode": "workspace-write"})
        parent.session.append("approval/policy", {"policy": "never"})
        child = await run.agents.spawn(parent, Spawn(label="look around"), session_id="child")
        header = child.session.header
        assert ("/srv", "top", "subagent", 1, "workspace-write", "never", False) == (
            header.cwd,
            header.parent_session,
            header.origin,
            header.delegation_depth,
            header.sandbox_mode,
            header.approval_policy,
            header.is_seeded,
        )
        assert ("top", "top") == (child.lineage.parent, child.lineage.root)
        before = rows(parent.session.events)
        assert "child" == (await child.prompt("hello")).text
        assert before == rows(parent.session.events)
        described = next(event for event in child.session.events if event.type == "subagent/descriptor")
        assert {"version": 3, "mode": "one-shot", "provider": "spawn", "label": "look around"} == described.data
        assert "parent" == (await parent.prompt("hello")).text


async def test_extensions_are_told_of_children(rig):
    """They see each child begin, may tell it something, and see how it ended."""
    seen = []

    class Watching(Extension):
        name = "plugin:watching"

        async def subagent_start(self, event):
            seen.append(("start", event.agent.session.id, event.child.session.id, event.kind))
            return StartDecision(context=["Be brief."])

        async def subagent_end(self, event):
            seen.append(("end", event.agent.session.id, event.child.session.id, event.reason))

    async with rig([{"text": "child"}]) as run:
        run.app.require(EXTENSIONS).register(Watching())
        parent = await run.agents.create(session_id="top")
        child = await run.agents.spawn(parent, Spawn(label="look around"), session_id="child")
        await child.prompt("hello")
        assert ["Be brief.", "hello"] == [
            message["content"][0]["text"] for message in child.session.messages() if message["role"] == "user"
        ]
        await run.agents.close(child)
        await run.agents.close(await run.agents.spawn(parent, Spawn(label="idle"), session_id="idle"))
    assert [
        ("start", "top", "child", "look around"),
        ("end", "top", "child", {"kind": "completed"}),
        ("start", "top", "idle", "idle"),
        ("end", "top", "idle", {}),
    ] == seen


async def test_a_delegated_session_may_inherit_what_was_said(rig):
    """6.47: up to the last turn that has ended; the turn that delegates is not in it."""
    async with rig([{"text": "one"}, CALL, {"text": "two"}, {"text": "child"}]) as run:
        parent = await run.agents.create(session_id="top")
        fresh = await run.agents.spawn(parent, Spawn(label="early", inherit="turns"))
        assert not fresh.session.header.is_seeded, "there was nothing to inherit"
        await parent.prompt("first")
        ended = parent.session.next_seq
        run.echo.hold = asyncio.Event()
        second = asyncio.ensure_future(parent.prompt("second"))
        await run.echo.started.wait()
        child = await run.agents.spawn(parent, Spawn(label="branch", inherit="turns"))
        assert rows(parent.session.events)[:ended] == rows(child.session.events)[:ended]
        assert ended == child.session.header.seed_length
        run.echo.hold.set()
        await second
        assert 2 == (await child.prompt("go on")).turn


async def test_the_budget_of_delegations_outlives_the_process(rig):
    """6.48: the level is in the header, so a resumed child is as deep as before; 0 forbids delegation."""
    store = MemoryLogStore()
    async with rig([{"text": "a"}], store=store) as run:
        agent = await run.agents.create()
        with pytest.raises(DelegationTooDeep, match="subagent depth 1 exceeds maxDepth 0"):
            await run.agents.spawn(agent, Spawn(label="no", max_depth=0))
        for level in range(MAX_DEPTH):
            agent = await run.agents.spawn(agent, Spawn(label=f"level {level}"), session_id=f"level-{level + 1}")
        await agent.prompt("hello")
    async with rig(store=store) as run:
        resumed = await run.agents.resume(f"level-{MAX_DEPTH}")
        with pytest.raises(DelegationTooDeep) as caught:
            await run.agents.spawn(resumed, Spawn(label="one too many"))
        assert (MAX_DEPTH + 1, MAX_DEPTH) == (caught.value.depth, caught.value.max_depth)
        assert [resumed.session.id] == [session.id for session in run.sessions]


async def test_parent_and_child_overlap_without_mixing(rig):
    """Their turns run at the same time, and each log has its own only."""
    replies = [{"text": "from one", "delay_ms": 20}, {"text": "from one", "delay_ms": 20}]
    async with rig(replies) as run:
        parent = await run.agents.create(session_id="top")
        child = await run.agents.spawn(parent, Spawn(label="beside"), session_id="child")
        await asyncio.gather(parent.prompt("to the parent"), child.prompt("to the child"))
        for agent, said in ((parent, "to the parent"), (child, "to the child")):
            texts = [m["content"][0]["text"] for m in agent.session.messages() if m["role"] == "user"]
            assert [said] == texts


async def test_nothing_to_fork_from_is_said():
    """Without persistence only what is live can be forked."""
    model = ScriptedModel([])
    async with App() as app:
        await app.provide(SESSIONS, Sessions())
        await app.provide(TOOLS, Tools())
        await app.provide(MODEL, model)
        await app.plugin(agents, AgentsConfig(route=model.route))
        service = app.require(AGENTS)
        agent = await service.create(session_id="top")
        agent.session.append("plugin:test/mark", {})
        assert "top" == (await service.fork("top")).session.header.parent_session
        with pytest.raises(NotConfigured, match="not live"):
            await service.fork("absent")
