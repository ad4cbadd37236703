"""Whose files configure the hooks of a project, and that what comes with a clone runs only once it is trusted."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dsh_agent import find_project
from dsh_hook_bridges import (
    DialectName,
    HookSet,
    TrustStore,
    TrustUnreadable,
    fingerprint,
    load_hooks,
    read_hook_file,
    trust_path,
)
from dsh_session import SessionMeta

AS_ROOT = os.geteuid() == 0
USER, PROJECT, LOCAL = (
    "user/.claude/settings.json",
    "project/.claude/settings.json",
    "project/.claude/settings.local.json",
)


def settings(command: str = "true", **fields: Any) -> dict[str, Any]:
    """Return a file with one hook that runs when a turn stops."""
    return {**fields, "hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}}


@pytest.fixture
def load(place):
    """Return ``load()``: the hooks of the project as its files are now."""

    def load_all(project: Path | None = None, **fields: Any) -> HookSet:
        return load_hooks(str(project or place.project), user_home=str(place.user), trust=place.trust, **fields)

    return load_all


@pytest.fixture
def trust(place, load):
    """Return ``trust()``, which trusts the project as it is now."""
    return lambda: place.trust.trust(str(place.project), load().fingerprint)


def states(found: HookSet, base: Path) -> Mapping[str, str]:
    return {os.path.relpath(each.file.path, base): each.state for each in found.files}


def running(found: HookSet, dialect: DialectName = "claude-code") -> list[str]:
    return [handler.command for handler in found.handlers(dialect, "Stop")]


class TestLayers:
    def test_nothing_anywhere(self, place, load):
        """No files, no hooks, nothing wrong."""
        found = load()
        assert ((), 0, []) == (found.files, found.count, list(found.problems))

    def test_all_of_them_add_up(self, place, load, trust):
        """Those of the user come first, and each dialect has its own files and its own order."""
        for name in (USER, PROJECT, LOCAL):
            place.write(name, settings(f"claude {name}"))
        for layer in ("user", "project"):
            place.write(f"{layer}/.codex/hooks.json", settings(f"codex {layer} json"))
            place.write(
                f"{layer}/.codex/config.toml",
                f'[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ncommand = "codex {layer} toml"\n',
            )
        trust()
        found = load()
        assert {"active"} == set(states(found, place.home.parent).values())
        assert [f"claude {name}" for name in (USER, PROJECT, LOCAL)] == running(found)
        assert [f"codex {layer} {kind}" for layer in ("user", "project") for kind in ("json", "toml")] == running(
            found, "codex"
        )
        assert (7, []) == (found.count, list(found.handlers("codex", "SessionStart")))
        layers = [each.file.layer for each in found.files if each.file.dialect == "claude-code"]
        assert ["user", "project", "local"] == layers

    def test_one_dialect_alone(self, place, load):
        """What the other one has is not even listed."""
        place.write(USER, settings())
        place.write("user/.codex/hooks.json", settings())
        found = load(dialects=("codex",))
        assert (["user/.codex/hooks.json"], 1) == (list(states(found, place.home.parent)), found.count)

    def test_hooks_that_codex_keeps_off(self, place, load, trust):
        """Codex's user can switch off single hooks, of any file, by their place; a project's file cannot."""
        hooks = {"hooks": [{"command": "first"}, {"command": "second"}]}
        json_path = place.write("user/.codex/hooks.json", {"hooks": {"Stop": [hooks], "SessionStart": [hooks]}})
        project_path = place.write(
            "project/.codex/hooks.json", {"hooks": {"Stop": [{"hooks": [{"command": "third"}]}]}}
        )
        off = {
            f"{json_path}:stop:0:1": "false",
            f"{json_path}:session_start:0:0": "false",
            f"{json_path}:stop:0:0": "true",
        }
        rows = [f'[hooks.state."{key}"]\nenabled = {value}\n' for key, value in off.items()]
        place.write("user/.codex/config.toml", "".join(rows))
        place.write("project/.codex/config.toml", f'[hooks.state."{json_path}:stop:0:0"]\nenabled = false\n')
        trust()
        found = load()
        assert ["first", "third"] == running(found, "codex")
        assert ["second"] == [handler.command for handler in found.handlers("codex", "SessionStart")]

        before = found.fingerprint
        place.write("user/.codex/config.toml", f'[hooks.state."{project_path}:stop:0:0"]\nenabled = false\n')
        assert (["first", "second"], before) == (running(load(), "codex"), load().fingerprint)

    def test_without_a_user(self, place):
        """Who has no home folder here has no hooks of their own."""
        place.write(USER, settings())
        place.write(PROJECT, settings())
        found = load_hooks(str(place.project), user_home=None, trust=place.trust)
        assert {PROJECT: "untrusted"} == states(found, place.home.parent)

    def test_the_home_folder_as_a_project(self, place, load):
        """Its files are the user's own, once, under whatever name it is reached, and need no trust."""
        place.write(USER, settings())
        place.write("user/.claude/settings.local.json", settings("other"))
        link = place.home.parent / "link"
        link.symlink_to(place.user)
        for project in (place.user, link):
            assert ({USER: "active"}, ["true"]) == (states(load(project), place.home.parent), running(load(project)))

    def test_the_nearest_repository_is_the_project(self, place):
        """A file named ``.git`` is one as well, as worktrees have it; without any it is the directory itself."""
        inner = place.project / "a" / "b"
        inner.mkdir(parents=True)
        assert str(place.project) == find_project(str(inner))
        (inner.parent / ".git").write_text("gitdir: elsewhere")
        assert str(inner.parent) == find_project(str(inner))
        (inner / ".git").symlink_to("nowhere")
        assert str(inner) == find_project(str(inner))
        assert str(place.user) == find_project(str(place.user))


