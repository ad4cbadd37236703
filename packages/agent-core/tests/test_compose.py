"""One function, one configuration, one harness."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from dsh_agent import PERSISTENCE, TOOLS, ScriptedModel
from dsh_agent_core import HarnessConfig, PersistenceConfig, harness, open_store
from dsh_bash import BASH
from dsh_paths import DshHomeNotDirectory, DshPathsError
from dsh_persistence import StoreUnusable
from dsh_session import EncodedBatch, HeaderInvalid, SessionEvent, SessionHeader, SessionMeta

SHOW = {"command": 'echo "$DSH_HOME|$DSH_SESSION_JSONL"', "description": "Look"}


def config(model: ScriptedModel | None = None, **more) -> HarnessConfig:
    scripted = model or ScriptedModel.from_replies([{"tools": [{"name": "bash", "arguments": SHOW}]}, {"text": "ok"}])
    return HarnessConfig(model=scripted, route=scripted.route, **more)


async def shown(running) -> str:
    agent = await running.agents.create(session_id="s", meta=SessionMeta(cwd="/"))
    await agent.prompt("go")
    (result,) = [event.data["message"] for event in agent.session.events if event.type == "tool/result"]
    return result["content"][0]["text"].strip()


async def test_everything_is_there_and_goes_again(tmp_path):
    """A composed harness has every service; after leaving it nothing is left but the log."""
    async with harness(config(dsh_home=str(tmp_path))) as running:
        offered = "job_output job_list job_kill bash read write edit glob grep skill"
        assert offered.split() == [tool["name"] for tool in running.context.require(TOOLS).definitions()]
        assert running.persistence is running.context.require(PERSISTENCE)
        assert running.context.get(BASH) is not None
        path = await shown(running)

    assert f"{tmp_path}|{tmp_path}/sessions/--root--/s/session.v4.jsonl.zstd" == path
    assert Path(path.split("|")[1]).is_file()
    assert running.context.get(BASH) is None


async def test_the_home_comes_from_the_environment_when_nothing_is_configured(tmp_path, monkeypatch):
    """Resolved once, when composing: a later change reaches nobody."""
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "env"))
    async with harness(config()) as running:
        monkeypatch.setenv("DSH_HOME", "/elsewhere")

        assert (await shown(running)).startswith(f"{tmp_path}/env|{tmp_path}/env/sessions/")


async def test_the_encoding_and_the_root_are_choices(tmp_path):
    """A raw root elsewhere; the child's path says so."""
    chosen = config(dsh_home=str(tmp_path), sessions_root=str(tmp_path / "logs"), encoding="raw")
    async with harness(chosen) as running:
        assert f"{tmp_path}|{tmp_path}/logs/--root--/s/session.v4.jsonl" == await shown(running)


async def test_a_database_is_a_root_too(tmp_path):
    """By its URL, and once it is there by its file; the child has no path, and the same session goes on."""
    url = f"sqlite:///{tmp_path}/sessions.db"
    async with harness(config(dsh_home=str(tmp_path), sessions_root=url)) as running:
        assert str(tmp_path) + "|" == await shown(running)
    again = config(dsh_home=str(tmp_path), sessions_root=str(tmp_path / "sessions.db"))
    async with harness(again) as running:
        agent = await running.agents.resume("s")

        assert ["user/message"] == [event.type for event in agent.session.events if event.type == "user/message"]
    assert not (tmp_path / "sessions").exists()


async def test_a_damaged_session_keeps_nobody_from_the_others(tmp_path):
    """A row that is missing from the database is told of when it is asked for; new sessions are written."""
    url = f"sqlite:///{tmp_path}/sessions.db"
    store = open_store(url)
    for session_id in ("kept", "lost"):
        with store.create(SessionHeader(id=session_id, created_at=1)) as writer:
            event = SessionEvent(type="plugin:acme/note", seq=0, time=1, encoded=b"1", ignorable=True)
            writer.append(EncodedBatch(first_seq=0, events=(event,)))
    store.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "sessions.db")) as database, database:
        database.execute("DELETE FROM sessions WHERE session_id = ?", (b"lost",))

    async with harness(config(dsh_home=str(tmp_path), sessions_root=url)) as running:
        assert str(tmp_path) + "|" == await shown(running)


