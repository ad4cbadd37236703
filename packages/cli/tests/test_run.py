"""``dshpy run``: what it tells, what it lets run, which session it works in, and how it ends."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from dsh_agent import PromptDecision
from dsh_cli import main
from dsh_cli._approval import AskFirst

HELLO = {"text": "Hello."}


def bash(command: str, **more: object) -> dict[str, object]:
    return {"name": "bash", "arguments": {"command": command, "description": "Do it", **more}}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, and no key."""
    for name in ("DEEPSEEK_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return tmp_path / "home"


def dshpy(*arguments: object, stdin: str | bytes = ""):
    return CliRunner().invoke(main, [str(each) for each in arguments], input=stdin, catch_exceptions=False)


def run(*arguments: object, stdin: str | bytes = ""):
    return dshpy("run", *arguments, stdin=stdin)


def lines(done) -> list[dict[str, object]]:
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def types(told: list[dict[str, object]]) -> list[object]:
    return [line["type"] for line in told if "type" in line]


def results(told: list[dict[str, object]]) -> list[str]:
    events = [line for line in told if line.get("type") == "tool/result"]
    return [event["data"]["message"]["content"][0]["text"] for event in events]


def test_the_conversation_for_people(script):
    """Who the session is, what was said and done in its order, how it ended; no colours, and results cut short."""
    model = script({"text": "I count.", "tools": [bash("seq 1 50")]}, {"text": "Counted."})

    done = run("Count to 50.", "--model", model, "--yes")

    assert (0, "") == (done.exit_code, done.stderr)
    assert done.stdout.startswith("  session │ session-")
    head = done.stdout.index("assistant │ I count.\n")
    assert done.stdout[head:] == "".join(
        [
            "assistant │ I count.\n     bash │ seq 1 50\n   result │ 1\n",
            *(f"          │ {number}\n" for number in range(2, 11)),
            "          │ … 40 more lines\nassistant │ Counted.\n      end │ completed\n",
        ]
    )
    assert "user │ Count to 50." in done.stdout


def test_json_is_the_session_s_events(script):
    """First who it is, last how it ended; between them each event in the very bytes that ``cat`` prints."""
    model = script({"tools": [bash("echo out")]}, HELLO)

    done = run("Say it.", "--model", model, "--yes", "--json")

    first, *events, last = done.stdout.splitlines()
    session = json.loads(first)
    assert {"session_id": session["session_id"], "cwd": os.getcwd(), "from_seq": 0} == session
    assert {"end": {"kind": "completed"}} == json.loads(last)
    assert dshpy("cat", session["session_id"]).stdout.splitlines() == events
    assert ["out\n"] == [text for text in results(lines(done)) if text.startswith("out")]


def test_what_ends_with_the_run_is_told_before_its_end(script):
    """A background job ends with the run; its event is the session's, and the end is the last line all the same."""
    model = script({"tools": [bash("sleep 600", run_in_background=True)]}, HELLO)

    told = lines(run("Start it.", "--model", model, "--yes", "--json"))

    assert ["turn/end", "job/settled"] == types(told)[-2:]
    assert {"end": {"kind": "completed"}} == told[-1]


def test_without_a_terminal_commands_are_refused(script):
    """The model is told why, stderr says once what would allow it, nothing ran; reading needs no leave."""
    Path("seen.txt").write_text("contents")
    write = {"name": "write", "arguments": {"file_path": "new.txt", "content": "x"}}
    read = {"name": "read", "arguments": {"file_path": "seen.txt"}}
    model = script({"tools": [bash("touch ran"), write, read]}, HELLO)

    done = run("Try.", "--model", model, "--json")

    told = lines(done)
    refused_bash, refused_write, contents = results(told)
    assert "Error: bash was refused: there is nobody to ask" in refused_bash
    assert "Error: write was refused: there is nobody to ask" in refused_write
    assert "contents" in contents
    assert ["seen.txt"] == [path.name for path in Path().iterdir()]
    assert 1 == done.stderr.count("--yes")
    decided = [line["data"]["outcome"] for line in told if line.get("type") == "approval/decided"]
    assert ["rejected", "rejected"] == decided


def test_yes_lets_them_run_unasked(script):
    """No question stands in the log."""
    write = {"name": "write", "arguments": {"file_path": "new.txt", "content": "x"}}
    model = script({"tools": [bash("touch ran"), write]}, HELLO)

    told = lines(run("Do.", "--model", model, "--yes", "--json"))

    assert ["new.txt", "ran"] == sorted(path.name for path in Path().iterdir())
    assert "approval/asked" not in types(told)


def test_a_session_is_resumed(script, tmp_path):
    """Its id and directory stay, the model sees what was said before, and only what is new is told."""
    other = tmp_path / "other"
    other.mkdir()
    first = lines(run("One.", "--model", script(HELLO), "--cwd", other, "--json"))
    session_id = first[0]["session_id"]

    done = run("Two.", "--model", script({"tools": [bash("pwd")]}, HELLO), "--resume", "@latest", "--yes", "--json")

    began, *events, _ = lines(done)
    facts = {"session_id": session_id, "cwd": str(other), "resumed": True}
    assert facts | {"from_seq": began["from_seq"]} == began
    assert f"{other}\n" in results(events)
    assert dshpy("cat", session_id, "--from-seq", began["from_seq"]).stdout == done.stdout.partition("\n")[2].replace(
        '{"end":{"kind":"completed"}}\n', ""
    )
    said = [json.loads(line) for line in dshpy("cat", session_id, "--messages").stdout.splitlines()]
    assert ["One.", "Two."] == [m["content"][0]["text"] for m in said if m["source"]["kind"] == "user"]


def test_a_session_is_named_by_its_log(script, monkeypatch):
    """A path needs no root; the sessions of the folder around it are where the run goes on."""
    session_id = lines(run("One.", "--model", script(HELLO), "--json"))[0]["session_id"]
    (log,) = Path(os.environ["DSH_HOME"]).glob("sessions/*/*/*.zstd")
    monkeypatch.setenv("DSH_HOME", os.fspath(Path("elsewhere").resolve()))

    told = lines(run("Two.", "--model", script(HELLO), "--resume", log, "--json"))

    assert session_id == told[0]["session_id"]
    assert dshpy("cat", log).stdout.count('"turn/start"') == 2


def test_a_session_of_a_home_and_of_a_database(script, tmp_path):
    """--home moves home and sessions, --root the sessions alone; both are looked in again."""
    database = f"sqlite:///{tmp_path}/sessions.db"
    for place in (["--home", tmp_path / "second"], ["--root", database]):
        first = lines(run("One.", "--model", script(HELLO), "--json", *place))
        second = lines(run("Two.", "--model", script(HELLO), "--json", "--resume", "@latest", *place))

        assert first[0]["session_id"] == second[0]["session_id"]
    assert not (tmp_path / "home" / "sessions").exists()


def test_a_session_is_forked(script):
    """At an event, or at its end; the fork has the history and its own id, and the original keeps every byte."""
    model = script({"text": "Before.", "tools": [bash("true")]}, {"text": "After."})
    origin = lines(run("One.", "--model", model, "--yes", "--json"))
    session_id = origin[0]["session_id"]
    (log,) = Path(os.environ["DSH_HOME"]).glob("sessions/*/*/*.zstd")
    before = log.read_bytes()
    call = next(line["seq"] for line in origin if line.get("type") == "tool/call")

    inside = lines(run("Two.", "--model", script(HELLO), "--fork", f"{session_id}@{call}", "--json"))
    at_end = lines(run("Two.", "--model", script(HELLO), "--fork", session_id, "--json"))

    last = origin[-2]["seq"]
    assert {"session_id": session_id, "seq": call} == inside[0]["forked"]
    assert {"session_id": session_id, "seq": last} == at_end[0]["forked"]
    assert (call + 1, last + 1) == (inside[0]["from_seq"], at_end[0]["from_seq"])
    assert "session/end-seed" == inside[1]["type"] == at_end[1]["type"]
    assert 3 == len({told[0]["session_id"] for told in (origin, inside, at_end)})
    assert before == log.read_bytes()
    assert "After." not in dshpy("cat", inside[0]["session_id"], "--messages").stdout


def test_a_fork_for_people_begins_with_what_is_new(script):
    """It says where it comes from; what closes the inherited turn is history."""
    origin = lines(run("One.", "--model", script({"tools": [bash("true")]}, HELLO), "--yes", "--json"))
    session_id = origin[0]["session_id"]
    call = next(line["seq"] for line in origin if line.get("type") == "tool/call")

    done = run("Two.", "--model", script(HELLO), "--fork", f"{session_id}@{call}")

    head, *rest = done.stdout.splitlines()
    assert head.endswith(f" in {Path.cwd()}, forked from {session_id} at {call}")
    assert ["   turn 2 │", "     user │ Two.", "assistant │ Hello.", "      end │ completed"] == rest


@pytest.mark.parametrize(
    ("reply", "kind", "code"),
    [
        ({"text": "All."}, "completed", 0),
        ({"text": "Half.", "finish": "max-tokens"}, "max-tokens", 5),
        ({"fail": "no such model", "code": "INVALID_REQUEST"}, "error", 1),
    ],
)
def test_the_exit_code_tells_how_the_turn_ended(script, reply, kind, code):
    """One code for each way, and the reason is shown; a failure comes without a traceback."""
    done = run("Go.", "--model", script(reply))

    assert code == done.exit_code
    assert f"end │ {kind}" in done.stdout
    assert reply.get("fail", "") in done.stdout
    assert "" == done.stderr


def test_a_blocked_turn_has_its_exit_code(script, monkeypatch):
    """An extension may keep a prompt from the model."""

    async def block(self: AskFirst, event: object) -> PromptDecision:
        return PromptDecision(block="not today")

    monkeypatch.setattr(AskFirst, "prompt_submit", block)
    done = run("Go.", "--model", script(HELLO))

    assert 6 == done.exit_code
    assert "end │ blocked" in done.stdout


def test_retries_are_shown(script):
    """What the loop tries again is no failure, and nobody wonders why it takes so long."""
    model = script({"fail": "slow down", "code": "RATE_LIMIT", "retry_after_ms": 1}, HELLO)

    done = run("Go.", "--model", model)

    assert 0 == done.exit_code
    assert "retry │ 1 of " in done.stdout
    assert "slow down" in done.stdout


def test_an_unwritable_log_ends_the_run(script, tmp_path):
    """What cannot be made durable is not done, and the message says what is wrong."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "sessions").write_text("no database")

    done = run("Go.", "--model", script(HELLO), "--yes")

    assert 4 == done.exit_code
    assert str(tmp_path / "home" / "sessions") in done.stderr


def test_the_task_comes_from_standard_input(script):
    """``-`` takes all of it."""
    told = lines(run("-", "--model", script(HELLO), "--json", stdin="first\nsecond\n"))

    (message,) = [line["data"]["content"] for line in told if line.get("type") == "user/message"]
    assert [{"type": "text", "text": "first\nsecond\n"}] == message


def test_the_model_knows_where_it_is(script, tmp_path):
    """The system message names the directory and the tools."""
    told = lines(run("Go.", "--model", script(HELLO), "--json", "--cwd", tmp_path))

    (system,) = [line["data"]["message"] for line in told if line.get("type") == "system/message"]
    assert str(tmp_path) in system["content"][0]["text"]
    (header,) = [line["data"]["header"] for line in told if line.get("type") == "request/header"]
    assert {"bash", "read", "write", "edit", "glob", "grep"} <= {tool["name"] for tool in header["tools"]}


def test_what_a_model_says_cannot_steer_the_terminal(script):
    """Control characters are spelled out, in text, in calls and in the names of tools."""
    model = script({"text": "a\x1b[31mb", "tools": [{"name": "x\x1b[0m", "arguments": {"k": "\x07"}}]}, HELLO)

    done = run("Go.", "--model", model)

    assert "a\\x1b[31mb" in done.stdout
    assert not [character for character in done.stdout if character < " " and character != "\n"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([""], 2, "TASK is empty"),
        ([" \n", "--model", "{script}"], 2, "TASK is empty"),
        (["-", "--model", "{script}"], 2, "Standard input holds no task"),
        (["go"], 2, "DeepSeek needs a key; set DEEPSEEK_API_KEY"),
        (["go", "--model", "deepseek:other"], 2, "DeepSeek needs a key; set DEEPSEEK_API_KEY"),
        (["go", "--model", "openai:https://models.example/v1"], 2, "set OPENAI_API_KEY"),
        (["go", "--model", "openai:https://me:secret@models.example"], 2, "holds a login"),
        (["go", "--model", "openai:"], 2, "it is deepseek, deepseek:NAME, openai:URL"),
        (["go", "--model", "claude:https://me:secret@models.example"], 2, "it is deepseek, deepseek:NAME, openai:URL"),
        (["go", "--model", "scripted:{tmp}/absent"], 2, "cannot be read"),
        (["go", "--deepseek-api-key", "secret"], 2, "Keys are taken from the environment alone"),
        (["go", "--model", "{script}", "--resume", "a", "--cwd", "."], 2, "--resume and --cwd contradict each other"),
        (["go", "--model", "{script}", "--resume", "a", "--fork", "b"], 2, "--resume and --fork contradict each other"),
        (["go", "--model", "{script}", "--fork", "a", "--cwd", "."], 2, "--fork and --cwd contradict each other"),
        (["go", "--model", "{script}", "--fork", "a@b"], 2, "'b' is no seq"),
        (["go", "--model", "{script}", "--fork", "a@-1"], 2, "'-1' is no seq"),
        (["go", "--model", "{script}", "--fork", "@latest@999"], 2, "cannot be forked at event 999"),
        (["go", "--model", "{script}", "--resume", ""], 2, "SEL is empty"),
        (["go", "--model", "{script}", "--resume", "nobody"], 3, "session 'nobody' was not found"),
        (["go", "--model", "{script}", "--cwd", "{tmp}/absent"], 2, "does not exist"),
        (["go", "--model", "{script}", "--home", "{script_file}"], 2, "is a file"),
    ],
)
def test_bad_input_is_one_plain_message(script, tmp_path, arguments, code, message):
    """Nothing is asked and nothing is made; the message says what to do and repeats nothing that may be secret."""
    model = script(HELLO)
    run("Earlier.", "--model", model)
    names = {"script": script(HELLO), "tmp": tmp_path, "script_file": model.removeprefix("scripted:")}

    done = run(*(argument.format(**names) for argument in arguments))

    assert (code, "") == (done.exit_code, done.stdout)
    assert message in done.stderr
    assert "secret" not in done.stderr
    assert 1 == len(dshpy("ls").stdout.splitlines()) - 1


def test_help_shows_no_key(monkeypatch):
    """The options behind the variables are nobody's business, and their values least of all."""
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-top-secret")

    done = run("--help")

    assert "DEEPSEEK_API_KEY" in done.stdout
    assert "sk-top" not in done.stdout
    assert "--deepseek-api-key" not in done.stdout
