"""``dshpy run`` on a terminal: questions, answers, and text that appears while the model speaks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminals")


def bash(command: str) -> dict[str, object]:
    return {"name": "bash", "arguments": {"command": command, "description": "Do it"}}


@pytest.fixture
def arguments(script, tmp_path):
    """Return the arguments of a run in ``tmp_path`` that calls these tools, then says that it is done."""

    def of(*tools: dict[str, object]) -> list[str]:
        model = script({"text": "I will.", "tools": list(tools)}, {"text": "Done."})
        return ["run", "Go.", "--model", model, "--cwd", str(tmp_path)]

    return of


def test_yes_runs_the_command(terminal, arguments, tmp_path):
    """The question shows all that would run, once; after the answer the result follows."""
    screen = terminal(*arguments(bash("touch ran; echo result of it")))

    screen.wait_for("allow?")
    assert not (tmp_path / "ran").exists()
    screen.type("y\n")

    assert 0 == screen.finish()
    assert (tmp_path / "ran").exists()
    assert 1 == screen.shown.count("touch ran; echo result of it")
    assert "result of it\n" in screen.shown.partition("allow?")[2]
    assert "Done." in screen.shown


def test_no_refuses_and_tells_why(terminal, arguments, tmp_path):
    """The reason reaches the model; what is neither yes nor no is asked again."""
    out = tmp_path / "out"
    with out.open("wb") as stdout:
        screen = terminal(*arguments(bash("touch ran")), "--json", stdout=stdout)
        screen.wait_for("allow?")
        screen.type("perhaps\n")
        screen.wait_for("allow?", times=2)
        screen.type("n use mkdir\n")
        assert 0 == screen.finish()

    assert not (tmp_path / "ran").exists()
    assert "touch ran" in screen.shown
    told = [json.loads(line) for line in out.read_text().splitlines()]
    (result,) = [line["data"]["message"]["content"] for line in told if line.get("type") == "tool/result"]
    assert "Error: the user refused this call; do not try it in another way: use mkdir" == result[0]["text"]


def test_the_end_of_input_refuses(terminal, arguments, tmp_path):
    """Ctrl-D is no yes."""
    screen = terminal(*arguments(bash("touch ran")))

    screen.wait_for("allow?")
    screen.type("\x04")

    assert 0 == screen.finish()
    assert "the user refused" in screen.shown
    assert not (tmp_path / "ran").exists()


def test_what_was_typed_before_the_question_is_no_answer(terminal, script, tmp_path):
    """A yes to something else, or to nothing, lets nothing run."""
    first = {"name": "read", "arguments": {"file_path": "."}}
    model = script({"text": "Typed?", "tools": [first]}, {"delay_ms": 1500, "tools": [bash("touch ran")]}, {})
    screen = terminal("run", "Go.", "--model", model, "--cwd", str(tmp_path))
    screen.wait_for("failed")
    screen.type("y\n")

    screen.wait_for("allow?")
    screen.type("n\n")

    assert 0 == screen.finish()
    assert "the user refused" in screen.shown
    assert not (tmp_path / "ran").exists()


def test_files_are_asked_about_and_reading_is_not(terminal, arguments, tmp_path):
    """One question for each change, with the file and what it would get; of long text the beginning."""
    (tmp_path / "notes").write_text("old words\n")
    content = "\n".join(f"row {number}" for number in range(100))
    read = {"name": "read", "arguments": {"file_path": "notes"}}
    write = {"name": "write", "arguments": {"content": content, "file_path": "new"}}
    edit = {"name": "edit", "arguments": {"file_path": "notes", "old_string": "old", "new_string": "new"}}
    screen = terminal(*arguments(read, write, edit))

    shown = screen.wait_for("allow?")
    assert "    write │ new\n          │ content: row 0\n" in shown
    assert "          │ … 80 more lines\n" in shown
    screen.type("y\n")
    shown = screen.wait_for("allow?", times=2)
    assert "     edit │ notes\n          │ old_string: old\n          │ new_string: new\n" in shown
    screen.type("y\n")

    assert 0 == screen.finish()
    assert 2 == screen.shown.count("allow?")
    assert (content, "new words\n") == ((tmp_path / "new").read_text(), (tmp_path / "notes").read_text())


def test_yes_asks_nothing(terminal, arguments, tmp_path):
    """--yes is for terminals, too."""
    screen = terminal(*arguments(bash("touch ran")), "--yes")

    assert 0 == screen.finish()
    assert "allow?" not in screen.shown
    assert (tmp_path / "ran").exists()


def test_an_interrupt_at_the_question_cancels_the_turn(terminal, arguments, tmp_path):
    """Nothing runs, and the turn is closed."""
    screen = terminal(*arguments(bash("touch ran")))

    screen.wait_for("allow?")
    screen.type("\x03")

    assert 130 == screen.finish()
    assert "end │ aborted" in screen.shown
    assert not (tmp_path / "ran").exists()


def test_interrupts_reach_the_command_through_us_alone(terminal, arguments, tmp_path, has_ended):
    """Ctrl-C while a command runs ends its tree and the turn; a second one quits although the command resists."""
    resists = "trap '' TERM INT; echo $$ >pid; echo is up >up; for i in $(seq 600); do sleep 1; done"
    once = terminal(*arguments(bash("echo $$ >pid; echo is up >up; sleep 600")), "--yes")
    pid = wait_for_pid(tmp_path)
    once.type("\x03")
    assert 130 == once.finish()
    assert has_ended(pid)

    (tmp_path / "up").unlink()
    twice = terminal(*arguments(bash(resists)), "--yes")
    pid = wait_for_pid(tmp_path)
    twice.type("\x03")
    twice.wait_for("Ctrl-C again quits")
    twice.type("\x03")
    assert 130 == twice.finish()
    assert has_ended(pid)


def wait_for_pid(folder: Path) -> int:
    import time

    deadline = time.monotonic() + 60
    while not (folder / "up").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int((folder / "pid").read_text())


def test_colours_are_for_terminals(terminal, arguments, environment):
    """They are off where somebody wants none."""
    plain = terminal(*arguments(bash("true")), "--yes", NO_COLOR="1")
    coloured = terminal(*arguments(bash("true")), "--yes")

    assert (0, 0) == (plain.finish(), coloured.finish())
    assert "\x1b[36m" in coloured.raw
    assert "\x1b[3" not in plain.raw
