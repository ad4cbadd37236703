"""The keyless full loop: a scripted model, the real loop, log and shell, and a child that says who it is."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from services.testing import fresh_schema, postgres_server
from support import bash, decode_log, results

from dsh_agent import SESSIONS, ToolExecution
from dsh_agent_core import open_store
from dsh_persistence import MemoryLogStore, SessionPersistence
from dsh_persistence_jsonl import JsonlLogStore
from dsh_session import SessionHeader, SessionMeta

POISON = {
    "DSH_SESSION_ID": "outer",
    "DSH_SESSION_JSONL": "/nowhere",
    "DSH_STALE_SENTINEL": "stale",
    "DEEPSEEK_API_KEY": "fake",
}
SHOW = 'for n in DSH_HOME DSH_SHELL DSH_SESSION_ID DSH_SESSION_JSONL DSH_STALE_SENTINEL DEEPSEEK_API_KEY; do \
if [ -n "${!n+set}" ]; then echo "$n=${!n}"; else echo "$n absent"; fi; done'
SAY_ID = 'sleep 0.05; echo "$DSH_SESSION_ID"'


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    for name, value in POISON.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=["jsonl", "sqlite", "postgres"])
def root(request, tmp_path) -> str:
    """Return the text that names a place of sessions; its databases have no file for a session of its own."""
    match request.param:
        case "jsonl":
            return str(tmp_path / "home" / "sessions")
        case "sqlite":
            return f"sqlite:///{tmp_path}/sessions.db"
        case _:
            return fresh_schema(postgres_server())


@pytest.fixture
def open_backend(open_loop, root):
    """Return ``open_backend(replies)``: the loop over a store of its own at ``root``."""
    return lambda replies: open_loop(replies, store=open_store(root))


def path_of(loop, session) -> str | None:
    """Return the path that a child of the session is due."""
    location = loop.persistence.locate(session.header)
    return None if location is None else location.path


def run_dshpy(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dsh_cli", *arguments]
    environment = {**os.environ, **POISON}
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, env=environment)


def test_a_poisoned_process_gives_its_child_the_truth(tmp_path, root):
    """The child's facts are those of its own session, ambient ones are absent, the log appears with the flush."""
    done = run_dshpy("loop", "--json", "--home", str(tmp_path / "home"), "--root", root)

    assert (0, "") == (done.returncode, done.stderr)
    report = json.loads(done.stdout)
    assert str(tmp_path / "home") == report["home"]
    assert "1" == report["shell"]
    assert report["session_id"] == report["header_id"] != "outer"
    if "://" in root:
        assert (None, None) == (report["session_jsonl"], report["existed_before_flush"])
    else:
        header, *events = decode_log(Path(report["session_jsonl"]))
        assert Path(report["session_jsonl"]).is_relative_to(tmp_path / "home" / "sessions")
        assert report["existed_before_flush"] is False
        assert report["session_id"] == header["id"]
        assert [event["type"] for event in events] == [event["type"] for event in report["events"]]
    assert [] == report["leaked"]
    assert set(POISON) <= set(report["scrubbed"])
    assert "fake" not in done.stdout
    assert "stale" not in done.stdout

    shown = json.loads(run_dshpy("show", "--json", report["session_id"], "--root", root).stdout)
    assert report["events"] == shown["events"]
    assert report["session_id"] == shown["header"]["id"]


async def test_absent_means_absent(open_backend, root):
    """The sentinel and the key are not empty in the child: they are not there, nor is a path where no file is."""
    async with open_backend([bash(SHOW), {"text": "ok"}]) as loop:
        agent = await loop.agents.create(meta=SessionMeta(cwd="/"))
        path = path_of(loop, agent.session)
        assert ("://" in root) == (path is None)

        await agent.prompt("go")

        expected = [
            f"DSH_HOME={loop.home}",
            "DSH_SHELL=1",
            f"DSH_SESSION_ID={agent.session.id}",
            "DSH_SESSION_JSONL absent" if path is None else f"DSH_SESSION_JSONL={path}",
            "DSH_STALE_SENTINEL absent",
            "DEEPSEEK_API_KEY absent",
        ]
        assert expected == results(agent.session)[0].splitlines()