class TestFiles:
    """Whatever lies where a file should, it is one problem of that file at most."""

    def problem(self, path: Path) -> str:
        file = read_hook_file(str(path), dialect="claude-code", layer="user")
        assert file is not None
        (problem,) = file.problems
        assert ((), str(path), "") == (file.handlers, problem.path, problem.place)
        return problem.message

    def test_none(self, tmp_path):
        """Nor one below what is no folder, nor a link to nothing."""
        (tmp_path / "file").write_text("")
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        for name in ("none", "none/x", "file/x", "link"):
            assert read_hook_file(str(tmp_path / name), dialect="codex", layer="user") is None

    def test_a_link(self, tmp_path):
        """People keep their settings elsewhere."""
        (tmp_path / "real.json").write_text(json.dumps(settings("linked")))
        (tmp_path / "link.json").symlink_to("real.json")
        file = read_hook_file(str(tmp_path / "link.json"), dialect="claude-code", layer="user")
        assert file is not None
        assert (["linked"], ()) == ([handler.command for handler in file.handlers], file.problems)

    def test_a_link_to_itself(self, tmp_path):
        (tmp_path / "link").symlink_to("link")
        assert self.problem(tmp_path / "link").startswith("it cannot be read: ")

    def test_a_pipe(self, tmp_path):
        """Nobody waits for its writer."""
        os.mkfifo(tmp_path / "pipe")
        assert "it cannot be read: it is no regular file" == self.problem(tmp_path / "pipe")

    def test_a_folder(self, tmp_path):
        """Reading it again and again keeps no descriptor open."""
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # as many as there are, this one included
        for _ in range(5):
            assert "it cannot be read: it is no regular file" == self.problem(tmp_path)
        assert before == len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # as above

    def test_a_device(self):
        assert "it cannot be read: it is no regular file" == self.problem(Path("/dev/zero"))

    def test_a_large_one(self, tmp_path):
        """A mebibyte is read, one byte more is not."""
        path = tmp_path / "large.json"
        path.write_text(json.dumps(settings()).ljust(1 << 20))
        file = read_hook_file(str(path), dialect="claude-code", layer="user")
        assert file is not None
        assert (1, ()) == (len(file.handlers), file.problems)
        path.write_text(json.dumps(settings()).ljust((1 << 20) + 1))
        assert "it cannot be read: it is larger than 1048576 bytes" == self.problem(path)

    @pytest.mark.skipif(AS_ROOT, reason="nothing is closed to root")
    def test_one_that_is_closed_to_us(self, tmp_path):
        path = tmp_path / "closed.json"
        path.write_text("{}")
        path.chmod(0)
        assert "it cannot be read: Permission denied" == self.problem(path)

    def test_the_others_hold(self, place, load):
        """A file that is none takes no other with it."""
        place.write(USER, "{")
        place.write("user/.codex/hooks.json", settings("codex"))
        found = load()
        assert (1, [str(place.user / ".claude/settings.json")]) == (
            found.count,
            [problem.path for problem in found.problems],
        )


