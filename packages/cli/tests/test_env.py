"""``dshpy env``: the managed surface, and the values that a child of a session gets."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dsh_agent import ScriptedModel
from dsh_agent_core import HarnessConfig, harness
from dsh_cli import main
from dsh_persistence_jsonl import Encoding, JsonlLogStore
from dsh_session import SessionMeta

ASK = {"tools": [{"name": "bash", "arguments": {"command": "env | grep ^DSH_", "description": "Who am I"}}]}


def env(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["env", *map(str, arguments)], catch_exceptions=False)


def env_json(*arguments: object) -> Any:
    done = env(*arguments, "--json")
    assert 0 == done.exit_code, done.stderr
    return json.loads(done.stdout)


def values(report: Any) -> dict[str, str]:
    return {row["key"]: row["value"] for row in report["managed"] if row["value"] is not None}


def everything_below(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in [folder, *folder.rglob("*")]
    }


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A harness home that nobody has used yet, in an environment without anything of harnesses around the tests."""
    for name in [name for name in os.environ if name.startswith("DSH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def delegated(home: Path):
    """Run a chain of three agents in a real harness and return what a shell of each saw, by session."""

    async def run(root: str | None, encoding: Encoding | None) -> dict[str, dict[str, str]]:
        model = ScriptedModel.from_replies([ASK, {"text": "done"}] * 3)
        config = HarnessConfig(
            model=model, route=model.route, dsh_home=str(home), sessions_root=root, encoding=encoding
        )
        seen: dict[str, dict[str, str]] = {}
        async with harness(config) as running:
            parent: str | None = None
            for depth, name in enumerate(("top", "middle", "bottom")):
                origin = "subagent" if depth else None
                meta = SessionMeta(cwd=str(home.parent), parent_session=parent, origin=origin, delegation_depth=depth)
                agent = await running.agents.create(meta=meta, session_id=f"session-{name}")
                await agent.prompt("Who are you?")
                stored = await running.persistence.inspect(agent.session.id)
                (result,) = [event.data["message"] for event in stored.events if event.type == "tool/result"]
                lines = result["content"][0]["text"].splitlines()
                seen[agent.session.id] = dict(line.split("=", 1) for line in lines if line.startswith("DSH_"))
                parent = agent.session.id
        return seen

    return lambda root=None, encoding=None: asyncio.run(run(root, encoding))


def test_the_surface_without_a_session() -> None:
    """Every variable that the harness declares, with who gives it and what it means, sorted."""
    report = env_json()
    printed = env().stdout

    contributors = {row["key"]: row["contributor"] for row in report["managed"]}
    assert {
        "DSH_HOME": "registry",
        "DSH_PARENT_SESSION_ID": "registry",
        "DSH_ROOT_SESSION_ID": "registry",
        "DSH_SESSION_ID": "registry",
        "DSH_SESSION_JSONL": "session-persistence",
        "DSH_SHELL": "registry",
    } == contributors
    assert sorted(contributors) == list(contributors)
    assert [{"key", "contributor", "description"}] * len(contributors) == [set(row) for row in report["managed"]]
    assert [] == [row["key"] for row in report["managed"] if f"  {row['description']}" not in printed]


@pytest.mark.parametrize(
    ("root", "encoding"), [(None, None), ("{tmp}/raw", "raw"), ("sqlite:///{tmp}/sessions.db", None)]
)
def test_the_values_are_those_of_a_real_child(delegated, tmp_path: Path, root: str | None, encoding: Encoding) -> None:
    """For each session of a chain of delegations: name by name what its own shell printed, on every backend."""
    place = [] if root is None else [root.format(tmp=tmp_path)]
    seen = delegated(*place, encoding=encoding)

    reports = {one: env_json("--session", one, *(["--root", *place] if place else [])) for one in seen}

    assert seen == {session_id: values(report) for session_id, report in reports.items()}
    assert list(seen) == [report["session"] for report in reports.values()]
    bottom, top = seen["session-bottom"], seen["session-top"]
    assert ("session-middle", "session-top") == (bottom["DSH_PARENT_SESSION_ID"], bottom["DSH_ROOT_SESSION_ID"])
    assert ("DSH_SESSION_JSONL" in top) == (root is None or "sqlite" not in root)
    assert {"DSH_PARENT_SESSION_ID", "DSH_ROOT_SESSION_ID"} <= {
        row["key"] for row in reports["session-top"]["managed"] if row["value"] is None
    }


def test_a_session_named_by_its_path(delegated, tmp_path: Path) -> None:
    """The folder that its log lies in is the root, whatever the home is; for people, with what is absent."""
    seen = delegated(str(tmp_path / "elsewhere"))["session-middle"]

    report = env_json("--session", seen["DSH_SESSION_JSONL"])
    printed = env("--session", Path(seen["DSH_SESSION_JSONL"]).parent).stdout
    top = env("--session", "top", "--root", tmp_path / "elsewhere").stdout

    assert seen == values(report)
    assert "What a shell of session-middle is told" in printed
    assert all(value in printed for value in seen.values())
    rows = dict(line.split()[:2] for line in top.splitlines() if line.startswith("DSH_"))
    assert ("(absent)", "(absent)") == (rows["DSH_PARENT_SESSION_ID"], rows["DSH_ROOT_SESSION_ID"])


def test_nothing_is_claimed_changed_or_made(home: Path, root: Path, store_session) -> None:
    """Not of an interrupted session without a mark, not of one that somebody has claimed, and not of a home."""
    store_session("session-open", interrupted=True)
    log = store_session("session-busy", marked=True)
    store = JsonlLogStore(root)
    with store.open("session-busy"):
        before = everything_below(root)
        reports = [env_json("--session", one, "--root", root) for one in ("session-open", "session-busy")]
        env_json()
        assert before == everything_below(root)

    assert ["session-open", "session-busy"] == [values(report)["DSH_SESSION_ID"] for report in reports]
    assert str(log) == values(reports[1])["DSH_SESSION_JSONL"]
    assert [False, str(home)] == [home.exists(), values(reports[0])["DSH_HOME"]]


def test_a_fork_was_delegated_by_nobody(root: Path, store_session) -> None:
    """It has a parent, and its shells hear of none."""
    store_session("session-fork", parent_session="session-other")

    report = env_json("--session", "fork", "--root", root)

    assert {"DSH_HOME", "DSH_SESSION_ID", "DSH_SESSION_JSONL", "DSH_SHELL"} == set(values(report))


def test_what_is_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and rules, sorted, as the policy of shells has it; never a value."""
    given = {
        "CLAUDECODE": "hidden-1",
        "DSH_SESSION_ID": "hidden-2",
        "GITHUB_TOKEN": "hidden-3",
        "MY_PROXY": "http://hidden-4:hidden-5@proxy",
        "SSH_AUTH_SOCK": "hidden-6",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)

    dropped = {row["name"]: row["rule"] for row in env_json()["dropped"]}
    printed, as_json = env().stdout, env("--json").stdout

    assert sorted(dropped) == list(dropped)
    expected = {
        "CLAUDECODE": "other harness",
        "DSH_SESSION_ID": "managed name",
        "GITHUB_TOKEN": "credential word",
        "MY_PROXY": "userinfo removed",
    }
    assert expected == {name: dropped[name] for name in dropped if name in given}
    assert set(expected.items()) <= {tuple(line.split(maxsplit=1)) for line in map(str.strip, printed.splitlines())}
    assert "hidden" not in printed + as_json


def test_there_may_be_nothing_to_leave_out(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Then it says so."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))

    assert [] == env_json()["dropped"]
    assert "it inherits everything that is here" in env().stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--session", "nobody"], 3, "session 'nobody' was not found in"),
        (["--session", ""], 2, "SEL is empty"),
        (["--root", "{tmp}"], 2, "--root goes with --session"),
        (["--session", "x", "--root", "{tmp}/absent"], 4, "does not exist"),
        (["--session", "{tmp}/session.v4.jsonl", "--root", "{tmp}"], 2, "leave one of them out"),
        (["--session", "torn", "--root", "{tmp}/sessions"], 1, "session.v4.jsonl"),
    ],
)
def test_bad_input_is_one_plain_message(tmp_path: Path, store_session, arguments, code, message) -> None:
    """Each kind of mistake has its exit code; nothing is printed for a session that no harness would resume."""
    (tmp_path / "session.v4.jsonl").touch()
    store_session("session-torn").write_bytes(b"{}\n")

    done = env(*(argument.format(tmp=tmp_path) for argument in arguments))

    assert (code, "") == (done.exit_code, done.stdout)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_home_that_is_none_is_refused(home: Path) -> None:
    """The harness that would be asked cannot be made."""
    home.touch()

    done = env()

    assert (2, "") == (done.exit_code, done.stdout)
    assert "is a file" in done.stderr
