"""A Docker engine on this machine: `python docker/engine.py up | down | ping`.

`up` uses the engine that answers, else installs Debian's and starts it; it prints `running` or `started`, so that a
caller knows what it owes. `down` stops only an engine that `up` started. `ping` prints the version that answers.
Standard library only: it runs before anything is installed.

An engine started here has no bridge and writes no firewall rule: every container of this project has no network.
"""

import fcntl
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

DEFAULT_HOST = "unix:///var/run/docker.sock"
RUN = Path("/run/dsh-py-engine")
"""Where `up` keeps its lock, its log and the pid of what it started."""
PID_FILES = {Path("/var/run/docker.pid"): "dockerd", Path("/var/run/docker/containerd/containerd.pid"): "containerd"}
DATA = "/var/lib/docker"
START_TIMEOUT_S = 60
"""After a killed engine with running containers a start took 13 s; quiet ones take less than 1 s."""
STOP_TIMEOUT_S = 20


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=3)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ping() -> str | None:
    """Return the version of the engine that answers at `$DOCKER_HOST` or the usual socket, None when none does."""
    url = urlsplit(os.environ.get("DOCKER_HOST") or DEFAULT_HOST)
    connection: http.client.HTTPConnection
    if url.scheme == "unix":
        connection = _UnixConnection(url.path)
    else:
        connection = http.client.HTTPConnection(url.hostname or "localhost", url.port or 2375, timeout=3)
    try:
        connection.request("GET", "/version")
        return str(json.load(connection.getresponse())["Version"])
    except (OSError, http.client.HTTPException, ValueError, KeyError):
        return None
    finally:
        connection.close()


def _runs(pid: int, program: str) -> bool:
    """Tell whether `pid` is a live `program`; a zombie has no readable exe link, while `kill -0` still finds it."""
    try:
        return Path(f"/proc/{pid}/exe").readlink().name == program
    except OSError:
        return False


def _forget_dead_engines() -> None:
    """Delete pid files that name no live daemon: dockerd refuses to start over one, containerd waits 15 s for it."""
    for path, program in PID_FILES.items():
        if path.exists() and not _runs(int(path.read_text().strip() or 0), program):
            path.unlink()


def _dockerd() -> str:
    """Find dockerd, or install Debian's; the recommended packages would slow every later apt call down."""
    search = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    found = shutil.which("dockerd", path=search)
    if found:
        return found
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        sys.exit("docker engine: none answers, and only root on Debian or Ubuntu can have one installed here")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", "docker.io"]):
        subprocess.run(["apt-get", "-qq", *command], env=env, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    found = shutil.which("dockerd", path=search)
    return found or sys.exit("docker engine: docker.io is installed but has no dockerd")


def _await(daemon: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the engine answers; give up at once when its process is gone."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and daemon.poll() is None:
        if ping():
            return
        time.sleep(0.05)
    if daemon.poll() is None:
        daemon.terminate()
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
    sys.exit(f"docker engine: it did not come up; the end of {log}:\n{tail}")


def up() -> str:
    """Make sure that an engine answers; return `running` or `started`."""
    if ping():
        return "running"
    if os.environ.get("DOCKER_HOST", DEFAULT_HOST) != DEFAULT_HOST:
        sys.exit("docker engine: DOCKER_HOST names an engine that does not answer")
    if os.geteuid() != 0:
        sys.exit("docker engine: none answers, and only root can start one")
    RUN.mkdir(exist_ok=True)
    with (RUN / "lock").open("w") as lock:  # two callers at once: one starts it
        fcntl.flock(lock, fcntl.LOCK_EX)
        if ping():
            return "running"
        program = _dockerd()
        if ping():  # a package installation may start the service itself
            return "running"
        _forget_dead_engines()
        log = RUN / "log"
        with log.open("ab") as output:
            # Its own session and no inherited descriptor: a caller that reads our pipe must not wait for the daemon.
            daemon = subprocess.Popen(
                [program, "--host", DEFAULT_HOST, "--bridge=none", "--iptables=false", "--ip-forward=false"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        (RUN / "pid").write_text(str(daemon.pid))
        _await(daemon, log)
    return "started"


def _unmount_data() -> None:
    """Undo the bind of the data folder onto itself, which a killed engine leaves and its successor does not own."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        root, target = line.split()[3:5]
        if root == target == DATA:
            subprocess.run(["umount", DATA], check=True)


def down() -> str:
    """Stop the engine that `up` started; return `stopped` or `not ours`."""
    record = RUN / "pid"
    pid = int(record.read_text()) if record.exists() else 0
    if not _runs(pid, "dockerd"):
        record.unlink(missing_ok=True)
        return "not ours"
    for stop in (signal.SIGTERM, signal.SIGKILL):
        if _runs(pid, "dockerd"):
            os.kill(pid, stop)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while _runs(pid, "dockerd") and time.monotonic() < deadline:
            time.sleep(0.05)
    record.unlink()
    _unmount_data()
    return "stopped"


def main() -> None:
    """Run one command and print its one-word answer."""
    match sys.argv[1:]:
        case ["up"]:
            print(up())
        case ["down"]:
            print(down())
        case ["ping"]:
            version = ping()
            print(version or "no engine answers")
            sys.exit(0 if version else 1)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
