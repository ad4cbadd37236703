"""One package's tests in a hardened container, from its wheel: `python docker/contract.py PACKAGE CONTEXT PYTEST …`.

CONTEXT is a folder with `wheels`, `package` and `app`, as docker/Dockerfile copies them. The exit code is pytest's; the
report it writes is copied out to build/reports.
"""

import sys
import time
from pathlib import Path

import base
from container import BUILD, HOME, build, connect, copy_out, hardened, prune, stop_cleanly, wait, was_out_of_memory

PYTEST = ["python", "-m", "pytest", "-q", "-n", "2", "--dist=worksteal", "-p", "no:cacheprovider"]
ENVIRONMENT = {"CI": "true", "HYPOTHESIS_STORAGE_DIRECTORY": "/tmp/hypothesis"}
"""A container's run is the repeatable one: Hypothesis derives its examples from the tests alone there."""


def main(package: str, folder: Path, *arguments: str) -> int:
    """Build the package's image, run its tests, print what they print and a line of times."""
    started = time.monotonic()
    client = connect()
    base_image = base.find(client)["image"]
    image = build(client, folder, tag=f"dsh-py-contract:{package}", BASE_IMAGE=base_image)
    built = time.monotonic()
    report = f"docker_contract-{package}.xml"
    command = [*PYTEST, f"--junitxml=/out/{report}", *arguments]
    with hardened(client, image, command, environment=ENVIRONMENT, volumes={"/out": None}, tmpfs=[HOME]) as container:
        code = wait(container)
        sys.stdout.write(container.logs().decode(errors="replace"))
        copy_out(container, f"/out/{report}", BUILD / "reports")
        memory = ", out of memory" if was_out_of_memory(container) else ""
    prune(client)
    ran = time.monotonic()
    print(f"{package}: image {built - started:.1f} s, tests {ran - built:.1f} s, exit code {code}{memory}", flush=True)
    return code


if __name__ == "__main__":
    stop_cleanly()
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]))
