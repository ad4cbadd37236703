"""The promises of the seam, kept by files of both encodings, and those of the coordinator over them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dsh_persistence.contract import LogStoreContract, PersistenceContract
from dsh_persistence_jsonl import Encoding, JsonlLogStore


class TestZstd(LogStoreContract):
    """Frames, as by default."""

    @pytest.fixture
    def new_location(self, root: Path) -> Callable[[], JsonlLogStore]:
        return lambda: JsonlLogStore(root)


class TestRaw(LogStoreContract):
    """Plain lines."""

    @pytest.fixture
    def new_location(self, root: Path) -> Callable[[], JsonlLogStore]:
        return lambda: JsonlLogStore(root, encoding="raw")


class TestRootThatIsThere(LogStoreContract):
    """A root that exists already, given as text and not in its shortest form."""

    @pytest.fixture
    def new_location(self, root: Path) -> Callable[[], JsonlLogStore]:
        root.mkdir()
        return lambda: JsonlLogStore(f"{root}/.")


class TestCoordinator(PersistenceContract):
    """Both encodings under the coordinator."""

    @pytest.fixture
    def new_location(self, root: Path, encoding: Encoding) -> Callable[[], JsonlLogStore]:
        return lambda: JsonlLogStore(root, encoding=encoding)


def test_capabilities() -> None:
    """Files are artifacts of their own, outlive the process, are claimed across processes and committed in groups."""
    capabilities = JsonlLogStore.capabilities
    assert capabilities.group_commit
    assert (capabilities.has_artifacts, capabilities.cross_process_claim, capabilities.durable) == (True, True, True)
