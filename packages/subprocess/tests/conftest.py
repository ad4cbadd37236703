"""Real trees for every test: a host, and specs with everything given."""

import asyncio
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_subprocess import PARITY, Collect, Ignore, ProcessHost, SpawnSpec, _host


@pytest.fixture(autouse=True)
async def quiet_loop() -> AsyncIterator[None]:
    """Fail a test whose event loop met an exception that nobody saw: a callback's, or a forgotten task's."""
    unseen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unseen.append(context))
    yield
    assert [] == unseen


@pytest.fixture(
    params=[
        pytest.param("keeper", marks=pytest.mark.skipif(sys.platform != "linux", reason="keepers need Linux")),
        "process-group",
    ]
)
def containment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What holds trees together in this test, on a system that may have better."""
    if request.param == "process-group":
        monkeypatch.setattr(_host, "keepers_possible", lambda: False)
    return str(request.param)


@pytest.fixture
async def host(containment: str, tmp_path: Path) -> AsyncIterator[ProcessHost]:
    """A host that ends with its test."""
    async with ProcessHost(spill_parent=str(tmp_path)) as opened:
        yield opened


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., SpawnSpec]:
    """Make the spec of a bash script; any field may be given."""

    def make(script: str, **fields: Any) -> SpawnSpec:
        everything: dict[str, Any] = {
            "argv": ("bash", "-c", script),
            "cwd": str(tmp_path),
            "policy": PARITY,
            "env": {},
            "stdin": Ignore(),
            "stdout": Collect(max_bytes=64_000),
            "stderr": Collect(max_bytes=64_000),
            "grace_ms": 400,
        }
        return SpawnSpec(**(everything | fields))

    return make


@pytest.fixture
def marker() -> str:
    """A number of seconds that no other process sleeps for."""
    return f"600.{uuid.uuid4().int % 10**15:015d}"


@pytest.fixture
def living() -> Callable[[str], list[int]]:
    """Find the processes, zombies left out, that have an argument holding ``marker``."""

    def find(marker: str) -> list[int]:
        found = []
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                try:
                    words = Path(entry.path, "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if marker.encode() in words:
                    found.append(int(entry.name))
        return found

    return find


@pytest.fixture
def until() -> Callable[..., Any]:
    """Wait for a condition, failing after ten seconds."""

    async def wait(condition: Callable[[], object]) -> None:
        end = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < end, "the condition never came true"
            await asyncio.sleep(0.01)

    return wait