class TestTrust:
    def test_a_clone_runs_nothing(self, place, load):
        """Its hooks are known and do not run; those of the user do."""
        place.write(USER, settings("mine"))
        place.write(PROJECT, settings("theirs"))
        place.write("project/.codex/hooks.json", settings("theirs"))
        found = load()
        expected = {USER: "active", PROJECT: "untrusted", "project/.codex/hooks.json": "untrusted"}
        assert (expected, 1) == (states(found, place.home.parent), found.count)
        assert (["mine"], []) == (running(found), running(found, "codex"))

    def test_a_local_file_is_no_better(self, place, load):
        """It lies in the clone as well."""
        place.write(LOCAL, settings())
        assert ({LOCAL: "untrusted"}, []) == (states(load(), place.home.parent), running(load()))

    def test_trusted_as_it_is(self, place, load, trust):
        """Whatever name the project is reached by, but no other project."""
        place.write(PROJECT, settings())
        trust()
        link, other = place.home.parent / "link", place.home.parent / "other"
        link.symlink_to(place.project)
        other.mkdir()
        (other / ".claude").symlink_to(place.project / ".claude")
        assert [["true"], ["true"], []] == [running(load(each)) for each in (place.project, link, other)]

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            (PROJECT, settings("other")),
            (PROJECT, {**settings(), "disableAllHooks": False}),
            (PROJECT, {"hooks": {"Stop": [{"hooks": [{"command": "true", "timeout": 5}]}]}}),
            (PROJECT, {"hooks": {"Stop": [{"hooks": [{"command": "true", "passEnv": ["A_TOKEN"]}]}]}}),
            (PROJECT, {"hooks": {"Stop": [{"hooks": [{"command": "true", "onFailure": "closed"}]}]}}),
            (PROJECT, {"hooks": {"Stop": [{"hooks": [{"command": "true", "async": True}]}]}}),
            (PROJECT, {"hooks": {"SubagentStop": settings()["hooks"]["Stop"]}}),
            (PROJECT, {"hooks": {"Stop": settings()["hooks"]["Stop"] * 2}}),
            (PROJECT, {}),
            (LOCAL, settings("more")),
            ("project/.codex/hooks.json", settings("more")),
            ("project/.codex/config.toml", "[features]\nhooks = false\n"),
        ],
    )
    def test_other_hooks_are_asked_about_again(self, place, load, trust, *, name, value):
        """Whatever would run otherwise than before, in any file of any dialect."""
        place.write(PROJECT, settings())
        trust()
        place.write(name, value)
        assert ({"changed"}, []) == (set(states(load(), place.home.parent).values()), running(load()))

    @pytest.mark.parametrize(
        "value",
        [
            settings(model="other", permissions={"deny": ["Bash"]}),
            settings(disableAllHooks="no boolean"),
            {"hooks": {**settings()["hooks"], "PreCompact": [{"hooks": [{"command": "never"}]}]}},
            {"hooks": {"Stop": [{"hooks": [{"command": "true", "statusMessage": "…"}, {"type": "http", "url": "x"}]}]}},
        ],
    )
    def test_other_settings_are_not(self, place, load, trust, value):
        """Nor what never runs."""
        place.write(PROJECT, settings())
        trust()
        place.write(PROJECT, value)
        assert ["true"] == running(load())

    @pytest.mark.parametrize(
        "command",
        [
            ".claude/guard.sh",
            "./.claude/guard.sh --fast",
            '"$CLAUDE_PROJECT_DIR"/.claude/guard.sh',
            "${CLAUDE_PROJECT_DIR}/.claude/guard.sh",
            "bash $CLAUDE_PROJECT_DIR/.claude/guard.sh",
            'python3 "$(git rev-parse --show-toplevel)/.claude/guard.sh"',
            "cd /; ./other.sh; .claude/guard.sh|cat",
            "bash -c 'set -e; \".claude/guard.sh\"|cat >>log'",
            "tee >(.claude/guard.sh) >>log",
            "cat 2>/dev/null <.claude/guard.sh",
            "x=1 && (.claude/guard.sh) || exit 2",
            "bash -c '.claude/guard.sh \"$1\"' _ x",
            "run --script=.claude/guard.sh",
            "cat .claude/guard.sh | sh 'never closed",
            ".claude/link.sh",
        ],
    )
    def test_a_script_that_a_command_names_belongs_to_it(self, place, load, trust, command):
        """Who changes the script changes what runs; back as it was, it is what was trusted."""
        script = place.write("project/.claude/guard.sh", "exit 0\n")
        (place.project / ".claude/link.sh").symlink_to("guard.sh")
        place.write(PROJECT, settings(command))
        trust()
        assert [command] == running(load())
        script.write_text("exit 1\n")
        assert {PROJECT: "changed"} == states(load(), place.home.parent)
        script.write_text("exit 0\n")
        assert [command] == running(load())
        script.unlink()
        assert {PROJECT: "changed"} == states(load(), place.home.parent)

    @pytest.mark.parametrize("command", ["cat >>log", "cat > ./log 2>&1", "bash -c 'cat >> log'", "true>log;cat&>log"])
    def test_what_a_command_writes_is_no_part_of_it(self, place, load, trust, command):
        """Its own log does not take its trust away."""
        place.write(PROJECT, settings(command))
        trust()
        for text in ("", "a line\n"):
            place.write("project/log", text)
            assert [command] == running(load())

    def test_a_script_that_comes_later_changes_what_runs(self, place, load, trust):
        place.write(PROJECT, settings("./later.sh"))
        trust()
        place.write("project/later.sh", "")
        assert {PROJECT: "changed"} == states(load(), place.home.parent)

    def test_where_a_link_leads_belongs_to_it_also_outside(self, place, load, trust):
        """A commit can point it elsewhere; what lies there is read through it."""
        outside = place.write("outside.sh", "exit 0\n")
        link = place.project / "guard.sh"
        link.symlink_to(outside)
        place.write(PROJECT, settings("./guard.sh"))
        trust()
        assert ["./guard.sh"] == running(load())
        link.unlink()
        link.symlink_to(place.write("elsewhere.sh", "exit 1\n"))
        assert {PROJECT: "changed"} == states(load(), place.home.parent)

    @pytest.mark.parametrize(
        "command",
        [
            "/bin/true " + "x" * 5000,
            "echo '" + "very long " * 1000 + "'",
            "cat .",
            "cat pipe",
            "cat a/b/c/d",
            "exec 3<>/dev/null; echo ~ $HOME `x` \\",
        ],
    )
    def test_words_that_are_no_scripts(self, place, load, trust, command):
        """Folders, pipes and names that are none are passed over."""
        os.mkfifo(place.project / "pipe")
        place.write(PROJECT, settings(command))
        trust()
        assert [command] == running(load())

    def test_the_user_s_hooks_and_scripts_are_no_part_of_it(self, place, load, trust):
        place.write(PROJECT, settings())
        trust()
        place.write(USER, settings("mine"))
        assert ["mine", "true"] == running(load())

    def test_the_same_files_elsewhere_are_the_same(self, place, tmp_path):
        """So a digest says what was read, and not where."""

        def print_of(project: Path) -> str:
            (project / ".claude").mkdir(parents=True)
            (project / "x.sh").write_text("exit 0")
            path = project / ".claude/settings.json"
            path.write_text(json.dumps(settings('"$CLAUDE_PROJECT_DIR"/x.sh')))
            file = read_hook_file(str(path), dialect="claude-code", layer="project")
            assert file is not None
            return fingerprint(str(project), [file])

        assert print_of(tmp_path / "one") == print_of(tmp_path / "two words")

    def test_revoked(self, place, load, trust):
        """Once, and only what was trusted."""
        place.write(PROJECT, settings())
        trust()
        assert [True, False] == [place.trust.revoke(str(place.project)) for _ in range(2)]
        assert ({PROJECT: "untrusted"}, {}) == (states(load(), place.home.parent), place.trust.projects())

    def test_others_stay_trusted(self, place):
        """Also under a strange name."""
        strange = "/srv/é ü\udcff"
        for project in ("/srv/a", "/srv/b", strange):
            place.trust.trust(project, f"print of {project!r}")
        place.trust.trust("/srv/a", "newer")
        assert place.trust.revoke("/srv/b")
        assert {"/srv/a": "newer", strange: f"print of {strange!r}"} == place.trust.projects()
        assert "untrusted" == place.trust.state_of("/srv/b", "")


