"""A PostgreSQL server of our own on a loopback port: for tests, and to try a store on (`python …/postgres.py`).

A keeper process starts the server and ends it when told to, or when whoever started the keeper is gone. What the
server leaves behind when it is killed falls to the keeper, which ends and reaps it, so that nothing is ever left.
Standard library only. The server syncs as it does by default: what it acknowledged survives its being killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

PR_SET_CHILD_SUBREAPER = 36
START_TIMEOUT_S = 60
USER = "dsh"
_LOCK_LINES = 7
"""In postmaster.pid, the line that names the segment of shared memory."""


class Unavailable(Exception):
    """A server cannot be had on this machine; the message says why."""


class Server:
    """A server that runs until ``close``; it can be killed and started again on the same port and data."""

    def __init__(self) -> None:
        """Start it. Raises ``Unavailable``."""
        programs = find_programs()
        self.host = "127.0.0.1"
        self.password = secrets.token_hex(16)
        self.folder = Path(tempfile.mkdtemp(prefix="dsh-postgres-"))
        command = [sys.executable, str(Path(__file__).resolve()), "keep", str(programs), str(self.folder)]
        self._keeper = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            self.port = int(self._ask(self.password))
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """Where its database is, for SQLAlchemy."""
        return self.url_of("postgres")

    def url_of(self, database: str, *, port: int | None = None, **query: str) -> str:
        """Return the URL of a database; ``port`` is that of something in between."""
        rest = "&".join(f"{name}={value}" for name, value in query.items())
        place = f"{self.host}:{port or self.port}/{database}"
        return f"postgresql+psycopg://{USER}:{self.password}@{place}{'?' if rest else ''}{rest}"

    def kill(self) -> None:
        """Kill every process of the server, as ``kill -9`` does; returns when they are gone."""
        self._ask("kill")

    def start(self) -> None:
        """Start the server again."""
        self._ask("start")

    def stop(self) -> None:
        """Shut it down in good order."""
        self._ask("stop")

    @property
    def log(self) -> str:
        """What the server has written about itself."""
        return (self.folder / "log").read_text(errors="replace")

    def close(self) -> None:
        """End the server and its keeper, which removes the data."""
        if self._keeper.stdin is not None and not self._keeper.stdin.closed:
            with contextlib.suppress(OSError):
                self._keeper.stdin.write("end\n")  # its end alone is not seen while a fork of this process lives
                self._keeper.stdin.close()
        self._keeper.wait()
        if self._keeper.stdout is not None:
            self._keeper.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, what: str) -> str:
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._keeper.stdin.write(f"{what}\n")
            self._keeper.stdin.flush()
        done, _, answer = self._keeper.stdout.readline().strip().partition(" ")
        if done != "ok":
            raise Unavailable(f"the PostgreSQL server could not be had: {answer or 'its keeper has died'}")
        return answer


def find_programs() -> Path:
    """Return the folder of the server's programs. Raises ``Unavailable``."""
    found = [Path(each) for each in os.environ.get("PATH", "").split(os.pathsep) if each]
    versions = Path("/usr/lib/postgresql")  # Debian keeps them out of the way
    if versions.is_dir():
        found += sorted((each / "bin" for each in versions.iterdir()), key=lambda each: -_number(each.parent.name))
    if shutil.which("pg_config"):
        asked = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=False)
        found.append(Path(asked.stdout.strip() or "/nowhere"))
    for folder in found:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise Unavailable("no PostgreSQL server is installed (initdb and postgres); on Debian: apt-get install postgresql")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


class _Keeper:
    """Owns the server's processes. It alone starts, kills and reaps them."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._data = folder / "data"
        self._server: subprocess.Popen[bytes] | None = None
        self._user: Mapping[str, Any] = {}
        if os.geteuid() == 0:  # the server refuses to run as root
            names = {entry.pw_name: entry for entry in pwd.getpwall()}
            entry = names.get("postgres") or names["nobody"]
            self._user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
            os.chown(folder, entry.pw_uid, entry.pw_gid)

    def make(self, password: str) -> int:
        """Make the data and start the server; return its port."""
        secret = self._folder / "password"
        secret.write_text(password)
        secret.chmod(0o644)  # inside a private folder
        made = self._run(
            *("initdb", f"--pgdata={self._data}", f"--username={USER}", f"--pwfile={secret}", "--no-sync"),
            *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-instructions"),
        )
        secret.unlink()
        if made.returncode:
            raise Unavailable(made.stderr.decode(errors="replace").strip().replace("\n", "; "))
        self._port = _free_port()
        self.start()
        return self._port

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self._port,
            "unix_socket_directories": "",
            "dynamic_shared_memory_type": "mmap",  # lies in the folder, and goes with it
            "shared_buffers": "32MB",
            "max_connections": 200,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._programs / "postgres"), "-D", str(self._data), *options]
        with (self._folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder, **self._user
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        status = self._data / "postmaster.pid"
        while time.monotonic() < deadline and self._server.poll() is None:
            with contextlib.suppress(OSError):
                lines = status.read_text().splitlines()
                if lines and lines[0] == str(self._server.pid) and lines[-1].strip() == "ready":
                    return
            time.sleep(0.01)
        end = (self._folder / "log").read_text(errors="replace").strip().splitlines()[-3:]
        self.kill()
        raise Unavailable("; ".join(end))

    def stop(self) -> None:
        """Shut the server down; who is connected is cut off."""
        if self._server is not None:
            self._server.send_signal(signal.SIGINT)
            self._server.wait()
            self._server = None
        _reap()

    def kill(self) -> None:
        """Kill the server and all that it has started."""
        if self._server is None:
            return
        self._server.kill()
        self._server.wait()
        self._server = None
        while children := _reap():  # the orphans of the server are this process's now
            for pid in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)

    def end(self) -> None:
        """Kill the server, and remove the segment of shared memory that a killed one leaves."""
        lines = []
        with contextlib.suppress(OSError):
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        self.kill()
        if len(lines) >= _LOCK_LINES and len(numbers := lines[_LOCK_LINES - 1].split()) == 2:
            ctypes.CDLL(None).shmctl(int(numbers[1]), 0, None)

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [str(self._programs / program), *arguments]
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, cwd=self._folder, **self._user
        )


def _free_port() -> int:
    """Return a port that nobody uses, outside the range that outgoing connections take: it stays free meanwhile."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _reap() -> list[int]:
    """Reap what has ended, and return the children that live on."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return [int(pid) for pid in Path("/proc/thread-self/children").read_text().split()]


def _keep(programs: Path, folder: Path) -> None:
    """Do what standard input says, line by line; ``end``, and the end of it, end the server."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keeper = _Keeper(programs, folder)
    acts = {"start": keeper.start, "stop": keeper.stop, "kill": keeper.kill}
    made = False
    try:
        for line in sys.stdin:
            if line == "end\n":
                break
            try:
                answer: object = ""
                if made:
                    acts[line.strip()]()
                else:
                    answer, made = keeper.make(line.strip()), True
                print("ok", answer, flush=True)
            except (Unavailable, OSError) as error:
                print("failed", error, flush=True)
    finally:
        keeper.end()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def serve() -> Iterator[Server]:
    """Run a server for as long as the block does. Raises ``Unavailable``."""
    if sys.platform != "linux":
        raise Unavailable("the server of the tests is kept with means of Linux")
    with Server() as server:
        yield server


def main() -> None:
    """Run a server until standard input ends; the first line printed is its URL."""
    with serve() as server:
        print(server.url, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            sys.stdin.read()


if __name__ == "__main__":
    if sys.argv[1:2] == ["keep"]:
        _keep(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        main()
