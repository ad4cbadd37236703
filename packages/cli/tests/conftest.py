"""Sessions that tests write through our own store, scripts of models, and real processes of ``dshpy``."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dsh_persistence_jsonl import JsonlLogStore
from dsh_session import Session, SessionHeader


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user who has no hooks yet; those of whoever runs the tests are none of theirs."""
    home = tmp_path / "user"
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root that nothing has been written to yet."""
    return tmp_path / "sessions"


@pytest.fixture
def store_session(root: Path) -> Callable[..., Path]:
    """Write a session of one turn and return its log; an interrupted one stops before its tool's result.

    Without its mark it is as ``dsh`` alone would have left it, and a test may change it.
    """

    def write(
        session_id: str,
        *,
        encoding: str = "raw",
        text: str = "hello",
        times: tuple[int, int] = (1_000, 1_000),
        interrupted: bool = False,
        marked: bool = False,
        **header: Any,
    ) -> Path:
        created_at, first_time = times
        store = JsonlLogStore(root, encoding=encoding)
        session = Session(
            SessionHeader(id=session_id, created_at=created_at, **{"cwd": "/srv/project", **header}),
            clock=count(first_time).__next__,
        )
        at = {"turn": 1, "step": 1}
        session.append("turn/start", {"turn": 1})
        session.append("step/start", at)
        system = {"id": "m0", "role": "system", "content": [], "source": {"kind": "system-prompt"}}
        session.append("system/message", {**at, "message": system}, surface_op="append")
        user = {"role": "user", "content": [{"type": "text", "text": text}], "source": {"kind": "user"}, "id": "m1"}
        session.append("user/message", user, surface_op="append")
        call = {"type": "tool-call", "id": "c1", "name": "bash", "arguments": "{}"}
        source = {"kind": "model", "provider": "p", "model": "m"}
        message = {"id": "m2", "role": "assistant", "content": [call], "source": source}
        session.append("assistant/message", {**at, "message": message, "stream": []}, surface_op="append")
        session.append("tool/call", {**at, "callId": "c1", "name": "bash", "arguments": "{}"})
        session.append("plugin:acme/note", {"kept": [1.0, {"x": "\ud800"}]})
        if not interrupted:
            content = [{"type": "text", "text": "done"}]
            result = {"id": "m3", "role": "tool", "toolCallId": "c1", "source": {"kind": "tool", "callId": "c1"}}
            session.append("tool/result", {**at, "message": {**result, "content": content}}, surface_op="append")
            session.append("step/end", at)
            session.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
        with store.create(session.header) as writer:
            for seq in range(0, len(session.events), 4):
                batch = session.batch(seq)
                writer.append(type(batch)(first_seq=seq, events=batch.events[:4]))
        log = Path(store.locate(session.header).path)
        if not marked:
            log.with_name(f"{log.name}.mark").unlink()
        return log

    return write


def write_hooks(
    folder: Path, events: dict[str, list[Any]], *, name: str = ".claude/settings.json", **more: Any
) -> Path:
    """Write a configuration file below a user's home or a project: for each event its commands, or whole groups."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    groups = {event: list(map(_group, entries)) for event, entries in events.items()}
    path.write_text(json.dumps({"hooks": groups, **more}))
    return path


def _group(entry: Any) -> Any:
    return {"hooks": [{"type": "command", "command": entry}]} if isinstance(entry, str) else entry


@pytest.fixture(name="write_hooks")
def _write_hooks() -> Callable[..., Path]:
    return write_hooks


LIMIT_S = 60
"""Nothing takes as long; it keeps a test from hanging."""