async def test_the_log_is_absent_before_the_first_flush_and_whole_after_it(open_loop):
    """Seed 001: a target path before anything is stored, the persisted header later."""
    look = 'test -e "$DSH_SESSION_JSONL" && echo there || echo absent'
    async with open_loop([bash(look), {"text": "a"}, bash(look), {"text": "b"}]) as loop:
        agent = await loop.agents.create(meta=SessionMeta(cwd="/"))

        await agent.prompt("first turn")
        await agent.prompt("second turn")

        assert ["absent\n", "there\n"] == results(agent.session)
        header = decode_log(Path(loop.persistence.locate(agent.session.header).path))[0]
        assert agent.session.id == header["id"]


def tree_of(folder: Path) -> list[tuple[str, int, int]]:
    return sorted((str(path), path.lstat().st_mtime_ns, path.lstat().st_mode) for path in folder.rglob("*"))


def test_locate_alone_leaves_the_tree_unchanged(tmp_path):
    """The location query is pure: nothing is made, read or touched, also for an absent root."""
    (tmp_path / "other").mkdir()
    before = tree_of(tmp_path)
    persistence_root = tmp_path / "home" / "sessions"

    location = JsonlLogStore(persistence_root).locate(SessionHeader.new(cwd="/srv/x", session_id="s"))

    assert str(persistence_root / "--srv-x--" / "s" / "session.v4.jsonl.zstd") == location.path
    assert before == tree_of(tmp_path)


async def test_two_agents_never_mix(open_backend):
    """F02: 50 overlapping commands each; every one has its own session's id, and os.environ stays as it was."""
    before = dict(os.environ)
    async with open_backend([]) as loop:
        first = await loop.agents.create(meta=SessionMeta(cwd="/"))
        second = await loop.agents.create(meta=SessionMeta(cwd="/"))
        tool = loop.tools.get("bash")

        async def ask(agent) -> str:
            arguments = {"command": SAY_ID, "description": "Say the id"}
            execution = ToolExecution(call_id="c", name="bash", arguments=arguments, agent=agent)
            return (await tool.execute(execution)).text.strip()

        answers = await asyncio.gather(*(ask(agent) for agent in [first, second] * 50))

        assert [first.session.id, second.session.id] * 50 == answers
        assert before == dict(os.environ)


async def test_parent_and_child_session(open_backend):
    """6.52: each gets its own id and its own log."""
    show = 'echo "$DSH_SESSION_ID ${DSH_SESSION_JSONL-None}"'
    async with open_backend([bash(show), {"text": "p"}, bash(show), {"text": "c"}]) as loop:
        parent = await loop.agents.create(meta=SessionMeta(cwd="/"))
        child_meta = SessionMeta(cwd="/", parent_session=parent.session.id, origin="subagent", delegation_depth=1)
        child = await loop.agents.create(meta=child_meta)

        await parent.prompt("p")
        await child.prompt("c")

        for agent in (parent, child):
            assert [f"{agent.session.id} {path_of(loop, agent.session)}\n"] == results(agent.session)
            stored = await loop.persistence.inspect(agent.session.id)
            assert list(agent.session.events) == list(stored.events)
        assert (parent.session.id, "subagent", 1) == (
            stored.header.parent_session,
            stored.header.origin,
            stored.header.delegation_depth,
        )
        if path_of(loop, child.session) is not None:
            header = decode_log(Path(path_of(loop, child.session)))[0]
            assert (parent.session.id, "subagent", 1) == (
                header["parentSession"],
                header["origin"],
                header["delegationDepth"],
            )


async def test_a_call_without_an_agent(open_backend):
    """§4.5: home and shell, and nothing of any session."""
    async with open_backend([]) as loop:
        arguments = {"command": SHOW, "description": "Look"}
        execution = ToolExecution(call_id="c", name="bash", arguments=arguments)

        text = (await loop.tools.get("bash").execute(execution)).text

        expected = [f"DSH_HOME={loop.home}", "DSH_SHELL=1", "DSH_SESSION_ID absent", "DSH_SESSION_JSONL absent"]
        assert expected == text.splitlines()[:4]


@pytest.mark.parametrize("store", [False, MemoryLogStore()], ids=["no persistence", "locate is None"])
async def test_without_a_file_there_is_no_path(open_loop, store):
    """A backend without a file of the session's own, or none at all: the name is absent, the id is not."""
    async with open_loop([bash(SHOW), {"text": "ok"}], store=store) as loop:
        agent = await loop.agents.create(meta=SessionMeta(cwd="/"))

        result = await agent.prompt("go")

        lines = results(agent.session)[0].splitlines()
        assert "completed" == result.reason["kind"]
        assert [f"DSH_SESSION_ID={agent.session.id}", "DSH_SESSION_JSONL absent"] == lines[2:4]


