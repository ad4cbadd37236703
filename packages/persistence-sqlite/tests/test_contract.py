"""The promises of the seam, kept by SQLite with both journals, and those of the coordinator over them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dsh_persistence.contract import LogStoreContract, PersistenceContract
from dsh_persistence_sqlite import SqlLogStore


class TestWal(LogStoreContract):
    """A write-ahead log, as by default."""

    @pytest.fixture
    def new_location(self, tmp_path: Path) -> Callable[[], SqlLogStore]:
        return lambda: SqlLogStore(f"sqlite:///{tmp_path}/below/sessions.db")


class TestDelete(LogStoreContract):
    """A rollback journal."""

    @pytest.fixture
    def new_location(self, tmp_path: Path) -> Callable[[], SqlLogStore]:
        return lambda: SqlLogStore(f"sqlite:///{tmp_path}/sessions.db", journal="delete")


class TestCoordinator(PersistenceContract):
    """The store under the coordinator."""

    @pytest.fixture
    def new_location(self, tmp_path: Path) -> Callable[[], SqlLogStore]:
        return lambda: SqlLogStore(f"sqlite:///{tmp_path}/sessions.db")


def test_capabilities() -> None:
    """Rows outlive the process, are claimed across processes, and are committed together; there are no artifacts."""
    capabilities = SqlLogStore.capabilities
    assert (capabilities.cross_process_claim, capabilities.durable, capabilities.group_commit) == (True, True, True)
    assert not capabilities.has_artifacts
