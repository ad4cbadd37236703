"""``dshpy hooks check`` and ``support``: what files of hooks say, whether they run, and what trying them shows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dsh_cli import main
from dsh_hook_bridges import FEATURES, SAMPLE_SESSION

LIMIT_S = 60


def hooks(*arguments: object):
    return CliRunner().invoke(main, ["hooks", *map(str, arguments)], catch_exceptions=False)


def check_json(*arguments: object, code: int = 0) -> Any:
    done = hooks("check", *arguments, "--json")
    assert code == done.exit_code, done.stderr
    return json.loads(done.stdout)


def commands(report: Any) -> list[str]:
    return [hook["command"] for file in report["files"] for hook in file["hooks"]]


def group(*commands: str, matcher: str | None = None, **more: object) -> dict[str, object]:
    handlers = [{"type": "command", "command": command, **more} for command in commands]
    return {"hooks": handlers} if matcher is None else {"matcher": matcher, "hooks": handlers}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, which is the current directory, and a harness home of its own."""
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "home"))
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    monkeypatch.chdir(project)
    return project


STOP = '{"hooks": {"Stop": [{"hooks": [%s]}]}}'
PLAIN = STOP % '{"command": "true"}'
FOLDER = STOP % '{"command": "$CLAUDE_PROJECT_DIR/x"}'
SECONDS = STOP % '{"command": "true", "timeoutSec": 1}'
PATCH = '{"hooks": {"PreToolUse": [{"matcher": "apply_patch", "hooks": [{"command": "true"}]}]}}'


@pytest.mark.parametrize(
    ("name", "text", "whose"),
    [
        (".claude/settings.json", "{}", "claude-code, as it lies in .claude"),
        (".claude/plugins/x/hooks/hooks.json", PLAIN, "claude-code, as it lies in .claude"),
        (".codex/hooks.json", PLAIN, "codex, as it lies in .codex"),
        ("config.toml", "", "codex, as it is TOML"),
        ("settings.local.json", "{}", "claude-code, as its name is settings.local.json"),
        ("hooks.json", '{"hooks": {"Notification": []}}', "claude-code, as more of it is right that way"),
        ("guards.json", SECONDS, "codex, as more of it is right that way"),
        ("hooks.json", FOLDER, "claude-code, as it says CLAUDE_"),
        ("guards.json", PATCH, "codex, as it says apply_patch"),
        ("hooks.json", PLAIN, "codex, as nothing in it tells; --dialect does"),
        ("guards.json", PLAIN, "claude-code, as nothing in it tells; --dialect does"),
    ],
)
def test_whose_file_it_is(project, name, text, whose):
    """Its place tells, else its name, else what it says; people are told why, and may say otherwise."""
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    other = "codex" if whose.startswith("claude-code") else "claude-code"

    assert [str(path), f"  {whose}"] == hooks("check", name).stdout.splitlines()[:2]
    assert [str(path), f"  {other}, as told"] == hooks("check", name, "--dialect", other).stdout.splitlines()[:2]


def test_all_of_a_hook_is_shown(project, write_hooks):
    """When it runs, what, for how long, and how; for programs in the words of the files."""
    events = {
        "PreToolUse": [group("guard --all", matcher="Bash|Edit", timeout=5, passEnv=["TOKEN"], onFailure="closed")],
        "Stop": [group("done.sh", **{"async": True})],
    }
    path = write_hooks(project, events)

    done = hooks("check", path)
    report = check_json(path)

    assert 0 == done.exit_code
    assert (
        "      PreToolUse │ guard --all\n"
        "                 │ matcher Bash|Edit; timeout 5 s; onFailure closed; passEnv TOKEN\n"
        "            Stop │ done.sh\n"
        "                 │ timeout 600 s; async\n"
        "2 hooks, 2 run\n"
    ) == done.stdout.partition("in .claude\n")[2]
    first = {
        "place": "hooks.PreToolUse[0].hooks[0]",
        "event": "PreToolUse",
        "matcher": "Bash|Edit",
        "command": "guard --all",
        "timeout": 5,
        "async": False,
        "onFailure": "closed",
        "passEnv": ["TOKEN"],
        "reachable": True,
    }
    assert first == report["files"][0]["hooks"][0]
    assert {"files", "hooks", "running", "faults"} == set(report)
    assert (2, 2, 0) == (report["hooks"], report["running"], report["faults"])


