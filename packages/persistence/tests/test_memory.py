from __future__ import annotations

from collections.abc import Callable

import pytest

from dsh_persistence import MemoryLogStore
from dsh_persistence.contract import LogStoreContract


class TestMemory(LogStoreContract):
    """The model keeps every promise of the seam, for as long as it lives."""

    @pytest.fixture
    def new_location(self) -> Callable[[], MemoryLogStore]:
        store = MemoryLogStore()
        return lambda: store


class TestGroups(LogStoreContract):
    """The same, with the batches of several sessions in one call."""

    @pytest.fixture
    def new_location(self) -> Callable[[], MemoryLogStore]:
        store = MemoryLogStore(group_commit=True)
        return lambda: store


def test_capabilities() -> None:
    """Memory has no artifacts, and neither outlives nor reaches beyond the process."""
    capabilities = MemoryLogStore().capabilities
    assert (capabilities.has_artifacts, capabilities.cross_process_claim, capabilities.durable) == (False, False, False)
