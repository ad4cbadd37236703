"""Hardened containers: no network, read-only root, uid 1000, no capability, no way to a new privilege, bounded.

Every container made here is removed with its volumes when its `with` block ends, also when the script is terminated.
"""

import io
import os
import signal
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from types import FrameType
from typing import IO, Any

import docker
from docker.errors import APIError, NotFound
from docker.models.containers import Container
from docker.types import Mount, Ulimit

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent / "build"
LABEL = "dsh-py"
HOME = "/home/app"
UID = 1000
MEMORY_BYTES = 1024 * 1024 * 1024
"""The pages of a tmpfs count as well."""
PIDS = 512
TMPFS_BYTES = 512 * 1024 * 1024
TIMEOUT_S = 600


def connect() -> docker.DockerClient:
    """Connect to the engine of the environment, without the proxies of the user's own configuration."""
    empty = BUILD / "docker" / "no-config"
    empty.mkdir(parents=True, exist_ok=True)
    os.environ["DOCKER_CONFIG"] = str(empty)
    return docker.from_env(timeout=120)


def stop_cleanly() -> None:
    """Let SIGTERM end this script like an exception, so that what it started is removed."""

    def leave(signum: int, _frame: FrameType | None) -> None:
        sys.exit(128 + signum)

    signal.signal(signal.SIGTERM, leave)


def build(client: docker.DockerClient, context: Path, *, tag: str, **arguments: str) -> str:
    """Build `docker/Dockerfile` over the folder `context` without a network, and return the image's id.

    The engine's own builder is used, as it is the same whatever client programs a machine has.
    """
    with tempfile.TemporaryFile() as pack:
        _pack(pack, [HERE / "Dockerfile", *context.iterdir()])
        image, _ = client.images.build(
            fileobj=pack,
            custom_context=True,
            tag=tag,
            buildargs=arguments,
            labels={LABEL: tag},
            network_mode="none",
            rm=True,
            forcerm=True,
        )
    return str(image.id)


def _pack(target: IO[bytes], paths: Iterable[Path]) -> None:
    """Write a context whose bytes depend on names and contents only, so that the engine's cache is hit."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        entry.mtime = entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return None if "__pycache__" in entry.name else entry

    with tarfile.open(fileobj=target, mode="w") as tar:
        for path in paths:
            tar.add(path.resolve(), arcname=path.name, filter=plain)
    target.seek(0)


def prune(client: docker.DockerClient) -> None:
    """Remove the images that an edit left without a name; a build beside this one has none yet, hence the age."""
    try:
        client.images.prune(filters={"dangling": True, "label": LABEL, "until": "10m"})
    except APIError as error:
        if error.status_code != HTTPStatus.CONFLICT:  # another session prunes at this moment, and that will do
            raise


@contextmanager
def hardened(
    client: docker.DockerClient,
    image: str,
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    volumes: Mapping[str, str | None] | None = None,
    tmpfs: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
) -> Iterator[Container]:
    """Create and start a container; `volumes` maps paths to a volume's name, or to None for one that goes with it.

    `more` is what the engine's SDK is given beside that, or instead, such as a tighter limit.
    """
    options: dict[str, Any] = {
        "init": True,  # without it, nothing reaps and a stop takes its whole timeout
        "user": f"{UID}:{UID}",
        "read_only": True,
        "network_mode": "none",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "pids_limit": PIDS,
        "mem_limit": MEMORY_BYTES,
        "memswap_limit": MEMORY_BYTES,
        "ulimits": [Ulimit(name="core", soft=0, hard=0)],
        "tmpfs": {
            "/tmp": f"rw,exec,size={TMPFS_BYTES},mode=1777",
            **dict.fromkeys(tmpfs, f"rw,size={TMPFS_BYTES},uid={UID},gid={UID}"),
        },
        "mounts": [Mount(path, name, type="volume") for path, name in (volumes or {}).items()],
        "environment": {"HOME": HOME, **(environment or {})},
        "labels": {LABEL: "container"},
    }
    container = client.containers.create(image, list(command), **(options | dict(more or {})))
    try:
        container.start()
        yield container
    finally:
        with suppress(NotFound):
            container.remove(force=True, v=True)


def wait(container: Container, *, timeout_s: float = TIMEOUT_S) -> int:
    """Wait for the container's end and return its exit code; one that takes longer is killed."""
    try:
        return int(container.wait(timeout=timeout_s)["StatusCode"])
    except OSError:  # what the SDK lets through when the wait times out
        print(f"the container did not end within {timeout_s:.0f} s and is killed", file=sys.stderr)
        container.kill()
        return int(container.wait()["StatusCode"]) or 1


def copy_out(container: Container, path: str, target: Path) -> list[Path]:
    """Copy a file or folder out of a container, running or ended, into the folder `target`; return the files."""
    try:
        chunks, _ = container.get_archive(path)
    except NotFound:
        return []
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
        tar.extractall(target, filter="data")
        return [target / member.name for member in tar.getmembers() if member.isfile()]


def was_out_of_memory(container: Container) -> bool:
    """Tell whether the kernel killed a process of the container for its memory."""
    try:
        container.reload()
    except APIError:
        return False
    return bool(container.attrs["State"]["OOMKilled"])