def test_what_is_wrong_is_named_and_the_rest_counts(project, write_hooks):
    """An invalid matcher, an unknown event, one that is not supported, a group without hooks: each with its place."""
    events = {
        "PreToolUse": [group("never", matcher="["), group("kept", matcher="Bash")],
        "Bogus": [group("never")],
        "PreCompact": [group("never")],
        "Stop": [{"command": "never"}],
    }
    path = write_hooks(project, events)

    done = hooks("check", path)
    report = check_json(path, code=1)

    (file,) = report["files"]
    expected = ["hooks.PreToolUse[0].matcher", "hooks.Bogus", "hooks.PreCompact", "hooks.Stop[0]"]
    assert expected == [problem["place"] for problem in file["problems"]]
    assert (1, ["kept"]) == (done.exit_code, commands(report))
    assert all(f"         problem │ {place}: " in done.stdout for place in expected)
    assert done.stdout.endswith("1 hook, 1 runs; 4 fault(s)\n")


def test_a_file_that_is_no_configuration(project):
    """It has one problem, and no hook."""
    (project / "settings.json").write_text("{,}")

    done = hooks("check", "settings.json")

    assert 1 == done.exit_code
    assert "problem │ it cannot be read, so none of its hooks runs" in done.stdout


def test_what_works_in_part_or_not_is_said(project, write_hooks):
    """Out of the table of features, for what the file uses; and a matcher that nothing here can meet."""
    events = {
        "SessionStart": [group("a", matcher="clear|compact")],
        "PreToolUse": [group("b", once=True, statusMessage="x")],
        "PermissionRequest": [group("c")],
    }
    path = write_hooks(project, events)

    done = hooks("check", path)
    (file,) = check_json(path, code=1)["files"]

    notes = {note["name"]: note["support"] for note in file["notes"]}
    assert {"SessionStart": "partial", "once": "ignored", "statusMessage": "ignored"} == notes
    assert "partial │ SessionStart: its sources are startup, resume and fork\n" in done.stdout
    assert "ignored │ once\n" in done.stdout
    assert "matcher clear|compact; timeout 600 s; the matcher takes nothing that happens here\n" in done.stdout
    assert [False, True] == [hook["reachable"] for hook in file["hooks"]]


def test_a_file_that_turns_hooks_off(project, write_hooks):
    """None of its hooks would run."""
    path = write_hooks(project, {"Stop": ["true"]}, disableAllHooks=True)

    done = hooks("check", path)

    assert "switch │ turns all claude-code hooks off" in done.stdout
    assert done.stdout.endswith("1 hook, 0 run\n")
    assert (True, 0) == (check_json(path)["files"][0]["disablesAll"], check_json(path)["running"])


def test_every_layer_with_its_state(user, project, write_hooks, tmp_path):
    """The user's hooks run; a project's once it is trusted, until a hook of it or a script they name changes."""
    write_hooks(user, {"Stop": ["user-claude"]})
    write_hooks(user, {"Stop": ["user-codex"]}, name=".codex/hooks.json")
    write_hooks(project, {"Stop": ["sh guard.sh"]})
    write_hooks(project, {"Stop": ["local"]}, name=".claude/settings.local.json")
    (project / "guard.sh").write_text("true")

    def states() -> dict[str, str]:
        return {f"{file['dialect']} {file['layer']}": file["state"] for file in check_json("--all")["files"]}

    users = {"claude-code user": "active", "codex user": "active"}
    assert users | {"claude-code project": "untrusted", "claude-code local": "untrusted"} == states()
    told = hooks("check", "--all")
    assert f"dshpy hooks trust {project}\n" in told.stderr
    assert told.stdout.endswith("4 hooks in 4 file(s), 2 run\n")

    assert 0 == hooks("trust", project, "--yes").exit_code
    assert users | {"claude-code project": "active", "claude-code local": "active"} == states()
    assert "" == hooks("check", "--all").stderr

    (project / "guard.sh").write_text("false")
    assert users | {"claude-code project": "changed", "claude-code local": "changed"} == states()

    write_hooks(user, {"Stop": ["user-claude"]}, disableAllHooks=True)
    assert ("disabled", "active") == (states()["claude-code user"], states()["codex user"])
    assert 1 == check_json("--all")["running"]


