"""Where skills are found, which of them wins, and what is refused."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dsh_skills_local import LocalSkills, Skill, SkillInvalid, SkillUnknown
from dsh_skills_local._folders import MAX_FILES, MAX_SKILL_BYTES, MAX_SKILLS


def names(place, cwd="") -> list[str]:
    return [skill.name for skill in place.skills.catalog(cwd or place.cwd).skills]


def problems(place) -> dict[str, str]:
    return {
        str(Path(problem.path).relative_to(place.home.parent)): problem.reason
        for problem in place.skills.catalog(place.cwd).problems
    }


def test_nothing_is_there(place):
    """No folder of skills, no working directory, and one that does not exist are no problem."""
    for cwd in (None, place.cwd, "/nowhere/at/all"):
        found = place.skills.catalog(cwd)
        assert ((), ()) == (found.skills, found.problems)


def test_skills_are_found_in_their_places(place, write):
    """Below the home and in two folders of the project, in the order of their names."""
    write(place.home / "skills", "zeta")
    write(place.project / ".agents" / "skills", "alpha", description="'First: of all.'")
    made = write(place.project / ".dsh" / "skills", "mid")
    found = place.skills.catalog(place.cwd)

    assert [("alpha", "project-agents"), ("mid", "project-dsh"), ("zeta", "user-dsh")] == [
        (skill.name, skill.source) for skill in found.skills
    ]
    expected = Skill(name="mid", description="For mid.", path=f"{made}/SKILL.md", source="project-dsh")
    assert (expected, str(made)) == (found.skills[1], found.skills[1].folder)
    assert ["zeta"] == [skill.name for skill in place.skills.catalog(None).skills]


def test_the_project_wins_over_the_home(place, write):
    """By the name in the file, and of the project's folders the harness's own."""
    roots = [place.home / "skills", place.project / ".agents" / "skills", place.project / ".dsh" / "skills"]
    for root in roots:
        write(root, "same", folder=f"f-{len(str(root))}", text=str(root))

        assert str(root) == place.skills.load("same", place.cwd).content
    assert str(roots[0]) == place.skills.load("same", None).content


def test_a_skill_that_is_kept_from_models_still_wins(place, write):
    """A project can take a skill of the home away from its models."""
    write(place.home / "skills", "deploy")
    write(place.project / ".dsh" / "skills", "deploy", disable_model_invocation="true")

    assert [False] == [skill.for_model for skill in place.skills.catalog(place.cwd).skills]


def test_the_project_is_the_repository(place, write):
    """From a folder deep inside, and where ``.git`` is a file; without one the working directory is the project."""
    deep = place.project / "src" / "deep"
    write(place.project / ".dsh" / "skills", "top")
    write(deep / ".dsh" / "skills", "inner")
    assert ["top"] == names(place, str(deep))

    (place.project / "src" / ".git").write_text("gitdir: elsewhere")
    assert [] == names(place, str(deep))

    (place.project / "src" / ".git").unlink()
    (place.project / ".git").rmdir()
    assert ["inner"] == names(place, str(deep))


def test_the_home_as_a_project_is_read_once(place, write):
    """Where ``<project>/.dsh`` is the harness home, its skills are neither doubled nor in conflict."""
    skills = LocalSkills(str(place.project / ".dsh"))
    write(place.project / ".dsh" / "skills", "one")
    found = skills.catalog(place.cwd)

    assert ([("one", "project-dsh")], ()) == ([(skill.name, skill.source) for skill in found.skills], found.problems)


def test_every_answer_is_what_lies_there_now(place, write):
    """Nothing is remembered: a skill that is written, changed or removed shows at the next call."""
    root = place.home / "skills"
    made = write(root, "one", text="first")
    assert "first" == place.skills.load("one", None).content

    write(root, "one", text="second")
    write(root, "two")
    assert "second" == place.skills.load("one", None).content
    assert ["one", "two"] == names(place)

    shutil.rmtree(made)
    assert ["two"] == names(place)


def test_broken_skills_are_listed_and_the_others_load(place, write):
    """Each with its path and what is wrong; files, hidden folders and what has no place here are no problem."""
    root = place.project / ".dsh" / "skills"
    for folder in ("empty", "pipe", "folder", "large", ".system"):
        (root / folder).mkdir(parents=True)
    os.mkfifo(root / "pipe" / "SKILL.md")
    (root / "folder" / "SKILL.md").mkdir()
    (root / "large" / "SKILL.md").write_bytes(b"-" * (MAX_SKILL_BYTES + 1))
    (root / "README.md").write_text("no skill")
    (root / "README-link.md").symlink_to("README.md")
    write(root, "good")
    write(root, "bad name", folder="named")
    place.home.joinpath("skills").write_text("a file")

    assert ["good"] == names(place)
    assert {
        "project/.dsh/skills/empty": "holds no SKILL.md; add one, or move the folder away",
        "project/.dsh/skills/folder/SKILL.md": "is no regular file; put a file in its place",
        "project/.dsh/skills/large/SKILL.md": "is larger than 131072 bytes; move parts of it into files beside it",
        "project/.dsh/skills/named/SKILL.md": "has the name 'bad name'; a name is lower-case letters and digits joined "
        "by single hyphens, at most 64 characters",
        "project/.dsh/skills/pipe/SKILL.md": "is no regular file; put a file in its place",
        "home/skills": "cannot be listed: Not a directory; make it a folder you may read",
    } == problems(place)


def test_a_skill_as_large_as_allowed_loads(place, write):
    """The limit itself is allowed."""
    path = write(place.home / "skills", "one") / "SKILL.md"
    path.write_bytes(path.read_bytes().ljust(MAX_SKILL_BYTES, b"x"))

    assert place.skills.load("one", None).content.endswith("x")


def test_one_name_twice_in_one_place(place, write):
    """The first folder has it, and the second is told of."""
    root = place.home / "skills"
    first, second = (write(root, "same", folder=folder, text=folder) for folder in ("a", "b"))

    assert "a" == place.skills.load("same", None).content
    assert {
        "home/skills/b/SKILL.md": f"has the name 'same', which {first}/SKILL.md has as well; rename one"
    } == problems(place)
    assert second.exists()


def test_links_do_not_lead_out(place, write, tmp_path):
    """Of a project, by any component; inside the project they are followed, as from one tool's folder to another's."""
    root = place.project / ".dsh" / "skills"
    outside = write(tmp_path / "outside", "secret")
    inside = write(place.project / ".agents" / "skills", "shared")
    root.mkdir(parents=True)
    (root / "shared").symlink_to("../../.agents/skills/shared")
    (root / "secret").symlink_to(outside)
    (root / "file").mkdir()
    (root / "file" / "SKILL.md").symlink_to(outside / "SKILL.md")
    (root / "nowhere").symlink_to("gone")
    (root / "loop").symlink_to("loop")
    found = place.skills.catalog(place.cwd)

    assert [("shared", f"{inside}/SKILL.md")] == [(skill.name, skill.path) for skill in found.skills]
    out = f"is a link that leads out of {place.project}; put a copy in its place"
    expected = {"file/SKILL.md": out, "secret": out, "nowhere": "holds no SKILL.md; add one, or move the folder away"}
    told = problems(place)
    loop = told.pop("project/.dsh/skills/loop/SKILL.md")
    assert {f"project/.dsh/skills/{path}": reason for path, reason in expected.items()} == told
    assert loop.startswith("cannot be read: ")


def test_a_projects_folder_of_skills_may_not_lead_out(place, write, tmp_path):
    """A repository cannot make us read from elsewhere by being a link itself."""
    write(tmp_path / "outside", "secret")
    (place.project / ".dsh").mkdir()
    (place.project / ".dsh" / "skills").symlink_to(tmp_path / "outside")

    assert [] == names(place)
    assert {"project/.dsh/skills"} == set(problems(place))


def test_the_homes_folder_of_skills_may_be_a_link(place, write, tmp_path):
    """People keep theirs elsewhere; out of that place no link leads either."""
    write(tmp_path / "dotfiles", "mine")
    outside = write(tmp_path / "outside", "secret")
    (tmp_path / "dotfiles" / "secret").symlink_to(outside)
    (place.home / "skills").symlink_to(tmp_path / "dotfiles")

    assert ["mine"] == names(place)
    assert ["home/skills/secret"] == list(problems(place))


def test_a_project_behind_a_link_is_a_project(place, write, tmp_path):
    """Its own boundary is where the link leads."""
    write(place.project / ".dsh" / "skills", "one")
    (tmp_path / "alias").symlink_to(place.project)

    assert ["one"] == names(place, str(tmp_path / "alias"))


def test_a_root_is_read_as_far_as_a_limit(place, write):
    """The first by name are taken, and it is said that there are more."""
    root = place.home / "skills"
    for number in range(MAX_SKILLS + 2):
        write(root, f"s-{number:04}")

    assert [f"s-{number:04}" for number in range(MAX_SKILLS)] == names(place)
    assert {
        "home/skills": f"holds more than {MAX_SKILLS} folders, and the rest is not looked at; keep fewer there"
    } == problems(place)


def test_the_files_beside_are_named(place, write, tmp_path):
    """Relative to the folder; hidden ones and links are not, and a SKILL.md further below is a file like others."""
    made = write(place.home / "skills", "one")
    for path in ("run.sh", "references/a.md", "references/deep/SKILL.md", ".hidden", ".git/config"):
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_text("")
    (made / "out").symlink_to(tmp_path)
    (made / "passwd").symlink_to("/etc/passwd")
    loaded = place.skills.load("one", None)

    assert (("references/a.md", "references/deep/SKILL.md", "run.sh"), False) == (loaded.files, loaded.has_more_files)


def test_many_files_beside_are_cut(place, write):
    """The nearest stay."""
    made = write(place.home / "skills", "one")
    for number in range(MAX_FILES - 1):
        (made / f"f-{number:03}").write_text("")
    (made / "sub").mkdir()
    (made / "sub" / "x").write_text("")
    assert (MAX_FILES, False) == (
        len(place.skills.load("one", None).files),
        place.skills.load("one", None).has_more_files,
    )

    (made / "sub" / "y").write_text("")
    loaded = place.skills.load("one", None)
    assert (MAX_FILES, "sub/x", True) == (len(loaded.files), loaded.files[-1], loaded.has_more_files)


def test_a_tree_without_end_is_left(place, write):
    """A bounded number of folders is looked into, and what is not is told of."""
    made = write(place.home / "skills", "one")
    (made / "/".join(["d"] * 200)).mkdir(parents=True)
    (made / "file").write_text("")
    loaded = place.skills.load("one", None)

    assert (("file",), True) == (loaded.files, loaded.has_more_files)


def test_an_unknown_name_is_answered_with_the_nearest(place, write):
    """Those a model may load; without any that comes near, the list is pointed to."""
    write(place.home / "skills", "pdf-forms")
    write(place.home / "skills", "pdf-form", disable_model_invocation="yes")
    with pytest.raises(SkillUnknown, match=r"did you mean 'pdf-forms'\?") as unknown:
        place.skills.load("pdf-fort", None)
    assert ("pdf-fort", ("pdf-forms",)) == (unknown.value.name, unknown.value.nearest)

    with pytest.raises(SkillUnknown, match="no name comes near it"):
        place.skills.load("zzz", None)


def test_a_broken_skill_that_is_asked_for_says_why(place, write):
    """By its folder's name; a whole one of that name elsewhere is taken all the same."""
    made = write(place.project / ".dsh" / "skills", "one")
    (made / "SKILL.md").write_text("# no frontmatter")
    with pytest.raises(SkillInvalid, match="does not begin with frontmatter"):
        place.skills.load("one", place.cwd)

    write(place.home / "skills", "one", text="whole")
    assert "whole" == place.skills.load("one", place.cwd).content
