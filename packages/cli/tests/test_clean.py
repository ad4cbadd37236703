"""``dshpy env --clean``: real commands, in the place of ``dshpy``."""

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

PYTHONPATH = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)
NEEDED = {"PATH": os.environ["PATH"], "PYTHONPATH": PYTHONPATH}
DSHPY = [sys.executable, "-m", "dsh_cli"]
PRINT_ENVIRONMENT = (
    "import json, pathlib; print(json.dumps(pathlib.Path('/proc/self/environ').read_bytes().decode('latin-1')))"
)


def clean(*command: str | Path, env: dict[str, str] | None = None, stdin: str = "") -> subprocess.CompletedProcess[str]:
    argv = [*DSHPY, "env", "--clean", "--", *map(str, command)]
    given = NEEDED | (env or {})
    return subprocess.run(argv, check=False, capture_output=True, text=True, input=stdin, env=given, timeout=60)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the environment in /proc")
def test_only_what_harnesses_put_there_goes() -> None:
    """No managed name, in any case, no mark of another harness; all else is as it was, credentials and order included.

    Nor does anything come in: Python, started in the C locale, would add LC_CTYPE.
    """
    mine = {"GITHUB_TOKEN": "t", "BASH_ENV": "/x", "https_proxy": "http://me:pw@proxy", "EMPTY": "", "BYTES": "\udcff"}
    marks = {"DSH_SESSION_ID": "outer", "dsh_x": "1", "DSH_": "x", "CLAUDECODE": "1", "CODEX_THREAD_ID": "7"}

    done = clean(sys.executable, "-c", PRINT_ENVIRONMENT, env=mine | marks)

    entries = json.loads(done.stdout).encode("latin-1").split(b"\0")[:-1]
    assert [os.fsencode(f"{name}={value}") for name, value in (NEEDED | mine).items()] == entries


def test_a_locale_that_somebody_chose_stays() -> None:
    """LC_CTYPE is taken out only when Python brought it in."""
    assert "C.UTF-8\n" == clean("printenv", "LC_CTYPE", env={"LC_CTYPE": "C.UTF-8"}).stdout


def test_the_command_takes_the_place_of_dshpy() -> None:
    """Same process, same streams, its own exit code: nothing stands between."""
    argv = [*DSHPY, "env", "--clean", "sh", "-c", "echo $$; cat; echo lost >&2; exit 42"]
    process = subprocess.Popen(
        argv, env=NEEDED, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    stdout, stderr = process.communicate("typed\n", timeout=60)

    assert (f"{process.pid}\ntyped\n", "lost\n", 42) == (stdout, stderr, process.returncode)


def test_a_signal_ends_the_command_itself() -> None:
    """Whoever waits for ``dshpy`` sees the signal that ended the command."""
    assert -signal.SIGTERM == clean("sh", "-c", "kill -TERM $$").returncode


def test_a_closed_pipe_ends_the_command_as_usual() -> None:
    """Python ignores SIGPIPE, and what is ignored is inherited; the command gets it back."""
    process = subprocess.Popen([*DSHPY, "env", "--clean", "yes"], env=NEEDED, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert b"y\n" == process.stdout.read(2)
    process.stdout.close()

    assert -signal.SIGPIPE == process.wait(timeout=60)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a file that may not run, one that cannot, and a script without an interpreter."""
    for name, mode, text in (("data", 0o644, "x"), ("bare", 0o755, "x"), ("script", 0o755, "#!/nowhere/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("no-such-command", 127, "dshpy: no-such-command was not found on PATH"),
        ("{files}/absent", 127, "dshpy: {files}/absent does not exist"),
        ("{files}/data/below", 127, "dshpy: {files}/data/below does not exist"),
        ("{files}/script", 127, "or the interpreter that its first line names is missing"),
        ("{files}/data", 126, "dshpy: {files}/data cannot be run: Permission denied"),
        ("{files}/bare", 126, "dshpy: {files}/bare cannot be run: Exec format error"),
        ("{files}", 126, "dshpy: {files} cannot be run: Permission denied"),
    ],
)
def test_what_cannot_be_run(files: Path, command: str, code: int, message: str) -> None:
    """One line, and the exit codes that ``env`` and shells have for it."""
    done = clean(command.format(files=files))

    assert (code, "") == (done.returncode, done.stdout)
    assert message.format(files=files) in done.stderr
    assert 1 == done.stderr.count("\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--clean"], "--clean needs a command to run"),
        (["--clean", "--"], "--clean needs a command to run"),
        (["--clean", "--", ""], "--clean needs a command to run"),
        (["--", "ls"], "ls is run only with --clean"),
        (["--clean", "--session", "x", "--", "ls"], "--clean and --session contradict each other"),
        (["--clean", "--root", "x", "--", "ls"], "--clean and --root contradict each other"),
        (["--clean", "--json", "--", "ls"], "--clean and --json contradict each other"),
    ],
)
def test_usage(arguments: list[str], message: str) -> None:
    """Exit 2 and what to give instead; nothing runs."""
    done = CliRunner().invoke(main, ["env", *arguments])

    assert (2, "") == (done.exit_code, done.stdout)
    assert message in done.stderr
