"""``dshpy run`` with hooks: whose run, what they may do, what people are told, and how a session's end reaches them."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dsh_cli import main

LIMIT_S = 60
HELLO = {"text": "Hello."}
SAVES = "cat >payload.new; mv payload.new payload"


def bash(command: str) -> dict[str, object]:
    return {"name": "bash", "arguments": {"command": command, "description": "Do it"}}


def patient(*commands: str, timeout_s: float = LIMIT_S) -> dict[str, object]:
    """Return hooks that have time on the busiest machine."""
    return {"hooks": [{"command": command, "timeout": timeout_s} for command in commands]}


def answer(**fields: object) -> str:
    """Return a command that answers a call with these fields."""
    text = json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **fields}})
    return f"cat >/dev/null; printf '%s' '{text}'"


on_terminals = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminals")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, which is the current directory, and a harness home of its own."""
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "home"))
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    monkeypatch.chdir(project)
    return project


def dshpy(*arguments: object):
    return CliRunner().invoke(main, [str(each) for each in arguments], catch_exceptions=False)


def run(*arguments: object):
    return dshpy("run", *arguments)


def told(done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def results(done) -> list[str]:
    events = [line for line in told(done) if line.get("type") == "tool/result"]
    return [event["data"]["message"]["content"][0]["text"] for event in events]


def test_the_user_s_hooks_run(user, project, script, write_hooks):
    """Both dialects; what they add is in the conversation, and they are told who is asked."""
    write_hooks(user, {"SessionStart": ["echo The branch is main."], "Stop": [SAVES]})
    write_hooks(user, {"SessionStart": ["echo The moon is full."]}, name=".codex/hooks.json")

    modes = []
    for more in ([], ["--yes"]):
        done = run("Go.", "--model", script(HELLO), *more)
        assert (0, "") == (done.exit_code, done.stderr)
        payload = json.loads((project / "payload").read_text())
        modes.append(payload["permission_mode"])
    messages = [json.loads(line) for line in dshpy("cat", "@latest", "--messages").stdout.splitlines()]

    assert ["default", "bypassPermissions"] == modes
    assert "Hello." == payload["last_assistant_message"]
    added = {m["source"]["kind"]: m["content"][0]["text"] for m in messages if m["source"]["kind"].startswith("hooks-")}
    assert {"hooks-claude-code": "The branch is main.", "hooks-codex": "The moon is full."} == added


def test_a_project_s_hooks_run_once_it_is_trusted(project, script, write_hooks):
    """Until then stderr says that they are there and what to type."""
    write_hooks(project, {"UserPromptSubmit": [SAVES]})

    first = run("Go.", "--model", script(HELLO))
    ran_untrusted = (project / "payload").exists()
    dshpy("hooks", "trust", project, "--yes")
    second = run("Go.", "--model", script(HELLO))

    assert (0, False) == (first.exit_code, ran_untrusted)
    assert f"dshpy hooks trust {project}\n" in first.stderr
    assert (0, "") == (second.exit_code, second.stderr)
    assert "Go." == json.loads((project / "payload").read_text())["prompt"]


def test_a_blocked_prompt_says_why(user, script, write_hooks):
    """To people and to programs; the model is not asked, and the code is that of a blocked turn."""
    write_hooks(user, {"UserPromptSubmit": ["echo 'no secrets\nin here' >&2; exit 2"]})

    done = run("Go.", "--model", script())
    as_json = run("Go.", "--model", script(), "--json")

    assert (6, 6) == (done.exit_code, as_json.exit_code)
    assert done.stdout.endswith("      end │ blocked\n  blocked │ no secrets\n          │ in here\n")
    assert {"end": {"kind": "blocked"}, "feedback": "no secrets\nin here"} == told(as_json)[-1]


def test_a_hook_that_ends_the_turn_says_why(user, script, write_hooks):
    """``continue: false``: the turn is aborted, and the reason is shown, in the run and in the log."""
    write_hooks(user, {"PostToolUse": ["""printf '{"continue": false, "stopReason": "enough for today"}'"""]})

    done = run("Go.", "--yes", "--model", script({"tools": [bash("true")]}, HELLO))

    assert 1 == done.exit_code
    assert "      end │ aborted: enough for today\n" in done.stdout
    assert "dshpy: a PostToolUse hook ended the turn: enough for today\n" == done.stderr
    assert "      end │ aborted: enough for today\n" in dshpy("show", "@latest").stdout


NOBODY = "Error: bash was refused: there is nobody to ask (not here); do without, and say what you would have done"
REFUSED = "dshpy: bash was refused: there is no terminal to ask on; %s\n"


@pytest.mark.parametrize(
    ("decision", "options", "result", "stderr"),
    [
        ("allow", [], "ran\n", ""),
        ("deny", ["--yes"], "Error: not here", ""),
        ("ask", ["--yes"], NOBODY, REFUSED % "a hook wants to have it asked about"),
        ("ask", [], NOBODY, REFUSED % "with --yes nothing is asked"),
    ],
)
def test_what_a_hook_decides_about_a_call(*, user, script, write_hooks, decision, options, result, stderr):
    """An allow spares the question; --yes overrules neither a deny nor a question that a hook wants asked."""
    write_hooks(user, {"PreToolUse": [answer(permissionDecision=decision, permissionDecisionReason="not here")]})

    done = run("Go.", "--json", *options, "--model", script({"tools": [bash("echo ran")]}, HELLO))

    assert (0, [result], stderr) == (done.exit_code, results(done), done.stderr)


@on_terminals
def test_a_hook_s_question_is_put_to_the_person(user, terminal, script, write_hooks, project):
    """With --yes, too; the hook's reason stands below the call."""
    write_hooks(user, {"PreToolUse": [answer(permissionDecision="ask", permissionDecisionReason="it is Friday")]})
    model = script({"tools": [bash("touch ran")]}, HELLO)
    screen = terminal("run", "Go.", "--yes", "--model", model, "--cwd", str(project))

    shown = screen.wait_for("allow?")
    screen.type("y\n")

    assert 0 == screen.finish()
    assert "    asked │ it is Friday\n" in shown
    assert (project / "ran").exists()


def test_no_hooks(user, project, script, write_hooks):
    """Nobody's run, and nothing is said of them."""
    write_hooks(user, {"UserPromptSubmit": [SAVES, "exit 2"], "Bogus": []})
    write_hooks(project, {"Stop": [SAVES]})

    done = run("Go.", "--no-hooks", "--model", script(HELLO))

    assert (0, "") == (done.exit_code, done.stderr)
    assert not (project / "payload").exists()


def test_a_plain_transcript(*, user, project, script, write_hooks, tmp_path):
    """By default the path is the log itself; --hook-mirror makes it a file that any script can read."""
    copies = """cp "$(sed 's/.*"transcript_path":"\\([^"]*\\).*/\\1/' payload)" copy"""
    write_hooks(user, {"Stop": [f"{SAVES}; {copies}"]})

    paths = []
    for more in ([], ["--hook-mirror"]):
        assert 0 == run("Go.", "--model", script({"text": "Marked."}), *more).exit_code
        paths.append(Path(json.loads((project / "payload").read_text())["transcript_path"]))

    (mirror,) = (tmp_path / "home" / "cache" / "hooks").iterdir()
    assert [(tmp_path / "home" / "sessions") in paths[0].parents, mirror] == [True, paths[1]]
    lines = [json.loads(line) for line in (project / "copy").read_text().splitlines()]
    assert "assistant/message" in [line.get("type") for line in lines]


def test_what_people_are_told_of_hooks(user, script, write_hooks):
    """On stderr, with --json too: a failure, a message, what is wrong in a file. Stdout stays the session's."""
    events = {
        "PreToolUse": ["echo mine >&2; exit 1", """printf '{"systemMessage": "I look on"}'"""],
        "Bogus": [],
    }
    path = write_hooks(user, events)
    model = script({"tools": [bash("echo ran")]}, HELLO)

    done = run("Go.", "--yes", "--model", model)
    as_json = run("Go.", "--yes", "--json", "--model", model)

    failed = "claude-code PreToolUse hook 'echo mine >&2; exit 1': error: mine (exit 1 = non-blocking; use 2 to block)"
    assert (0, 0) == (done.exit_code, as_json.exit_code)
    assert [
        f"dshpy: {path}: hooks.Bogus: Bogus is no event of claude-code; its hooks never run",
        f"dshpy: {failed}",
        "dshpy: a PreToolUse hook says: I look on",
    ] == [line.partition("; it was run without")[0] for line in done.stderr.splitlines()]
    assert done.stderr == as_json.stderr
    assert "hook" not in done.stdout
    assert ["ran\n"] == results(as_json)
    assert {"end": {"kind": "completed"}} == told(as_json)[-1]


def test_show_has_what_hooks_did(user, script, write_hooks):
    """A line for each that decided or failed; what passed is nobody's business."""
    denies = {"matcher": "Bash", "hooks": [{"command": "grep -q secret && { echo no secrets >&2; exit 2; }; exit 0"}]}
    write_hooks(user, {"UserPromptSubmit": ["true"], "PreToolUse": [denies], "PostToolUse": ["exit 1"]})
    model = script({"tools": [bash("echo secret"), bash("echo fine")]}, HELLO)

    live = run("Go.", "--yes", "--model", model).stdout
    shown = dshpy("show", "@latest").stdout

    expected = [
        "     hook │ PreToolUse: block: no secrets",
        "     hook │ PostToolUse: error: exit 1 = non-blocking; use 2 to block",
    ]
    lines = [line for line in shown.splitlines() if line.startswith("     hook")]
    assert expected == [line.partition("; it was run without")[0] for line in lines]
    assert [expected[0]] == [line for line in live.splitlines() if line.startswith("     hook")]


@pytest.mark.parametrize(
    ("reply", "code"),
    [(HELLO, 0), ({"fail": "no such model", "code": "INVALID_REQUEST"}, 1)],
    ids=["completed", "failed"],
)
def test_the_end_of_a_session_is_told(*, user, project, script, write_hooks, reply, code):
    """Also where the model has failed; and what fails then is heard."""
    write_hooks(user, {"SessionEnd": [patient(SAVES, "echo 'too late' >&2; exit 1")]})

    done = run("Go.", "--model", script(reply))

    assert code == done.exit_code
    assert "SessionEnd" == json.loads((project / "payload").read_text())["hook_event_name"]
    assert "SessionEnd hook" in done.stderr
    assert "too late" in done.stderr


posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")


@pytest.fixture
def start(start_in, project):
    """Start ``dshpy run`` in the project."""
    return lambda *arguments: start_in(project, *arguments)


def waits(name: str) -> str:
    return f"echo $$ >{name}.new; mv {name}.new {name}; sleep 600"


@posix
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["int", "term", "hup"]
)
def test_a_signal_lets_the_end_be_told(*, user, project, script, start, write_hooks, number, code, pid_in):
    """The turn is cancelled, its hooks hear of the end, and the exit code tells of the signal."""
    write_hooks(user, {"SessionEnd": [patient(SAVES)]})
    process = start("--model", script({"tools": [bash(waits("pid"))]}, HELLO))
    pid_in(project / "pid")

    process.send_signal(number)
    stdout, _ = process.communicate(timeout=LIMIT_S)

    assert code == process.returncode
    assert "aborted" == json.loads(stdout.splitlines()[-1])["end"]["kind"]
    payload = json.loads((project / "payload").read_text())
    assert ("SessionEnd", "other") == (payload["hook_event_name"], payload["reason"])


