"""One home for everything, and no harness with two."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsh_agent import AGENTS, TOOLS, ScriptedModel
from dsh_agent_core import AgentCoreError, HarnessConfig, HomesDiffer, SkillsConfig, harness
from dsh_paths import DshHomeInvalid
from dsh_session import SessionMeta
from dsh_skills_local import SKILLS, SkillsLocalConfig, catalog_text

SHOW = {"command": 'echo "$DSH_HOME"', "description": "Look"}
LOOK = {"tools": [{"name": "bash", "arguments": SHOW}, {"name": "skill", "arguments": {"name": "one"}}]}


def config(dsh_home: str | None = None, skills_home: str | None = None, **more) -> HarnessConfig:
    model = ScriptedModel.from_replies([LOOK, {"text": "ok"}])
    skills = SkillsConfig(local=SkillsLocalConfig(dsh_home=skills_home))
    return HarnessConfig(model=model, route=model.route, dsh_home=dsh_home, **{"skills": skills, **more})


def add_skill(root: Path, text: str) -> None:
    (root / "one").mkdir(parents=True)
    (root / "one" / "SKILL.md").write_text(f"---\nname: one\ndescription: One.\n---\n{text}\n")


async def results(running, cwd: str = "/") -> list[str]:
    """What the shell and the skill tool answered, in the order of the calls."""
    agent = await running.agents.create(meta=SessionMeta(cwd=cwd))
    await agent.prompt("go")
    messages = [event.data["message"] for event in agent.session.events if event.type == "tool/result"]
    return ["".join(block["text"] for block in message["content"]) for message in messages]


@pytest.mark.parametrize(
    ("top", "nested", "expected"),
    [
        (None, None, "user/env"),
        ("{0}/x", None, "x"),
        (None, "{0}/y", "y"),
        ("~/z", "{0}/user/z", "user/z"),
        ("{0}/a/../b/", "{0}//b", "b"),
    ],
)
async def test_one_home_goes_to_everything(tmp_path, monkeypatch, top, nested, expected):
    """§1.4 1.20 to 1.23: the shell, the skills and the logs have the home that either place names, else the default."""
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("DSH_HOME", "~/env")
    home = tmp_path / expected
    add_skill(home / "skills", "Found.")
    async with harness(config(top and top.format(tmp_path), nested and nested.format(tmp_path))) as running:
        monkeypatch.setenv("DSH_HOME", "/elsewhere")
        shell, skill = await results(running)
        assert str(home) == running.home == running.context.require(SKILLS).home

    assert f"{home}\n" == shell
    assert "<skill_instructions>\nFound.\n</skill_instructions>" in skill
    assert (home / "sessions").is_dir()


async def test_two_homes_are_refused(tmp_path):
    """§1.4 1.24: both are named, and nothing has been mounted or made. Two names of one place, by a link, are two."""
    (tmp_path / "link").symlink_to(tmp_path / "x")
    for other in ("y", "link"):
        with pytest.raises(HomesDiffer) as refused:
            async with harness(config(str(tmp_path / "x"), str(tmp_path / other))):
                pytest.fail("a harness with two homes ran")
        homes = (str(tmp_path / "x"), str(tmp_path / other))
        assert homes == (refused.value.dsh_home, refused.value.skills_dsh_home)
        assert isinstance(refused.value, AgentCoreError)
        assert (
            "agent-core: dsh_home and skills.local.dsh_home must resolve to the same directory, and they are "
            f"{homes[0]} and {homes[1]}; leave one of them out"
        ) == str(refused.value)
    assert ["link"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize("top", [None, "/x"])
async def test_a_blank_home_of_the_skills_is_refused(top):
    """It never means the working directory, whatever else is configured."""
    with pytest.raises(DshHomeInvalid):
        async with harness(config(top, " ")):
            pytest.fail("a harness without a home ran")


async def test_a_projects_skill_is_told_and_loaded(tmp_path):
    """The project's wins over the home's, and the model knew of it in its first request."""
    add_skill(tmp_path / "home" / "skills", "Of the home.")
    add_skill(tmp_path / "project" / ".dsh" / "skills", "Of the project.")
    async with harness(config(str(tmp_path / "home"))) as running:
        _, skill = await results(running, str(tmp_path / "project"))
        (agent,) = running.context.require(AGENTS)
        said = [message for message in agent.session.messages() if _is_list(message)]

    assert "Of the project." in skill
    assert [catalog_text([{"name": "one", "description": "One."}])] == [text["content"][0]["text"] for text in said]


async def test_a_resumed_session_is_not_told_again(tmp_path):
    """The list stays in its conversation; only a change is news."""
    add_skill(tmp_path / "skills", "Found.")
    async with harness(config(str(tmp_path))) as running:
        agent = await running.agents.create(session_id="s")
        await agent.prompt("go")
    for count in (1, 2):
        async with harness(config(str(tmp_path))) as running:
            agent = await running.agents.resume("s")
            await agent.prompt("go")
            assert count == len([message for message in agent.session.messages() if _is_list(message)])
        text = (tmp_path / "skills" / "one" / "SKILL.md").read_text().replace("One.", "Other.")
        (tmp_path / "skills" / "one" / "SKILL.md").write_text(text)


async def test_skills_can_be_left_out(tmp_path):
    """No tool, no service, and the home is the harness's own matter."""
    async with harness(config(str(tmp_path), skills=None)) as running:
        assert (None, None) == (running.context.get(SKILLS), running.context.require(TOOLS).get("skill"))


def _is_list(message) -> bool:
    return message["source"]["kind"] == "plugin:skills-local"
