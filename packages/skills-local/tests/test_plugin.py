"""The plugin in a loop: what models are told, when, and how it goes away."""

from __future__ import annotations

import logging
import re
import shutil

import pytest

from dsh_agent import AGENTS, MODEL, SESSIONS, TOOLS, AgentsConfig, ScriptedModel, Tools, agents
from dsh_context import App
from dsh_paths import DshHomeInvalid
from dsh_session import SessionMeta, Sessions
from dsh_skills_local import SKILLS, SkillsLocalConfig, catalog_text, skills_local


def lists(agent) -> list[list[str]]:
    """The names in each list that an agent's log holds."""
    said = [event.data for event in agent.session.events if event.type == "user/message"]
    texts = [message["content"][0]["text"] for message in said if message["source"]["kind"] == "plugin:skills-local"]
    return [re.findall("^- `(.*?)`", text, re.MULTILINE) for text in texts]


async def test_the_model_knows_before_it_is_asked(rig, place, write):
    """The list enters the first turn with the prompt, the skill is loaded by its name, and its text comes back."""
    write(place.project / ".dsh" / "skills", "pdf", text="Read it twice.")
    loading = {"tools": [{"name": "skill", "arguments": {"name": "pdf"}}]}
    async with rig([loading, {"text": "Done."}]) as running:
        agent = await running.agents.create(meta=SessionMeta(cwd=place.cwd))
        assert [] == list(agent.session.events)
        assert "Done." == (await agent.prompt("go")).text

    first, second = running.model.requests
    assert ["go", catalog_text([{"name": "pdf", "description": "For pdf."}])] == [
        message["content"][0]["text"] for message in first.messages
    ]
    assert "skill" in [tool["name"] for tool in first.tools]
    assert "<skill_instructions>\nRead it twice.\n</skill_instructions>" in second.messages[-1]["content"][0]["text"]
    assert [["pdf"]] == lists(agent)


async def test_without_skills_nothing_is_said(rig, place):
    """The tool is there all the same: skills may come."""
    async with rig([{"text": "ok"}]) as running:
        agent = await running.agents.create(meta=SessionMeta(cwd=place.cwd))
        await agent.prompt("go")

    assert [] == lists(agent)
    assert "skill" in [tool["name"] for tool in running.model.requests[0].tools]


async def test_what_changes_is_told_once(rig, place, write):
    """A new skill, a new description and the last one's end replace the list; a new text alone does not."""
    root = place.home / "skills"
    async with rig([{"text": "ok"}] * 7) as running:
        agent = await running.agents.create()
        told = []

        async def turn():
            before = len(lists(agent))
            await agent.prompt("go")
            told.append(lists(agent)[before:])

        await turn()
        write(root, "one")
        await turn()
        write(root, "one", text="Do it otherwise.")
        await turn()
        write(root, "two")
        await turn()
        write(root, "two", description="Otherwise.")
        await turn()
        shutil.rmtree(root)
        await turn()
        await turn()

    assert [[], [["one"]], [], [["one", "two"]], [["one", "two"]], [[]], []] == told


async def test_a_list_that_dsh_wrote_counts(rig, place, write):
    """In a session that it began, as long as the skills are those."""
    entries = [{"name": "one", "description": "For one."}]
    async with rig([{"text": "ok"}] * 3) as running:
        agent = await running.agents.create()
        agent.inject("Its words.", {"kind": "skill-catalog", "form": "catalog", "entries": entries})
        await agent.prompt("go")
        write(place.home / "skills", "one")
        await agent.prompt("go")
        assert [] == lists(agent)
        write(place.home / "skills", "two")
        await agent.prompt("go")

    assert [["one", "two"]] == lists(agent)


async def test_a_broken_skill_is_logged_once(rig, place, write, caplog):
    """With its path and its reason."""
    made = write(place.home / "skills", "one")
    (made / "SKILL.md").write_text("nothing")
    caplog.set_level(logging.WARNING, logger="dsh_skills_local")
    async with rig([{"text": "ok"}] * 2) as running:
        agent = await running.agents.create(session_id="s")
        await agent.prompt("go")
        await agent.prompt("go")

    reason = "does not begin with frontmatter; put a line '---' first"
    assert [f"session s: a skill is left out: {made}/SKILL.md {reason}"] == [
        record.getMessage() for record in caplog.records
    ]


async def test_agents_that_exist_are_told(place, write):
    """Mounted late, it serves those as well."""
    write(place.home / "skills", "one")
    model = ScriptedModel.from_replies([{"text": "ok"}])
    async with App() as app:
        await app.provide(SESSIONS, Sessions())
        await app.provide(TOOLS, Tools())
        await app.provide(MODEL, model)
        await app.plugin(agents, AgentsConfig(route=model.route))
        agent = await app.require(AGENTS).create()
        await app.plugin(skills_local, SkillsLocalConfig(dsh_home=str(place.home)))
        await agent.prompt("go")

    assert [["one"]] == lists(agent)


async def test_the_plugin_goes_with_all_it_did(rig, place, write):
    """Stopped, it leaves no tool and no service behind, and tells nobody."""
    write(place.home / "skills", "one")
    async with rig([{"text": "ok"}]) as running:
        agent = await running.agents.create()
        await running.fiber.stop()
        assert (None, None) == (running.app.get(SKILLS), running.app.require(TOOLS).get("skill"))
        await agent.prompt("go")

    assert [] == lists(agent)


async def test_alone_it_asks_the_same_resolver(place, write, monkeypatch):
    """Without a configuration ``$DSH_HOME`` counts, once; a blank one that is configured is refused."""
    monkeypatch.setenv("DSH_HOME", str(place.home))
    write(place.home / "skills", "one")
    async with App() as app:
        await app.provide(TOOLS, Tools())
        await app.plugin(skills_local, None)
        monkeypatch.setenv("DSH_HOME", "/elsewhere")
        assert (str(place.home), ["one"]) == (
            app.require(SKILLS).home,
            [skill.name for skill in app.require(SKILLS).catalog(None).skills],
        )
    async with App() as app:
        await app.provide(TOOLS, Tools())
        with pytest.raises(DshHomeInvalid):
            await app.plugin(skills_local, SkillsLocalConfig(dsh_home=" "))
