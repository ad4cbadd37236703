"""A real executor, with a parent environment that the test decides."""

import asyncio
import os
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_bash_local import LocalBash, LocalBashConfig


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spill files outlive their host on purpose; here they go where the tests' files go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.getbasetemp()))


@pytest.fixture
def parent_env() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "TERM": "xterm", "LANG": "C.UTF-8"}


@pytest.fixture
def config(tmp_path: Path) -> LocalBashConfig:
    return LocalBashConfig(cwd=str(tmp_path), grace_ms=400)


@pytest.fixture(autouse=True)
async def quiet_loop() -> AsyncIterator[None]:
    """Fail a test whose event loop met an exception that nobody saw: a callback's, or a forgotten task's."""
    unseen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unseen.append(context))
    yield
    assert [] == unseen


@pytest.fixture
async def bash(config: LocalBashConfig, parent_env: dict[str, str]) -> AsyncIterator[LocalBash]:
    async with LocalBash(config, parent_env=parent_env) as opened:
        yield opened


@pytest.fixture
def marker() -> str:
    """A number of seconds that no other process sleeps for."""
    return f"600.{uuid.uuid4().int % 10**15:015d}"


@pytest.fixture
def living() -> Callable[[str], list[int]]:
    """Find the processes, zombies left out, that have ``marker`` among their arguments."""

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