class TestTheFileOfTrust:
    def test_is_for_its_user_alone(self, place):
        place.trust.trust("/srv/a", "x")
        path = Path(trust_path(str(place.home)))
        assert (0o600, 0o700) == (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode))
        assert ["trusted.json"] == [each.name for each in path.parent.iterdir()]
        assert {"version": 1, "projects": {"/srv/a": "x"}} == json.loads(path.read_text())

    def put(self, path: Path, what: str) -> None:
        path.parent.mkdir(parents=True)
        match what:
            case "folder":
                path.mkdir()
            case "pipe":
                os.mkfifo(path)
            case "link":
                path.symlink_to(path.parent.parent / "elsewhere.json")
                (path.parent.parent / "elsewhere.json").write_text('{"version": 1, "projects": {}}')
            case _:
                path.write_bytes(what.encode("latin-1"))

    @pytest.mark.parametrize(
        "what",
        [
            "folder",
            "pipe",
            "link",
            "",
            "{",
            "\xff\xfe",
            "[]",
            "null",
            "{}",
            '{"version": 2, "projects": {}}',
            '{"version": 1}',
            '{"version": 1, "projects": []}',
            "[" * 100_000,
            " " * (1 << 20) + '{"version": 1, "projects": {}}',
        ],
    )
    def test_is_none(self, place, load, what):
        """Nothing is trusted, it is told, the user's own hooks run, and nothing is written over it."""
        place.write(USER, settings("mine"))
        place.write(PROJECT, settings())
        self.put(Path(place.trust.path), what)
        found = load()
        assert ({USER: "active", PROJECT: "untrusted"}, 1) == (states(found, place.home.parent), found.count)
        assert str(found.trust_problem).startswith(f"{place.trust.path} does not say which projects are trusted: ")
        for change in (lambda: place.trust.trust("/p", "x"), lambda: place.trust.revoke("/p")):
            with pytest.raises(TrustUnreadable) as refused:
                change()
            assert (place.trust.path, found.trust_problem) == (refused.value.path, str(refused.value))
        assert [Path(place.trust.path)] == list(Path(place.trust.path).parent.iterdir())

    def test_does_not_matter_without_a_project_s_files(self, place, load):
        place.write(USER, settings("mine"))
        self.put(Path(place.trust.path), "{")
        assert (None, ["mine"]) == (load().trust_problem, running(load()))

    def test_leaves_no_draft_when_it_cannot_be_written(self, place):
        """What was there stays."""
        place.trust.trust("/srv/a", "x")
        with pytest.raises(TypeError):
            place.trust.trust("/srv/b", object())
        assert {"/srv/a": "x"} == place.trust.projects()
        assert ["trusted.json"] == [each.name for each in Path(place.trust.path).parent.iterdir()]

    def test_passes_over_what_is_no_digest(self, place, load):
        place.write(PROJECT, settings())
        path = Path(place.trust.path)
        path.parent.mkdir()
        path.write_text(json.dumps({"version": 1, "projects": {str(place.project): True, "/srv/a": "x"}}))
        assert {PROJECT: "untrusted"} == states(load(), place.home.parent)
        assert {"/srv/a": "x"} == TrustStore(str(path)).projects()


