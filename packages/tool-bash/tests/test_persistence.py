from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dsh_agent import PERSISTENCE, Agent, ToolExecution
from dsh_context import App
from dsh_persistence import MemoryLogStore, SessionLocation, SessionPersistence
from dsh_persistence_jsonl import JsonlLogStore
from dsh_session import SessionHeader
from dsh_tool_bash import BashEnvRegistry, BashEnvVariable, session_persistence

Call = Callable[..., ToolExecution]
MakeAgent = Callable[..., Agent]


class ElsewhereStore(MemoryLogStore):
    """A store whose artifacts are something else than JSONL."""

    def locate(self, header: SessionHeader) -> SessionLocation:
        return SessionLocation(kind="sqlite", path=f"/db/{header.id}")


@pytest.fixture
async def registry(app: App) -> BashEnvRegistry:
    registry = BashEnvRegistry("/h")
    registry.register_built_in(session_persistence(app))
    return registry


def test_declaration(app: App) -> None:
    """§4.4: it is listed by default, in one row."""
    registry = BashEnvRegistry("/h")
    registry.register_built_in(session_persistence(app))
    description = "Absolute target path of the current session JSONL when the active persistence backend provides one."
    assert registry.list() == (
        BashEnvVariable(contributor="session-persistence", description=description, key="DSH_SESSION_JSONL"),
    )


async def test_no_persistence(registry: BashEnvRegistry, call: Call, agent: MakeAgent) -> None:
    """§4.6: without a persistence service there is no path."""
    assert set(registry.collect(call(agent=agent()))) == {"DSH_HOME", "DSH_SESSION_ID", "DSH_SHELL"}


@pytest.mark.parametrize("store", [MemoryLogStore, ElsewhereStore])
async def test_no_jsonl(
    app: App, registry: BashEnvRegistry, call: Call, agent: MakeAgent, store: type[MemoryLogStore]
) -> None:
    """§4.6: a backend without a file, or with a file of another kind, gives no path."""
    async with SessionPersistence(store()) as persistence:
        await app.provide(PERSISTENCE, persistence)
        assert "DSH_SESSION_JSONL" not in registry.collect(call(agent=agent()))


async def test_jsonl(app: App, registry: BashEnvRegistry, call: Call, agent: MakeAgent, tmp_path: Path) -> None:
    """§4.6: a JSONL backend gives the path of the caller's own log, before there is any file; nothing is created."""
    root = tmp_path / "sessions"
    async with SessionPersistence(JsonlLogStore(root)) as persistence:
        await app.provide(PERSISTENCE, persistence)
        parent, child = agent("parent"), agent("child")
        paths = {a.session.id: registry.collect(call(agent=a))["DSH_SESSION_JSONL"] for a in (parent, child)}
        for owner in (parent, child):
            location = persistence.locate(owner.session.header)
            assert location is not None
            assert paths[owner.session.id] == location.path
        assert paths["parent"] != paths["child"]
        assert Path(paths["parent"]).is_absolute()
        assert not root.exists()


async def test_no_agent(app: App, registry: BashEnvRegistry, call: Call, tmp_path: Path) -> None:
    """§4.6: a call outside any agent has no log."""
    async with SessionPersistence(JsonlLogStore(tmp_path)) as persistence:
        await app.provide(PERSISTENCE, persistence)
        assert set(registry.collect(call())) == {"DSH_HOME", "DSH_SHELL"}


async def test_replaced_between_two_calls(
    app: App, registry: BashEnvRegistry, call: Call, agent: MakeAgent, tmp_path: Path
) -> None:
    """§4.6: the backend is asked at each collection: a replaced, withdrawn or new one counts from the next call on."""
    execution = call(agent=agent())
    async with (
        SessionPersistence(JsonlLogStore(tmp_path / "a")) as a,
        SessionPersistence(JsonlLogStore(tmp_path / "b")) as b,
    ):
        provision = await app.provide(PERSISTENCE, a)
        before = registry.collect(execution)
        assert before["DSH_SESSION_JSONL"].startswith(str(tmp_path / "a"))
        await provision.replace(b)
        assert registry.collect(execution)["DSH_SESSION_JSONL"].startswith(str(tmp_path / "b"))
        assert before["DSH_SESSION_JSONL"].startswith(str(tmp_path / "a"))
        await provision.withdraw()
        assert "DSH_SESSION_JSONL" not in registry.collect(execution)
        await app.provide(PERSISTENCE, a)
        assert registry.collect(execution) == before
