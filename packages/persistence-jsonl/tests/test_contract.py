"""The promises of the seam, kept by files of both encodings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dsh_persistence.contract import LogStoreContract
from dsh_persistence_jsonl import JsonlLogStore


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


def test_capabilities() -> None:
    """Files are artifacts of their own, outlive the process, and are claimed across processes."""
    capabilities = JsonlLogStore.capabilities
    assert (capabilities.has_artifacts, capabilities.cross_process_claim, capabilities.durable) == (True, True, True)