OFF, ON = {"disableAllHooks": True}, {"disableAllHooks": False}


class TestTheSwitch:
    @pytest.mark.parametrize(
        ("user", "project", "local", "is_on"),
        [
            (OFF, {}, {}, False),
            (OFF, ON, {}, True),
            (OFF, {}, ON, True),
            (ON, OFF, {}, False),
            ({}, OFF, ON, True),
            ({}, ON, OFF, False),
            (OFF, ON, OFF, False),
            ({}, {}, {}, True),
        ],
    )
    def test_the_last_of_the_trusted_files_decides(self, place, load, trust, *, user, project, local, is_on):
        """For all hooks of its dialect, whatever file they stand in; the other dialect's run."""
        for name, fields in ((USER, user), (PROJECT, project), (LOCAL, local)):
            place.write(name, settings(name, **fields))
        place.write("user/.codex/hooks.json", settings("codex"))
        trust()
        found = load()
        assert ([USER, PROJECT, LOCAL] if is_on else []) == running(found)
        state = "active" if is_on else "disabled"
        assert {USER: state, PROJECT: state, LOCAL: state, "user/.codex/hooks.json": "active"} == states(
            found, place.home.parent
        )
        assert (["codex"], 4 if is_on else 1) == (running(found, "codex"), found.count)

    def test_a_clone_switches_nothing_off(self, place, load):
        """Nobody asked for its opinion on the user's guards."""
        place.write(USER, settings("mine"))
        place.write(PROJECT, settings(**OFF))
        assert ["mine"] == running(load())

    def test_a_clone_switches_nothing_on(self, place, load):
        place.write(USER, settings("mine", **OFF))
        place.write(LOCAL, settings(**ON))
        assert ([], {USER: "disabled", LOCAL: "untrusted"}) == (running(load()), states(load(), place.home.parent))

    def test_a_project_that_has_changed_says_nothing_either(self, place, load, trust):
        place.write(USER, settings("mine"))
        place.write(PROJECT, settings())
        trust()
        place.write(PROJECT, settings(**OFF))
        assert ["mine"] == running(load())

    def test_codex_has_a_feature(self, place, load, trust):
        """In one file for all of them."""
        place.write("user/.codex/hooks.json", settings("mine"))
        place.write("user/.codex/config.toml", "[features]\nhooks = false\n")
        place.write(USER, settings("claude"))
        assert ([], ["claude"]) == (running(load(), "codex"), running(load()))
        place.write("project/.codex/config.toml", "[features]\nhooks = true\n")
        assert [] == running(load(), "codex")
        trust()
        assert ["mine"] == running(load(), "codex")


