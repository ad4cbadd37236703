"""``dshpy run`` as a process: signals, and readers that go away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dsh_cli import main

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")

LIMIT_S = 60
# Ends by itself only long after the test; SIGTERM does not end it.
STUBBORN = "trap '' TERM INT; echo $$ >pid.new; mv pid.new pid; for i in $(seq 600); do sleep 1; done"
PATIENT = "echo $$ >pid.new; mv pid.new pid; sleep 600"


def bash(command: str) -> dict[str, object]:
    return {"name": "bash", "arguments": {"command": command, "description": "Do it"}}


@pytest.fixture
def start(start_in, tmp_path):
    """Start ``dshpy run`` in ``tmp_path``."""
    return lambda *arguments: start_in(tmp_path, *arguments)


def stored_events(tmp_path: Path) -> list[bytes]:
    """Return what ``cat`` prints of the one session."""
    done = CliRunner().invoke(main, ["cat", "@latest", "--root", str(tmp_path / "home" / "sessions")])
    assert 0 == done.exit_code, done.stderr
    return done.stdout.encode().splitlines()


@pytest.mark.parametrize(
    "told",
    [(signal.SIGINT, 130, "user"), (signal.SIGTERM, 143, "disposed"), (signal.SIGHUP, 129, "disposed")],
    ids=["int", "term", "hup"],
)
def test_a_signal_cancels_the_turn(start, script, tmp_path, *, has_ended, told, pid_in):
    """The command's tree ends, the turn is closed as aborted, in the output and on disk, and the code tells which."""
    number, code, cause = told
    process = start("--model", script({"tools": [bash(PATIENT), bash("touch later")]}, {"text": "x"}))
    command = pid_in(tmp_path / "pid")

    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=LIMIT_S)

    reason = {"kind": "aborted", "reason": {"kind": cause}}
    _, *events, end = stdout.splitlines()
    assert (code, {"end": reason}) == (process.returncode, json.loads(end))
    assert reason == json.loads(events[-1])["data"]["reason"]
    assert events == stored_events(tmp_path)
    assert has_ended(command)
    assert not (tmp_path / "later").exists()
    assert b"Traceback" not in stderr


def test_a_signal_while_the_model_is_silent(start, script, tmp_path):
    """The wait for an answer ends, too."""
    process = start("--model", script({"delay_ms": 600_000, "text": "never"}))
    for line in process.stdout:
        if b"request/context" in line:
            break

    process.send_signal(signal.SIGINT)
    process.communicate(timeout=LIMIT_S)

    assert 130 == process.returncode
    assert {"kind": "aborted", "reason": {"kind": "user"}} == json.loads(stored_events(tmp_path)[-1])["data"]["reason"]


def test_an_interrupt_before_anything_has_begun(start, tmp_path):
    """It ends like any other one, and makes no session."""
    pipe = tmp_path / "script"
    os.mkfifo(pipe)
    process = start("--model", f"scripted:{pipe}")
    with pipe.open("wb"):  # open as soon as it is read
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=LIMIT_S)

    assert (130, b"", b"") == (process.returncode, stdout, stderr)
    assert not (tmp_path / "home").exists()


def test_a_second_interrupt_quits_at_once(start, script, tmp_path, *, environment, has_ended, pid_in):
    """It does not wait for a command that will not end; that ends all the same, and the log can be gone on with."""
    process = start("--model", script({"tools": [bash(STUBBORN)]}, {"text": "x"}))
    command = pid_in(tmp_path / "pid")

    process.send_signal(signal.SIGINT)
    assert b"Ctrl-C again quits" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    stdout, _ = process.communicate(timeout=LIMIT_S)

    assert 130 == process.returncode
    assert b'"end"' not in stdout.splitlines()[-1]
    assert has_ended(command)
    again = start("--model", script({"text": "back"}), "--resume", "@latest")
    assert b'{"end":{"kind":"completed"}}' == again.communicate(timeout=LIMIT_S)[0].splitlines()[-1]


def test_a_signal_that_was_ignored_stays_so(environment, script, tmp_path, pid_in):
    """As a shell starts what runs in the background, and ``nohup`` what outlives its terminal."""
    model = script({"tools": [bash("echo $$ >pid.new; mv pid.new pid; until [ -e go ]; do sleep 0.05; done")]}, {})
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.executable, sys.argv[1:])"
    )
    command = [sys.executable, "-m", "dsh_cli", "run", "Go.", "--yes", "--json", "--model", model]
    process = subprocess.Popen(
        [sys.executable, "-c", ignoring, *command], cwd=tmp_path, env=environment, stdout=subprocess.PIPE
    )
    pid_in(tmp_path / "pid")

    process.send_signal(signal.SIGHUP)
    (tmp_path / "go").touch()
    process.communicate(timeout=LIMIT_S)

    assert 0 == process.returncode


def test_a_reader_that_goes_away_cancels_the_turn(start, script, tmp_path, has_ended, pid_in):
    """Nobody watches any more what the model does: it stops, the log is whole, and the code is that of SIGPIPE."""
    once_closed = "echo $$ >pid.new; mv pid.new pid; until [ -e go ]; do sleep 0.05; done"
    process = start("--model", script({"tools": [bash(once_closed), bash("touch later")]}, {"text": "x"}))
    pid_in(tmp_path / "pid")

    process.stdout.close()
    (tmp_path / "go").touch()
    stderr = process.stderr.read()

    assert (141, b"") == (process.wait(timeout=LIMIT_S), stderr)
    reason = json.loads(stored_events(tmp_path)[-1])["data"]["reason"]
    assert {"kind": "aborted", "reason": {"kind": "user"}} == reason
    assert not (tmp_path / "later").exists()


def test_output_that_cannot_be_written_is_an_error(environment, script, tmp_path):
    """A full disk under the output is no reader that has enough."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full here")
    command = [sys.executable, "-m", "dsh_cli", "run", "Go.", "--yes", "--model", script({"tools": [bash("touch x")]})]
    with full.open("wb") as out:
        done = subprocess.run(
            command, check=False, cwd=tmp_path, env=environment, stdout=out, stderr=subprocess.PIPE, timeout=LIMIT_S
        )

    assert 4 == done.returncode
    assert os.strerror(28) in done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert not (tmp_path / "x").exists()
