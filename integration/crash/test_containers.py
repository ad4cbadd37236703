"""Writers in hardened containers that run out of something, are killed, or have their calls fail, as uid 1000."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import base
import docker
import pytest
from container import LABEL, build, connect, hardened, prune, wait, was_out_of_memory
from docker.models.containers import Container

from .figures import Recorder

pytestmark = pytest.mark.full

IMAGE = "dsh-py-crash"
DATA = "/out"
"""Where the image lets uid 1000 write on a volume; the root of the store is a folder in it."""
ROOT = f"{DATA}/root"
KILLED = 137
ENVIRONMENT = {"PYTHONPATH": "/app/integration"}
ASK = 'printf %s "$SAID" >/tmp/said && printf \'{"state":"%s","stdout":"/tmp/said"}\\n\' "$0" | python -m crash.check'
FAULTS = [
    ("fdatasync", "error=EIO:when=1"),
    ("fdatasync", "error=EIO:when=2..3"),
    ("fsync", "error=EIO:when=3..5"),
    ("pwrite64", "error=ENOSPC:when=2"),
    ("link,linkat", "error=EIO:when=1"),
    ("fdatasync", "signal=KILL:when=2"),
    ("fsync", "signal=KILL:when=4"),
]
WAIT_S = 120


@pytest.fixture(scope="module")
def client() -> docker.DockerClient:
    """The engine."""
    if "DSH_CRASH_CONTEXT" not in os.environ:
        pytest.skip("no Docker engine answers; where you may start one: python3 docker/engine.py up")
    return connect()


@pytest.fixture(scope="module")
def image(client: docker.DockerClient) -> str:
    """The JSONL store from its wheel, with the workloads."""
    context = Path(os.environ["DSH_CRASH_CONTEXT"])
    built = build(client, context, tag=IMAGE, BASE_IMAGE=base.find(client)["image"])
    prune(client)
    return built


@pytest.fixture
def volume(client: docker.DockerClient) -> Iterator[str]:
    """A volume that outlives a container."""
    made = client.volumes.create(labels={LABEL: "crash"})
    yield made.name
    made.remove(force=True)


class Containers:
    """Runs Python in containers."""

    def __init__(self, client: docker.DockerClient, image: str, volume: str) -> None:
        self._client, self._image, self._volume = client, image, volume

    @contextmanager
    def started(
        self, command: Sequence[str], *, said: str = "", on_volume: bool = True, **more: Any
    ) -> Iterator[Container]:
        """Start one; ``more`` is what it is created with beside the usual."""
        volumes = {DATA: self._volume} if on_volume else {}
        environment = {**ENVIRONMENT, "SAID": said}
        with hardened(
            self._client, self._image, command, environment=environment, volumes=volumes, more=more
        ) as container:
            yield container

    def run(self, *command: str, **more: Any) -> tuple[int, str]:
        """Run one to its end; return its exit code and what it printed."""
        with self.started(command, **more) as container:
            code = wait(container, timeout_s=WAIT_S)
            return code, container.logs().decode()

    def judge(self, said: str, root: str = ROOT) -> str:
        """Have another container judge what is on the volume, against what was acknowledged."""
        code, verdict = self.run("bash", "-c", ASK, root, said=said)
        assert code == 0, verdict
        return verdict.strip()


@pytest.fixture
def containers(client: docker.DockerClient, image: str, volume: str) -> Containers:
    """Containers that share one volume."""
    return Containers(client, image, volume)


def python(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command of a workload."""
    return ("python", "-m", f"crash.{module}", *arguments)


def test_kill(containers: Containers, figure: Recorder) -> None:
    """G1: SIGKILL of a container in the middle of its writing, five times on one volume."""
    said = ""
    for _ in range(5):
        with containers.started(python("workload", "write", ROOT, "--batches=5000", "--sessions=1")) as container:
            deadline = time.monotonic() + WAIT_S
            while container.logs(stderr=False).count(b"\n") < 20:
                assert time.monotonic() < deadline, container.logs().decode()
                time.sleep(0.05)
            container.kill(signal="SIGKILL")
            assert container.wait(timeout=30)["StatusCode"] == KILLED
            said += container.logs(stderr=False).decode()
        assert containers.judge(said) == "ok"
    figure("container: SIGKILL", "zstd", tried=5, unit="kills", bad=0, note=f"{said.count(chr(10))} acknowledgements")


@pytest.mark.parametrize(
    ("how", "options"), [("space", "size=400k"), ("inodes", "nr_inodes=60")], ids=["space", "inodes"]
)
def test_a_full_tmpfs(containers: Containers, figure: Recorder, how: str, options: str) -> None:
    """G10: a full file system is an error like any other; what was acknowledged stands, room makes it work again."""
    tmpfs = {"/tmp": "rw,size=64m,mode=1777", DATA: f"rw,{options},uid=1000,gid=1000"}
    code, said = containers.run(*python("cramped", how, ROOT), on_volume=False, tmpfs=tmpfs)
    assert code == 0, said
    figure(f"container: tmpfs without {how}", "zstd", tried=1, unit="runs", bad=0)


def test_a_read_only_mount(containers: Containers, figure: Recorder, volume: str) -> None:
    """G9: on a read-only mount everything can be read, and writing names what is in the way."""
    code, said = containers.run(*python("workload", "write", ROOT, "--sessions=1"))
    assert code == 0, said
    mounts = [docker.types.Mount(DATA, volume, type="volume", read_only=True)]
    code, said = containers.run(*python("cramped", "read-only", ROOT), mounts=mounts)
    assert code == 0, said
    figure("container: read-only mount", "zstd", tried=1, unit="runs", bad=0)


def test_out_of_memory(containers: Containers, figure: Recorder) -> None:
    """G1: the kernel's own SIGKILL, for want of memory."""
    limit = 96 << 20
    with containers.started(python("cramped", "memory", ROOT), mem_limit=limit, memswap_limit=limit) as container:
        assert wait(container, timeout_s=WAIT_S) == KILLED
        assert was_out_of_memory(container)
        said = container.logs(stderr=False).decode()
    assert said.count("\n") > 5
    assert containers.judge(said) == "ok"
    figure("container: out of memory", "zstd", tried=1, unit="kills", bad=0)


def test_a_limit_of_processes(containers: Containers, figure: Recorder) -> None:
    """G10, G18: without a thread to write in, events are kept, and written when there is one."""
    code, said = containers.run(*python("cramped", "processes", ROOT), pids_limit=16)
    assert code == 0, said
    figure("container: pids limit", "zstd", tried=1, unit="runs", bad=0)


def test_failing_calls_as_a_user(containers: Containers, figure: Recorder) -> None:
    """G10, G11: calls that fail in the kernel's own way, for a user without any privilege."""
    code, _ = containers.run("sh", "-c", "command -v strace")
    if code:
        if os.environ.get("DSH_REQUIRE_DOCKER") == "1":
            pytest.fail("the base image has no strace: apt-get install strace, and the image is made anew")
        pytest.skip("the base image has no strace")
    for number, (call, how) in enumerate(FAULTS):
        strace = ("strace", "-f", "-qq", "-e", f"trace={call}", "-e", f"inject={call}:{how}")
        root = f"{DATA}/{number}"
        code, said = containers.run(*strace, *python("workload", "write", root, "--sessions=1"))
        assert ("SIGKILL" if "KILL" in how else "(INJECTED)") in said
        assert code == (KILLED if "KILL" in how else 0), said
        assert containers.judge(said, root) == "ok"
    figure("container: calls that strace fails", "zstd", tried=len(FAULTS), unit="runs", bad=0)