@posix
def test_an_end_that_hangs_is_bounded(*, user, project, script, start, write_hooks, has_ended, pid_in):
    """After SIGTERM a hook of the end has its time and no more; that it had too little is told."""
    write_hooks(user, {"SessionEnd": [patient(waits("end"), timeout_s=5)]})
    process = start("--model", script({"tools": [bash(waits("pid"))]}, HELLO))
    pid_in(project / "pid")

    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=LIMIT_S)

    assert 143 == process.returncode
    assert 1 == stderr.count(b"timeout: it did not end within 5 s and was ended")
    assert has_ended(pid_in(project / "end"))


@posix
@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])
def test_a_second_interrupt_waits_for_no_hook(*, user, project, script, start, write_hooks, has_ended, first, pid_in):
    """It quits while a hook of the end would still have a minute; the hook ends all the same."""
    write_hooks(user, {"SessionEnd": [patient(waits("end"))]})
    process = start("--model", script({"tools": [bash(waits("pid"))]}, HELLO))
    pid_in(project / "pid")

    process.send_signal(first)
    hook = pid_in(project / "end")
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=LIMIT_S)

    assert 130 == process.returncode
    assert b'"end"' not in stdout.splitlines()[-1]  # which a run that had waited would have said
    assert b"timeout" not in stderr
    assert has_ended(hook)


