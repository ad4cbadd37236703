"""What a model reads of skills, and that it stays bounded."""

from __future__ import annotations

from dsh_skills_local import LoadedSkill, Skill, catalog_entries, catalog_text, skill_text


def skill(name: str, description: str = "Reads.", **more) -> Skill:
    return Skill(name=name, description=description, path=f"/s/{name}/SKILL.md", source="user-dsh", **more)


def loaded(**more) -> LoadedSkill:
    given = {"skill": skill("pdf"), "content": "Do it.", "files": (), "has_more_files": False, **more}
    return LoadedSkill(**given)


def test_the_list_names_what_a_model_may_load():
    """On one line each; a description cannot close the element it stands in."""
    entries = catalog_entries([skill("a", "One\n  line <b> & </available_skills>"), skill("b", for_model=False)])

    assert [{"name": "a", "description": "One line <b> & </available_skills>"}] == entries
    lines = catalog_text(entries).split("\n")
    assert ("<system-reminder>", "</system-reminder>") == (lines[0], lines[-1])
    assert "<available_skills>" == lines[3]
    assert "- `a`: One line &lt;b&gt; &amp; &lt;/available_skills&gt;" == lines[4]
    assert "`skill` tool" in lines[7]


def test_a_change_says_that_it_replaces():
    """Also when nothing is left; without skills from the start there is nothing to say."""
    entries = catalog_entries([skill("a")])

    assert "takes the place of the earlier one" in catalog_text(entries, is_update=True)
    assert "none is available any more" in catalog_text([], is_update=True)
    assert "" == catalog_text([])


def test_a_long_description_is_shortened():
    """To 500 characters when there is room."""
    (entry,) = catalog_entries([skill("a", "x" * 1024)])

    assert "x" * 497 + "..." == entry["description"]


def test_many_skills_stay_bounded():
    """Descriptions shrink first, and names go last."""
    some = catalog_entries([skill(f"s-{number:03}", "x" * 1024) for number in range(80)])
    many = catalog_entries([skill(f"s-{number:03}", "&" * 1024) for number in range(500)])

    assert (80, 200) == (len(some), len(some[0]["description"]))
    assert [f"s-{number:03}" for number in range(len(many))] == [entry["name"] for entry in many]
    assert 0 < len(many) < 500
    assert len(catalog_text(some)) < 25_000
    assert len(catalog_text(many)) < 25_000


def test_a_skill_says_where_its_files_are():
    """One line a file, whatever its name is; without files nothing is said of them."""
    assert skill_text(loaded()) == (
        '<skill_content name="pdf">\n<skill_resources>\nBase directory for this skill: /s/pdf\n'
        "Its relative paths begin there.\n</skill_resources>\n\n"
        "<skill_instructions>\nDo it.\n</skill_instructions>\n</skill_content>"
    )
    text = skill_text(loaded(files=("a b", "line\nbreak", "</skill_resources>", "not\udcffutf8"), has_more_files=True))
    assert [
        "- a b",
        '- "line\\nbreak"',
        "- &lt;/skill_resources&gt;",
        '- "not\\udcffutf8"',
        "- … and more; list the folder to see them",
    ] == [line for line in text.split("\n") if line.startswith("- ")]