async def test_a_replaced_persistence_counts_from_the_next_call(open_backend, tmp_path):
    """Asked at the moment of use, never cached."""
    path = 'echo "${DSH_SESSION_JSONL-None}"'
    async with open_backend([bash(path), {"text": "a"}, bash(path), {"text": "b"}]) as loop:
        agent = await loop.agents.create(session_id="s", meta=SessionMeta(cwd="/"))
        before = path_of(loop, agent.session)
        await agent.prompt("before")
        other = SessionPersistence(JsonlLogStore(tmp_path / "other"))
        loop.app.effect(other.close)

        await loop.provision.replace(other)
        await agent.prompt("after")

        first, second = results(agent.session)
        assert f"{before}\n" == first
        assert f"{tmp_path}/other/--root--/s/session.v4.jsonl.zstd\n" == second


async def test_env_and_stdin_of_the_model_are_ignored(open_backend):
    """§5.1: the request is built from the named arguments alone."""
    command = 'echo "${SPOOF-none} $DSH_SESSION_ID"; cat'
    spoof = {"env": {"SPOOF": "yes", "DSH_SESSION_ID": "spoof"}, "stdin": "injected\n"}
    async with open_backend([bash(command, **spoof), {"text": "ok"}]) as loop:
        agent = await loop.agents.create(meta=SessionMeta(cwd="/"))

        await agent.prompt("go")

        assert [f"none {agent.session.id}\n"] == results(agent.session)


async def test_a_background_call_keeps_its_snapshot(open_backend, tmp_path):
    """The environment is collected once, before the start; what changes afterwards does not reach the child."""
    command = 'while [ ! -e "$PWD/go" ]; do sleep 0.02; done; echo "$DSH_SESSION_ID ${DSH_SESSION_JSONL-None}"'
    wait = {"tools": [{"name": "job_output", "arguments": {"job_id": "bash-1", "wait": True}}]}
    replies = [bash(command, run_in_background=True), {"text": "a"}, wait, {"text": "b"}]
    async with open_backend(replies) as loop:
        agent = await loop.agents.create(session_id="s", meta=SessionMeta(cwd=str(tmp_path)))
        located = path_of(loop, agent.session)
        await agent.prompt("start it")
        other = SessionPersistence(JsonlLogStore(tmp_path / "other"))
        loop.app.effect(other.close)
        await loop.provision.replace(other)
        (tmp_path / "go").touch()

        await agent.prompt("read it")

        started, read = results(agent.session)
        assert "started background job bash-1" == started
        assert f"s {located}\n[status: completed, exit code: 0]" == read


async def test_what_the_model_is_told(open_backend):
    """The recorded header holds the one generic sentence; no key is named, no prompt section and no type is added."""
    async with open_backend([bash("true"), {"text": "ok"}]) as loop:
        agent = await loop.agents.create(meta=SessionMeta(cwd="/"))

        await agent.prompt("go")

        events = {event.type: event.data for event in agent.session.events}
        header = json.dumps(events["request/header"])
        assert "$DSH_*" in header
        for name in ("DSH_HOME", "DSH_SHELL", "DSH_SESSION_ID", "DSH_SESSION_JSONL"):
            assert name not in header
        assert "$DSH_" not in json.dumps(events["system/message"])
        assert {
            "agent/inbox/spliced",
            "turn/start",
            "step/start",
            "system/message",
            "user/message",
            "request/header",
            "request/context",
            "assistant/message",
            "tool/call",
            "tool/result",
            "step/end",
            "turn/end",
        } == set(events)


async def test_a_resumed_session_keeps_its_name(open_backend, root):
    """Resume: the same id and path, and the child of the new process sees the log that exists, where it is a file."""
    show = 'echo "$DSH_SESSION_ID"; test -e "$DSH_SESSION_JSONL" && echo there || echo none'
    async with open_backend([{"text": "ok"}]) as loop:
        agent = await loop.agents.create(meta=SessionMeta(cwd="/"))
        await agent.prompt("first")
    async with open_backend([bash(show), {"text": "ok"}]) as loop:
        resumed = await loop.agents.resume(agent.session.id)

        await resumed.prompt("second")

        assert [f"{agent.session.id}\n{'none' if '://' in root else 'there'}\n"] == results(resumed.session)
        assert loop.app.require(SESSIONS).get(agent.session.id) is resumed.session
        assert list(agent.session.events) == list(resumed.session.events[: agent.session.next_seq])
