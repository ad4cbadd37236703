"""Creating, resuming and closing agents (BEHAVIOUR §6.6)."""

from __future__ import annotations

import pytest

from dsh_agent import (
    AGENTS,
    MODEL,
    SESSIONS,
    TOOLS,
    AgentsConfig,
    AgentStarted,
    NotConfigured,
    ScriptedModel,
    Tools,
    agents,
)
from dsh_context import App
from dsh_persistence import MemoryLogStore, SessionBusy, SessionNotFound
from dsh_session import SessionMeta, Sessions


async def test_a_fresh_session_has_its_id_before_its_first_turn(rig):
    """Seed 001: identity is there before anything runs, and nothing is stored yet."""
    async with rig() as run:
        agent = await run.agents.create(meta=SessionMeta(cwd="/srv/project"))

        assert agent.session.id.startswith("session-")
        assert "/srv/project" == agent.session.header.cwd
        assert [] == await run.persistence.list()


async def test_the_route_is_that_of_the_requests(rig):
    """Who asks an agent learns what the model is asked with; nobody changes it that way."""
    async with rig([{"text": "one"}]) as run:
        agent = await run.agents.create()
        await agent.prompt("a")

        assert [agent.route] == [request.route for request in run.model.requests]
        with pytest.raises(AttributeError):
            agent.route = None


async def test_resume_keeps_identity_and_continues(rig, types):
    """6.41: same id and header, one end-seed, turn numbers go on, the next header's reason is ``resume``."""
    store = MemoryLogStore()
    async with rig([{"text": "one"}], store=store) as run:
        agent = await run.agents.create(meta=SessionMeta(cwd="/srv"))
        await agent.prompt("a")
        header = agent.session.header
    async with rig([{"text": "two"}], store=store) as run:
        resumed = await run.agents.resume(header.id)
        result = await resumed.prompt("b")

        assert header == resumed.session.header
        assert 2 == result.turn
        assert 1 == types(resumed.session).count("session/end-seed")
        reasons = [event.data["reason"] for event in resumed.session.events if event.type == "request/header"]
        assert ["initial", "resume"] == reasons


async def test_resume_without_persistence_says_what_is_missing():
    """6.42."""
    model = ScriptedModel([])
    async with App() as app:
        await app.provide(SESSIONS, Sessions())
        await app.provide(TOOLS, Tools())
        await app.provide(MODEL, model)
        await app.plugin(agents, AgentsConfig(route=model.route))

        with pytest.raises(NotConfigured, match="cannot resume: session persistence is not configured"):
            await app.require(AGENTS).resume("s")


async def test_resume_of_an_unknown_or_live_session_is_refused(rig):
    """One writer per session, also inside one process."""
    async with rig([{"text": "one"}]) as run:
        agent = await run.agents.create(session_id="s")
        await agent.prompt("a")

        with pytest.raises(SessionBusy):
            await run.agents.resume("s")
        with pytest.raises(SessionNotFound):
            await run.agents.resume("nobody")


async def test_close_writes_what_is_left_and_frees_the_id(rig):
    """A closed agent's session can be resumed at once."""
    async with rig([{"text": "one"}], window_ms=600_000) as run:
        agent = await run.agents.create(session_id="s")
        agent.session.append("session/title", {"title": "t", "messageSeqs": [], "source": {"kind": "user"}})

        await run.agents.close(agent)

        assert run.sessions.get("s") is None
        assert 1 == len((await run.persistence.inspect("s")).events)
        assert "s" == (await run.agents.resume("s")).session.id


async def test_start_listeners_learn_the_source_and_may_refuse(rig):
    """6.40: a failure of the start rolls everything back."""
    async with rig() as run:
        started = []
        run.app.on(AgentStarted, lambda event: started.append(event.source))
        await run.agents.create(session_id="s")

        def refuse(event: AgentStarted) -> None:
            raise ValueError("no")

        run.app.on(AgentStarted, refuse)
        with pytest.raises(ExceptionGroup):
            await run.agents.create(session_id="t")

        assert ["startup", "startup"] == started
        assert run.sessions.get("t") is None
