"""What commands can read of the ``dshpy`` that runs them: real processes of an ordinary user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="prctl and /proc are Linux's")

NOBODY = 65_534

# Walks from the shell up to init, and tells of each process whether its environment and its memory's map can be read.
LOOK_UP = """\
process=$$
while [ "$process" -gt 1 ]; do
  for file in environ maps; do
    if cat "/proc/$process/$file" >/dev/null 2>&1; then state=open; else state=closed; fi
    echo "$process $file $state"
  done
  process=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$process/status")
done"""


@pytest.fixture(scope="module")
def ordinary_user() -> list[str]:
    """A command that runs another one as nobody special: the superuser may read everything."""
    if os.geteuid() != 0:
        return []
    # Nobody may not reach an interpreter below the superuser's home, so the right to look into folders is left.
    # It opens no process's memory.
    may = "-all,+dac_read_search"
    keep = ["--securebits=+no_setuid_fixup", f"--inh-caps={may}", f"--ambient-caps={may[5:]}", f"--bounding-set={may}"]
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *keep]
    try:
        done = subprocess.run([*become, sys.executable, "-c", "0"], check=False, capture_output=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("the tests run as root, and there is no setpriv to become somebody else")
    if done.returncode != 0:
        pytest.skip(f"the tests run as root, and nobody else can be: {done.stderr.decode(errors='replace')}")
    return become


@pytest.fixture
def look_up(ordinary_user: list[str], tmp_path: Path):
    """Run a model whose shell looks at its ancestors; return our pid and what the shell saw of each, by pid."""
    if os.geteuid() == 0:
        os.chown(tmp_path, NOBODY, NOBODY)
    script = tmp_path / "script.json"
    call = {"name": "bash", "arguments": {"command": LOOK_UP, "description": "Look at the ancestors"}}
    script.write_text(json.dumps([{"tools": [call]}, {"text": "seen"}]))

    commands = {
        "loop": ["loop", "--script", str(script)],
        "run": ["run", "Look up.", "--yes", "--model", f"scripted:{script}"],
    }

    def run(*program: str, command: str = "loop") -> tuple[int, dict[int, set[str]]]:
        arguments = [*commands[command], "--json", "--home", str(tmp_path / "home")]
        path = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)
        process = subprocess.Popen(
            [*ordinary_user, sys.executable, *program, *arguments],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "MY_SECRET": "s"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        stdout, stderr = process.communicate(timeout=120)
        assert 0 == process.returncode, stderr
        told = json.loads(stdout)["events"] if command == "loop" else map(json.loads, stdout.splitlines())
        results = [event["data"]["message"] for event in told if event.get("type") == "tool/result"]
        seen: dict[int, set[str]] = {}
        for line in "".join(block["text"] for block in results[-1]["content"]).splitlines():
            pid, _, what = line.partition(" ")
            seen.setdefault(int(pid), set()).add(what)
        return process.pid, seen

    return run


@pytest.mark.parametrize("command", ["loop", "run"])
def test_a_command_cannot_read_the_harness(look_up, command) -> None:
    """Memory and environment of ``dshpy`` are closed to its commands; those of the shell and its keeper are not."""
    harness, seen = look_up("-m", "dsh_cli", command=command)

    below = list(seen)[: list(seen).index(harness)]
    assert {"environ closed", "maps closed"} == seen[harness]
    assert below
    assert {"environ open", "maps open"} == set().union(*(seen[pid] for pid in below))


def test_a_process_that_calls_the_commands_is_left_as_it_is(look_up) -> None:
    """Only the program seals itself. This is what could be read without."""
    embedding = "import sys; from dsh_cli import main; main(sys.argv[1:])"
    harness, seen = look_up("-c", embedding)

    assert {"environ open", "maps open"} == seen[harness]