class TestInTheLoop:
    async def test_a_clone_runs_nothing_and_is_told(self, place, rig):
        """The notice names the file, how many hooks it is about, and what to type."""
        place.write(PROJECT, settings("touch ran"))
        async with rig([{"text": "Done."}]) as run:
            agent = await run.agents.create(meta=SessionMeta(cwd=str(place.project)))
            await agent.prompt("Go.")
        assert not (place.project / "ran").exists()
        (notice,) = run.notices
        path = str(place.project / ".claude/settings.json")
        assert ("untrusted", path, "claude-code") == (notice.kind, notice.path, notice.dialect)
        assert f"so 1 hook was not run; read them, then: dshpy hooks trust {place.project}" in notice.text

    async def test_trusted_it_runs(self, place, rig, trust):
        place.write(PROJECT, settings("echo >ran"))
        trust()
        async with rig([{"text": "Done."}]) as run:
            agent = await run.agents.create(meta=SessionMeta(cwd=str(place.project)))
            await agent.prompt("Go.")
        assert ((place.project / "ran").exists(), []) == (True, run.notices)

    async def test_what_is_wrong_is_told_once(self, place, rig):
        """Not once for each session, and the rest runs."""
        place.write(USER, {"hooks": {"Stop": [*settings("echo x >> ran")["hooks"]["Stop"], {"matcher": "x"}]}})
        Path(place.trust.path).mkdir(parents=True)
        place.write(PROJECT, settings())
        async with rig([{"text": "Done."}] * 2) as run:
            for _ in range(2):
                agent = await run.agents.create(meta=SessionMeta(cwd=str(place.project)))
                await agent.prompt("Go.")
        assert "x\nx\n" == (place.project / "ran").read_text()
        assert ["config", "config", "untrusted"] == [notice.kind for notice in run.notices]
        texts = [notice.text for notice in run.notices]
        assert "hooks.Stop[1]: it has no hooks" in texts[0]
        assert texts[1].endswith("; no project's hooks run")

    async def test_an_edit_counts_from_the_next_session_on(self, place, rig):
        """Who edits a file does not change what guards a session that runs."""
        place.write(USER, settings("echo first >> ran"))
        async with rig([{"text": "Done."}] * 3) as run:
            agent = await run.agents.create(meta=SessionMeta(cwd=str(place.project)))
            await agent.prompt("Go.")
            place.write(USER, settings("echo second >> ran"))
            await agent.prompt("Again.")
            other = await run.agents.create(meta=SessionMeta(cwd=str(place.project)))
            await other.prompt("Go.")
        assert "first\nfirst\nsecond\n" == (place.project / "ran").read_text()

    async def test_an_edit_does_not_reach_the_end_of_a_session(self, place, rig, trust):
        """Whichever dialect is told of it last, it has what it began with; a session that comes back reads anew."""
        place.hooks("codex", {"SessionEnd": "echo first >> ran"})
        place.write(PROJECT, settings("touch ran"))
        trust()
        async with rig([{"text": "Done."}] * 2) as run:
            agent = await run.agents.create(meta=SessionMeta(cwd=str(place.project)))
            await agent.prompt("Go.")
            place.write(
                "user/.codex/hooks.json", {"hooks": {"SessionEnd": settings("echo second >> ran")["hooks"]["Stop"]}}
            )
            await run.agents.close(agent)
            assert ([], "first\n") == (run.notices, (place.project / "ran").read_text())
            await run.agents.close(await run.agents.resume(agent.session.id))
        assert "first\nsecond\n" == (place.project / "ran").read_text()
        assert ["untrusted"] == [notice.kind for notice in run.notices]


def test_reading_never_writes(place, load, trust):
    """A listing of hooks changes no file and makes no folder."""
    place.write(PROJECT, settings("./x.sh"))
    place.write("project/x.sh", "")

    def tree() -> list[tuple[str, int, int]]:
        found = [(path, path.lstat()) for path in place.home.parent.rglob("*")]
        return sorted((str(path), each.st_mtime_ns, each.st_mode) for path, each in found)

    before = tree()
    load()
    assert before == tree()