@posix
def test_a_signal_while_a_session_starts(*, user, project, script, start, write_hooks, has_ended, pid_in):
    """The hook that everybody waits for ends, no model is asked, and the end is told."""
    write_hooks(user, {"SessionStart": [waits("begin")], "SessionEnd": [patient(SAVES)]})
    process = start("--model", script())
    hook = pid_in(project / "begin")

    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT_S)

    assert 143 == process.returncode
    assert has_ended(hook)
    assert "SessionEnd" == json.loads((project / "payload").read_text())["hook_event_name"]


def test_hooks_do_not_inherit_the_key(user, project, script, write_hooks, monkeypatch):
    """What the run was given for the model is for the model, unless a hook's file asks for it by name."""
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-top-secret")
    passed = {"hooks": [{"command": "env >passed", "passEnv": ["DEEPSEEK_API_KEY"]}]}
    write_hooks(user, {"UserPromptSubmit": ["env >scrubbed", passed]})

    assert 0 == run("Go.", "--model", script(HELLO)).exit_code

    line = "DEEPSEEK_API_KEY=sk-top-secret\n"
    assert [False, True] == [line in (project / name).read_text() for name in ("scrubbed", "passed")]


def test_options_that_contradict_each_other(script):
    """A mirror is for hooks."""
    done = run("Go.", "--no-hooks", "--hook-mirror", "--model", script(HELLO))

    assert (2, "") == (done.exit_code, done.stdout)
    assert "--no-hooks and --hook-mirror contradict each other" in done.stderr
