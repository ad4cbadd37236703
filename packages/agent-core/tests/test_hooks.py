"""Hooks are one field of the configuration; what they need of the harness is filled in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsh_agent import ScriptedModel, find_project
from dsh_agent_core import HarnessConfig, harness
from dsh_hook_bridges import HOOKS, HookBridgesConfig, HookNotice, TrustStore, load_hooks, trust_path
from dsh_session import SessionMeta


def write_hooks(folder: Path, **events: str) -> None:
    """Write Claude Code's settings with one command, or group, for each event."""
    (folder / ".claude").mkdir(parents=True)
    groups = {event: [{"hooks": [{"command": command, "passEnv": ["PASSED"]}]}] for event, command in events.items()}
    (folder / ".claude" / "settings.json").write_text(json.dumps({"hooks": groups}))


def config(tmp_path: Path, hooks: HookBridgesConfig | None, **more) -> HarnessConfig:
    model = ScriptedModel.from_replies([{"text": "ok"}])
    return HarnessConfig(model=model, route=model.route, dsh_home=str(tmp_path / "home"), hooks=hooks, **more)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    return tmp_path / "project"


async def take_turn(running, project: Path) -> None:
    agent = await running.agents.create(meta=SessionMeta(cwd=str(project)))
    assert "completed" == (await agent.prompt("go")).reason["kind"]


async def test_nobody_s_hooks_by_default(tmp_path, project, monkeypatch):
    """Not those of the user who runs the process, either: who composes a harness says whose."""
    write_hooks(tmp_path / "user", Stop="touch ran")
    monkeypatch.setenv("HOME", str(tmp_path / "user"))

    async with harness(config(tmp_path, None)) as running:
        await take_turn(running, project)
        assert running.context.get(HOOKS) is None

    assert not (project / "ran").exists()


async def test_hooks_have_the_harness_s_home_and_environment(tmp_path, project, monkeypatch):
    """Whatever their own configuration says: what is passed on is out of the environment that shells inherit from."""
    monkeypatch.setenv("PASSED", "of the process")
    write_hooks(tmp_path / "user", Stop="env >env")
    hooks = HookBridgesConfig(user_home=str(tmp_path / "user"), home="/elsewhere", parent_env={"PASSED": "of nobody"})
    parent_env = {"PATH": "/usr/bin:/bin", "PASSED": "of the harness"}

    async with harness(config(tmp_path, hooks, parent_env=parent_env)) as running:
        await take_turn(running, project)

    env = dict(line.split("=", 1) for line in (project / "env").read_text().splitlines())
    assert (str(tmp_path / "home"), "of the harness") == (env["DSH_HOME"], env["PASSED"])


async def test_trust_is_the_home_s(tmp_path, project):
    """A project's hooks run when the file below the harness's home says so."""
    write_hooks(project, Stop="touch ran")
    hooks = HookBridgesConfig()
    notices: list[str] = []

    async def run() -> bool:
        async with harness(config(tmp_path, hooks)) as running:
            running.context.on(HookNotice, lambda notice: notices.append(notice.kind))
            await take_turn(running, project)
        return (project / "ran").exists()

    before = await run()
    store = TrustStore(trust_path(str(tmp_path / "home")))
    found = load_hooks(find_project(str(project)), user_home=None, trust=store)
    store.trust(found.project, found.fingerprint)

    assert (False, True) == (before, await run())
    assert ["untrusted"] == notices


@pytest.mark.parametrize("error", [None, RuntimeError("the caller's")], ids=["left", "raised"])
async def test_leaving_tells_hooks_of_the_end(tmp_path, project, error):
    """Also when the block raises; when the harness has been left, they have ended."""
    write_hooks(tmp_path / "user", SessionEnd="cat >payload")
    settings = tmp_path / "user" / ".claude" / "settings.json"
    settings.write_text(settings.read_text().replace('"passEnv"', '"timeout": 60, "passEnv"'))
    hooks = HookBridgesConfig(user_home=str(tmp_path / "user"))

    async def run() -> None:
        async with harness(config(tmp_path, hooks)) as running:
            await take_turn(running, project)
            if error is not None:
                raise error

    if error is None:
        await run()
    else:
        with pytest.raises(RuntimeError, match="the caller's"):
            await run()

    assert "SessionEnd" == json.loads((project / "payload").read_text())["hook_event_name"]
