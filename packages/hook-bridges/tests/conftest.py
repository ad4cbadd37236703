"""A real executor whose commands inherit from an environment that the test decides."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dsh_bash import BashExecRequest, BashRunResult
from dsh_bash_local import LocalBash, LocalBashConfig

# Test modules cannot import each other under importlib mode; this makes ``hookkit`` importable.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spill files outlive their host on purpose; here they go where the tests' files go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.getbasetemp()))


@pytest.fixture
def parent_env() -> Mapping[str, str]:
    """What commands inherit from; nothing in it is dropped."""
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


@pytest.fixture
async def bash(tmp_path: Path, parent_env: Mapping[str, str]) -> AsyncIterator[LocalBash]:
    async with LocalBash(LocalBashConfig(cwd=str(tmp_path)), parent_env=parent_env) as opened:
        yield opened


@pytest.fixture
def run(bash: LocalBash) -> Callable[..., Awaitable[BashRunResult]]:
    """Return ``run(command, **fields)``: what a command comes to."""

    async def run_command(command: str, **fields: Any) -> BashRunResult:
        return await bash.run(bash.resolve(BashExecRequest(command=command, **fields)))

    return run_command