def test_a_password_is_in_no_repr():
    """A root may hold one."""
    assert "secret" not in repr(config(sessions_root="postgresql://me:secret@host/sessions"))
    assert "secret" not in repr(PersistenceConfig(root="postgresql://me:secret@host/sessions"))


@pytest.mark.parametrize("home", ["", "   "])
async def test_an_empty_home_is_an_error(home):
    """§11.4 Q6: an explicit empty home never becomes the working directory."""
    with pytest.raises(DshPathsError):
        async with harness(config(dsh_home=home)):
            pass


async def test_a_home_that_is_a_file_is_refused(tmp_path):
    """Nothing is made, and the error names the file."""
    (tmp_path / "home").write_text("")

    with pytest.raises(DshHomeNotDirectory, match="home"):
        async with harness(config(dsh_home=str(tmp_path / "home"))):
            pass
    for root in (str(tmp_path / "home"), f"sqlite:///{tmp_path}/home"):
        with pytest.raises(StoreUnusable, match="home"):
            async with harness(config(dsh_home=str(tmp_path), sessions_root=root)):
                pass
    assert [tmp_path / "home"] == list(tmp_path.iterdir())
    assert "" == (tmp_path / "home").read_text()


async def test_a_root_that_cannot_be_written_loses_nothing(tmp_path):
    """The turn runs, the failure is reported live, leaving the harness says that events are unwritten."""
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "--root--").write_text("in the way")

    with pytest.raises(ExceptionGroup) as unwritten:
        async with harness(config(dsh_home=str(tmp_path), checkpoints="turn")) as running:
            await shown(running)
            queued = running.persistence.health("s").queued
            cause = running.persistence.health("s").last_error

    assert queued > 0
    assert isinstance(cause, StoreUnusable)
    assert unwritten.group_contains(Exception, match=f"{queued} event")
    assert "in the way" == (tmp_path / "sessions" / "--root--").read_text()


async def test_nothing_goes_on_that_could_be_lost(tmp_path):
    """By default: where the log cannot be written, no model is asked and no tool runs."""
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "--root--").write_text("in the way")
    with pytest.raises(ExceptionGroup):
        async with harness(config(dsh_home=str(tmp_path))) as running:
            agent = await running.agents.create(session_id="s", meta=SessionMeta(cwd="/"))
            turn = await agent.prompt("go")
            types = [event.type for event in agent.session.events]

    assert "error" == turn.reason["kind"]
    assert not {"assistant/message", "assistant/attempt", "tool/call"} & set(types)


async def test_files_are_those_of_the_sessions_directory(tmp_path):
    """What the file tools write, the shell sees, and the other way round."""
    look = {"command": "cat a.txt && echo more > b.txt", "description": "Look"}
    calls = [
        {"name": "write", "arguments": {"file_path": "a.txt", "content": "text"}},
        {"name": "bash", "arguments": look},
        {"name": "read", "arguments": {"file_path": "b.txt"}},
    ]
    model = ScriptedModel.from_replies([*({"tools": [call]} for call in calls), {"text": "ok"}])
    async with harness(config(model, dsh_home=str(tmp_path / "home"))) as running:
        (tmp_path / "project").mkdir()
        agent = await running.agents.create(meta=SessionMeta(cwd=str(tmp_path / "project")))
        await agent.prompt("go")
        results = [event.data["message"] for event in agent.session.events if event.type == "tool/result"]

    assert [False, False, False] == [message["isError"] for message in results]
    assert ["text", "more"] == [results[1]["content"][0]["text"], (tmp_path / "project" / "b.txt").read_text().strip()]
    assert "more" in results[2]["content"][0]["text"]


async def test_a_relative_directory_is_refused(tmp_path):
    """A session's directory is absolute or absent."""
    async with harness(config(dsh_home=str(tmp_path))) as running:
        with pytest.raises(HeaderInvalid, match="relative"):
            await running.agents.create(meta=SessionMeta(cwd="project"))
