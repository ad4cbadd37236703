"""Where a delegated session comes from: its parent, and the top of the chain."""

from __future__ import annotations

from typing import Any

import pytest

from dsh_agent import Agent, Lineage
from dsh_persistence import MemoryLogStore
from dsh_session import SessionHeader, SessionMeta


def delegated(parent: str, depth: int = 1) -> SessionMeta:
    return SessionMeta(parent_session=parent, origin="subagent", delegation_depth=depth)


async def create(run: Any, session_id: str, meta: SessionMeta | None = None) -> Agent:
    agent: Agent = await run.agents.create(session_id=session_id, meta=meta)
    agent.session.append("session/title", {"title": "t", "messageSeqs": [], "source": {"kind": "user"}})
    return agent


@pytest.mark.parametrize("meta", [None, SessionMeta(parent_session="p"), SessionMeta(delegation_depth=1)])
async def test_nobody_delegated_it(rig: Any, meta: SessionMeta | None) -> None:
    """A session at the top, one that was merely forked, and one that names no parent have no lineage."""
    async with rig() as run:
        assert (await create(run, "s", meta)).lineage is None


@pytest.mark.parametrize(
    "meta",
    [
        SessionMeta(parent_session="top", origin="subagent"),
        SessionMeta(parent_session="top", delegation_depth=1),
    ],
)
async def test_a_child(rig: Any, meta: SessionMeta) -> None:
    """The origin or the depth makes a child; its parent is at the top."""
    async with rig() as run:
        await create(run, "top")
        assert Lineage(parent="top", root="top") == (await create(run, "child", meta)).lineage


async def test_a_grandchild_of_live_sessions(rig: Any) -> None:
    """The chain is followed to its top; a fork above the top is no delegation."""
    async with rig() as run:
        await create(run, "before")
        await create(run, "top", SessionMeta(parent_session="before"))
        await create(run, "child", delegated("top"))
        assert Lineage(parent="child", root="top") == (await create(run, "grandchild", delegated("child", 2))).lineage


async def test_a_grandchild_whose_ancestors_are_stored(rig: Any) -> None:
    """A resume finds the chain in the headers of the store; live ones come first."""
    store = MemoryLogStore()
    async with rig(store=store) as run:
        for session_id, meta in (("top", None), ("child", delegated("top")), ("grandchild", delegated("child", 2))):
            await run.agents.close(await create(run, session_id, meta))
    async with rig(store=store) as run:
        resumed = await run.agents.resume("grandchild")
        assert Lineage(parent="child", root="top") == resumed.lineage
        await run.agents.resume("child")
        assert Lineage(parent="child", root="top") == (await create(run, "other", delegated("child", 2))).lineage


async def test_a_chain_that_is_broken(rig: Any) -> None:
    """The farthest ancestor that is known stands for the top: by its header, or only by its id."""
    async with rig() as run:
        assert Lineage(parent="gone", root="gone") == (await create(run, "child", delegated("gone"))).lineage
        assert Lineage(parent="child", root="gone") == (await create(run, "grandchild", delegated("child", 2))).lineage


async def test_a_chain_that_bites_its_tail(rig: Any) -> None:
    """Headers that name each other keep nobody waiting."""
    async with rig() as run:
        await create(run, "a", delegated("b"))
        await create(run, "b", delegated("a"))
        lineage = (await create(run, "c", delegated("a"))).lineage
        assert Lineage(parent="a", root="b") == lineage


async def test_what_cannot_be_looked_up_leaves_nothing_behind(rig: Any) -> None:
    """A store that fails to list fails the creation, and a resume gives the session back."""

    class Broken(MemoryLogStore):
        broken = False

        def list(self) -> Any:
            if self.broken:
                raise OSError("gone")
            return super().list()

    store = Broken()
    async with rig(store=store) as run:
        await run.agents.close(await create(run, "child", delegated("top")))
        store.broken = True
        for attempt in (run.agents.create(session_id="t", meta=delegated("top")), run.agents.resume("child")):
            with pytest.raises(OSError, match="gone"):
                await attempt
        assert [] == list(run.sessions)
        store.broken = False
        assert SessionHeader is type((await run.agents.resume("child")).session.header)