def test_the_project_of_another_directory(user, project, write_hooks, tmp_path):
    """--cwd says whose; one dialect may be asked for alone."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "below").mkdir(parents=True)
    (elsewhere / ".git").touch()
    write_hooks(elsewhere, {"Stop": ["claude"]})
    write_hooks(elsewhere, {"Stop": ["codex"]}, name=".codex/hooks.json")

    report = check_json("--all", "--cwd", elsewhere / "below")

    assert (str(elsewhere), ["claude", "codex"]) == (report["project"], commands(report))
    assert ["codex"] == commands(check_json("--all", "--cwd", elsewhere, "--dialect", "codex"))


def test_nobody_has_hooks(project):
    """It says so, and nothing is wrong."""
    done = hooks("check", "--all")

    assert (0, f"project {project}\nno hooks: neither it nor its user has a file of them\n") == (
        done.exit_code,
        done.stdout,
    )


def test_a_file_of_trust_that_is_none(user, project, write_hooks, tmp_path):
    """Nothing is trusted, and that is told."""
    write_hooks(project, {"Stop": ["true"]})
    hooks("trust", project, "--yes")
    trusted = tmp_path / "home" / "hooks" / "trusted.json"
    trusted.write_text("{")

    done = hooks("check", "--all")

    assert 1 == done.exit_code
    assert f"problem │ {trusted} does not say which projects are trusted" in done.stdout
    assert "claude-code, project, untrusted" in done.stdout


DENIES = "echo 'not here' >&2; exit 2"
SAYS = """printf '%s' '{"systemMessage": "hello", "hookSpecificOutput": {"hookEventName": "PreToolUse", """


@pytest.mark.parametrize(
    ("command", "outcome", "more", "code"),
    [
        ("cat >/dev/null", "pass", {"exitCode": 0}, 0),
        (DENIES, "deny", {"exitCode": 2, "reason": "not here", "stderr": "not here"}, 0),
        (SAYS + """"permissionDecision": "allow"}}'""", "allow", {"message": "hello"}, 0),
        (SAYS + """"permissionDecision": "ask", "additionalContext": "mind"}}'""", "ask", {"context": "mind"}, 0),
        (SAYS + """"updatedInput": {"command": "true"}}}'""", "pass", {"updatedInput": {"command": "true"}}, 0),
        ("""printf '{"continue": false, "stopReason": "late"}'""", "pass", {"stops": True, "stopReason": "late"}, 0),
        ("""printf '{"terminalSequence": "x"}'""", "pass", {"ignored": ["terminalSequence"]}, 0),
        ("exit 1", "error", {"exitCode": 1}, 1),
        ("sleep 600", "timeout", {"exitCode": None}, 1),
        ("/no/such/program", "spawn-failed", {"exitCode": 127}, 1),
    ],
)
def test_a_hook_is_tried(*, project, write_hooks, command, outcome, more, code):
    """What it decides and why, its exit code, what it said and how long it took; a failure is a fault."""
    path = write_hooks(project, {"PreToolUse": [group(command, timeout=1 if outcome == "timeout" else 60)]})

    done = hooks("check", path, "--run")
    report = check_json(path, "--run", code=code)

    run = report["files"][0]["hooks"][0]["run"]
    assert (outcome, more) == (run["outcome"], {key: run[key] for key in more})
    assert run["durationMs"] >= 0
    assert (code, code) == (done.exit_code, report["faults"])
    assert f"{outcome:>16} │ " in done.stdout
    assert all(value in done.stdout for value in more.values() if isinstance(value, str))


def test_what_a_tried_hook_finds(project, write_hooks, tmp_path, monkeypatch):
    """A payload of its point, and the environment of a hook: its project, its home, a session that is none."""
    monkeypatch.setenv("MY_TOKEN", "hidden")
    monkeypatch.setenv("DSH_STALE", "stale")
    path = write_hooks(project, {"PreToolUse": [group("cat >payload; env >env; pwd >pwd", matcher="Write")]})
    (project / "below").mkdir()

    check_json(path, "--run", "--cwd", "below", "--home", tmp_path / "other")

    payload = json.loads((project / "below" / "payload").read_text())
    environment = dict(line.split("=", 1) for line in (project / "below" / "env").read_text().splitlines())
    managed = {name: value for name, value in environment.items() if name.startswith("DSH_")}
    expected = {"session_id": SAMPLE_SESSION, "hook_event_name": "PreToolUse", "tool_name": "Write"}
    assert expected == {name: payload[name] for name in expected}
    assert {"DSH_HOME": str(tmp_path / "other"), "DSH_SESSION_ID": SAMPLE_SESSION} == managed
    assert str(project) == environment["CLAUDE_PROJECT_DIR"]
    assert "MY_TOKEN" not in environment
    assert f"{project}/below\n" == (project / "below" / "pwd").read_text()


