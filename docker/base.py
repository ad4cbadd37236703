"""The base image of every container: `python docker/base.py` makes sure of it and prints what it holds, as JSON.

`$BASE_IMAGE` (python:3.12-slim-bookworm by default) is taken when the engine has it or can pull it. Otherwise an image
is built from this machine's own Debian packages. The facts asked of the image decide which wheels it is given.
"""

import fcntl
import hashlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path

import rootfs
from container import BUILD, LABEL, connect, hardened, stop_cleanly, wait
from docker import DockerClient
from docker.errors import APIError, DockerException, ImageNotFound

DEFAULT = "python:3.12-slim-bookworm"
REPOSITORY = "dsh-py-base"
BUILT = f"{REPOSITORY}:host"
NOTE = BUILD / "docker" / "base.json"
"""What the last run found, so that a pull is not tried again by each session; without it all is asked anew."""
_FACTS = """
import json, platform, shutil, sys
print(json.dumps({"python": "%d.%d" % sys.version_info[:2], "machine": platform.machine(),
                  "glibc": platform.libc_ver()[1], "procps": bool(shutil.which("ps"))}))
"""
_PROCPS = """
FROM {}
RUN apt-get update && apt-get install -y --no-install-recommends procps strace && rm -rf /var/lib/apt/lists/*
"""


def find(client: DockerClient) -> dict[str, str]:
    """Return the base image's `image`, `python`, `machine` and `glibc`, making the image first where that is needed."""
    wanted = os.environ.get("BASE_IMAGE") or DEFAULT
    NOTE.parent.mkdir(parents=True, exist_ok=True)
    with (NOTE.parent / "lock").open("w") as lock:  # sessions run two at a time
        fcntl.flock(lock, fcntl.LOCK_EX)
        noted: dict[str, str] = json.loads(NOTE.read_text()) if NOTE.exists() else {}
        if noted.get("wanted") == wanted and noted["recipe"] in ("", _recipe()) and _exists(client, noted["image"]):
            return noted
        recipe = "" if _exists(client, wanted) or _pull(client, wanted) else _recipe()
        image = _build(client, recipe) if recipe else wanted
        facts = _ask(client, image)
        if not facts.pop("procps"):
            image = _with_procps(client, image)
        found = {"wanted": wanted, "recipe": recipe, "image": image, **facts}
        NOTE.write_text(json.dumps(found))
        return found


def _exists(client: DockerClient, image: str) -> bool:
    try:
        client.images.get(image)
    except ImageNotFound:
        return False
    return True


def _pull(client: DockerClient, image: str) -> bool:
    print(f"base image: pulling {image}", file=sys.stderr)
    try:
        client.images.pull(image)
    except DockerException as error:
        print(f"base image: {str(error).splitlines()[0][:200]}", file=sys.stderr)
        return False
    return True


def _recipe() -> str:
    """Name what the machine's own image is made of."""
    if not rootfs.can_build():
        sys.exit("base image: no pull, and only root on Debian can build one; set BASE_IMAGE to an image you have")
    text = Path(rootfs.__file__).read_text() + json.dumps(rootfs.installed())
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _build(client: DockerClient, recipe: str) -> str:
    """Import the machine's packages as an image, unless the one that is there is of this recipe."""
    if _exists(client, BUILT) and client.images.get(BUILT).labels.get(f"{LABEL}.recipe") == recipe:
        return BUILT
    print("base image: building it from the packages of this machine", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        pack = Path(folder) / "rootfs.tar"
        rootfs.write(pack)
        changes = [f"LABEL {LABEL}=base {LABEL}.recipe={recipe}", 'CMD ["bash"]']
        client.api.import_image_from_file(str(pack), repository=REPOSITORY, tag="host", changes=changes)
    return BUILT


def _ask(client: DockerClient, image: str) -> dict[str, str]:
    with hardened(client, image, ["python3", "-c", _FACTS]) as container:
        if wait(container, timeout_s=60):
            sys.exit(f"base image: {image} has no python3 that runs\n{container.logs().decode()}")
        facts: dict[str, str] = json.loads(container.logs(stderr=False))
        return facts


def _with_procps(client: DockerClient, image: str) -> str:
    """Add `ps` and its family; the official slim images lack them, and this one step needs a network."""
    recipe = io.BytesIO(_PROCPS.format(image).encode())
    tag = f"{REPOSITORY}:{hashlib.sha256(image.encode()).hexdigest()[:12]}"
    try:
        client.images.build(fileobj=recipe, tag=tag, rm=True, forcerm=True, network_mode="host", labels={LABEL: "base"})
    except (APIError, DockerException) as error:
        sys.exit(f"base image: {image} lacks procps, and it could not be added: {error}")
    return tag


if __name__ == "__main__":
    stop_cleanly()
    print(json.dumps(find(connect())))
