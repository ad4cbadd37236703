"""The skill tool: the text of one skill, and errors a model can act on."""

from __future__ import annotations

import pytest

from dsh_agent import ToolError, ToolExecution
from dsh_session import SessionMeta
from dsh_skills_local import SkillTool


def call(name: str) -> ToolExecution:
    return ToolExecution(call_id="c", name="skill", arguments={"name": name})


async def error_of(place, name: str) -> str:
    with pytest.raises(ToolError) as failed:
        await SkillTool(place.skills).execute(call(name))
    return str(failed.value)


async def test_a_skill_is_loaded(place, write):
    """Its text for the model and, for code, the value that ``dsh`` gives."""
    made = write(place.home / "skills", "pdf", text="Read it.\n\nThen write.")
    (made / "fill.py").write_text("")
    tool = SkillTool(place.skills)
    result = await tool.execute(call("pdf"))

    assert "<skill_instructions>\nRead it.\n\nThen write.\n</skill_instructions>" in result.text
    assert f"Base directory for this skill: {made}\n" in result.text
    assert "\n- fill.py\n" in result.text
    assert {
        "name": "pdf",
        "provider": "local",
        "resourceBase": {"kind": "directory", "path": str(made)},
        "content": "Read it.\n\nThen write.",
    } == result.value
    assert tool.is_concurrency_safe({"name": "pdf"})


async def test_the_project_is_that_of_the_caller(rig, place, write):
    """Two sessions load two skills by one name."""
    write(place.home / "skills", "same", text="of the home")
    write(place.project / ".dsh" / "skills", "same", text="of the project")
    async with rig() as running:
        tool = SkillTool(place.skills)
        texts = []
        for cwd in (place.cwd, None):
            agent = await running.agents.create(meta=SessionMeta(cwd=cwd))
            execution = ToolExecution(call_id="c", name="skill", arguments={"name": "same"}, agent=agent)
            texts.append((await tool.execute(execution)).value["content"])

    assert ["of the project", "of the home"] == texts


async def test_a_name_that_is_none(place):
    """Is told what names look like, and shown in part only."""
    assert (await error_of(place, "../../etc/passwd")).startswith('invalid skill name "../../etc/passwd"; ')
    assert len(await error_of(place, "A" * 100_000)) < 300


async def test_a_name_that_nothing_has(place, write):
    """The nearest is named."""
    write(place.home / "skills", "pdf-forms")

    expected = "skill \"pdf-form\" is unknown or no longer available; did you mean 'pdf-forms'?"
    assert expected == await error_of(place, "pdf-form")


async def test_a_skill_that_is_the_users_alone(place, write):
    """Is kept from the model."""
    write(place.home / "skills", "deploy", disable_model_invocation="true")

    expected = 'skill "deploy" is not available for model invocation; only the user may ask for it, with its text'
    assert expected == await error_of(place, "deploy")


async def test_a_broken_skill(place, write):
    """Is explained."""
    made = write(place.home / "skills", "one")
    (made / "SKILL.md").unlink()

    assert f"{made} holds no SKILL.md; add one, or move the folder away" == await error_of(place, "one")