# Makes the terminal on its standard input the controlling one, so that Ctrl-C is a signal, and becomes ``dshpy``.
ON_TERMINAL = """\
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "dsh_cli", *sys.argv[1:]])
"""


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., str]:
    """Write a script of these replies and return what ``--model`` calls it."""
    numbers = count()

    def write(*replies: dict[str, Any]) -> str:
        path = tmp_path / f"script-{next(numbers)}.json"
        path.write_text(json.dumps(replies))
        return f"scripted:{path}"

    return write


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What a process of ``dshpy`` finds: a home of its own, no key, no wish for colours."""
    python_path = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "user"),
        "DSH_HOME": str(tmp_path / "home"),
        "PYTHONPATH": python_path,
        "PYTHONDONTWRITEBYTECODE": "1",
        "TERM": "xterm-256color",
    }


_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def hear_signals() -> None:
    """Undo in a new process what whoever runs the tests ignores, as a shell does for its background."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture(name="hear_signals")
def _hear_signals() -> Callable[[], None]:
    return hear_signals


@pytest.fixture
def start_in(environment: dict[str, str]) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start ``dshpy run`` in a folder, without a terminal; what still runs at the end is killed."""
    started: list[subprocess.Popen[bytes]] = []

    def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "dsh_cli", "run", "Go.", "--yes", "--json", *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=hear_signals,  # noqa: PLW1509  # this process has one thread
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=60)


@pytest.fixture
def pid_in() -> Callable[[Path], int]:
    """Return the pid that a command writes into a file once it runs."""

    def wait(path: Path) -> int:
        deadline = time.monotonic() + 60
        while not path.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return int(path.read_text())

    return wait


class Terminal:
    """A terminal of 80 columns with ``dshpy`` on it."""

    def __init__(self, arguments: tuple[str, ...], environment: dict[str, str], stdout: Any) -> None:
        import fcntl
        import pty
        import struct
        import termios

        self._screen, process_side = pty.openpty()
        fcntl.ioctl(process_side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", ON_TERMINAL, *arguments],
            env=environment,
            stdin=process_side,
            stdout=process_side if stdout is None else stdout,
            stderr=process_side,
            start_new_session=True,
            preexec_fn=hear_signals,  # noqa: PLW1509  # this process has one thread
        )
        os.close(process_side)
        self._raw = ""

    @property
    def raw(self) -> str:
        """What was written, styles included."""
        return self._raw.replace("\r\n", "\n")

    @property
    def shown(self) -> str:
        """What a person has read so far."""
        return _STYLE.sub("", self.raw)

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def wait_for(self, text: str, *, times: int = 1) -> str:
        """Return what is shown once ``text`` is on the screen."""
        deadline = time.monotonic() + LIMIT_S
        while self.shown.count(text) < times:
            assert self._read(deadline), f"{text!r} never came; shown:\n{self.shown}"
        return self.shown

    def finish(self) -> int:
        """Return the exit code once the process has ended."""
        deadline = time.monotonic() + LIMIT_S
        while self._read(deadline):
            pass
        return self.process.wait(timeout=LIMIT_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=LIMIT_S)
        os.close(self._screen)

    def _read(self, deadline: float) -> bool:
        """Take in more; return whether there was any."""
        ready, _, _ = select.select([self._screen], [], [], max(0, deadline - time.monotonic()))
        try:
            data = os.read(self._screen, 65_536) if ready else b""
        except OSError:  # nobody has the other side any more
            data = b""
        self._raw += data.decode(errors="replace")
        return bool(data)


@pytest.fixture
def terminal(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Run ``dshpy`` on a terminal of its own; ``stdout`` takes its output elsewhere."""
    if sys.platform == "win32":
        pytest.skip("Windows has no such terminals")
    with contextlib.ExitStack() as opened:

        def start(*arguments: str, stdout: Any = None, **more: str) -> Terminal:
            one = Terminal(arguments, environment | more, stdout)
            opened.callback(one.close)
            return one

        yield start


@pytest.fixture
def has_ended() -> Callable[[int], bool]:
    """Wait until a process has ended, be it reaped or not; return whether it did."""

    def wait(pid: int) -> bool:
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            try:
                os.kill(pid, 0)
                if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                    return True
            except (ProcessLookupError, FileNotFoundError):
                return True
            time.sleep(0.05)
        return False

    return wait