def test_only_what_may_run_is_tried(user, project, write_hooks):
    """Of all files the active ones, one after the other; what is not trusted is listed and not run."""
    write_hooks(user, {"Stop": ["echo a >>ran", "echo b >>ran"]})
    write_hooks(project, {"Stop": ["echo c >>ran"]})

    done = hooks("check", "--all", "--run")

    assert 0 == done.exit_code
    assert "a\nb\n" == (project / "ran").read_text()
    assert "not run │ its file is untrusted\n" in done.stdout
    assert [None] == [hook["run"] for hook in check_json("--all", "--run")["files"][1]["hooks"]]

    hooks("trust", project, "--yes")
    (project / "ran").unlink()
    hooks("check", "--all", "--run")
    assert "a\nb\nc\n" == (project / "ran").read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_an_interrupt_ends_the_hook_that_is_tried(project, write_hooks, environment, hear_signals, has_ended):
    """Ctrl-C: exit code 130, nothing goes on, no traceback."""
    patient = "echo $$ >pid.new; mv pid.new pid; sleep 600"
    path = write_hooks(project, {"Stop": [patient, "touch later"]})
    process = subprocess.Popen(
        [sys.executable, "-m", "dsh_cli", "hooks", "check", str(path), "--run"],
        cwd=project,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=hear_signals,  # noqa: PLW1509  # this process has one thread
    )
    deadline = time.monotonic() + LIMIT_S
    while not (project / "pid").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)

    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=LIMIT_S)

    assert (130, b"", b"") == (process.returncode, stdout, stderr)
    assert has_ended(int((project / "pid").read_text()))
    assert not (project / "later").exists()


def test_progress_is_for_terminals(terminal, project, write_hooks):
    """Who waits sees for what."""
    path = write_hooks(project, {"Stop": ["until [ -e go ]; do sleep 0.05; done"]})
    screen = terminal("hooks", "check", str(path), "--run", "--cwd", str(project))

    screen.wait_for("running 1 of 1: Stop until")
    (project / "go").touch()

    assert 0 == screen.finish()
    assert "pass │ exit 0" in screen.shown


def test_what_a_file_says_cannot_steer_the_terminal(project, write_hooks):
    """Control characters are spelled out, in commands, matchers and what hooks say."""
    events = {"PreToolUse": [group("printf '\x1b[31m' >&2; exit 2", matcher="Ba.h\x07|\u202e")]}
    path = write_hooks(project, events)

    done = hooks("check", path, "--run")

    assert "\\x1b[31m" in done.stdout
    assert not [character for character in done.stdout if character < " " and character != "\n"]
    assert "\u202e" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "Name a file, or give --all"),
        (["settings.json", "--all"], 2, "Name a file, or give --all"),
        (["settings.json", "--dialect", "cursor"], 2, "is not one of"),
        (["--all", "--cwd", "absent"], 2, "does not exist"),
        (["absent.json"], 3, "absent.json does not exist"),
        ([".git/x/settings.json"], 3, "does not exist"),
        ([".git"], 4, "is no file"),
        (["pipe"], 4, "is no file"),
        (["--all", "--home", "file"], 2, "is a file"),
    ],
)
def test_bad_input_is_one_plain_message(project, arguments, code, message):
    """Each kind of mistake has its exit code, and a pipe is not waited for."""
    (project / "file").write_text("")
    if hasattr(os, "mkfifo"):
        os.mkfifo(project / "pipe")

    done = hooks("check", *arguments)

    assert (code, "") == (done.exit_code, done.stdout)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_table_of_what_works():
    """Every row of the package's table, for programs and for people; one dialect may be asked for."""
    done = hooks("support", "--json")
    rows = json.loads(done.stdout)["features"]
    printed = hooks("support").stdout

    assert [(row.dialect, row.kind, row.name, row.support, row.note) for row in FEATURES] == [
        (row["dialect"], row["kind"], row["name"], row["support"], row.get("note", "")) for row in rows
    ]
    assert len(FEATURES) + 2 == len([line for line in printed.splitlines() if line.strip()])
    assert all(row.name in printed and row.note in printed for row in FEATURES)
    codex = json.loads(hooks("support", "--json", "--dialect", "codex").stdout)["features"]
    assert [row for row in rows if row["dialect"] == "codex"] == codex
