"""What ``run_contract`` runs: the contract with the store that it was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from ._log_store import LogStoreContract
from ._persistence import PersistenceContract
from ._run import FACTORY
from ._workers import OpenStore


class _OverAFolder:
    @pytest.fixture
    def new_location(self, pytestconfig: pytest.Config, tmp_path: Path) -> OpenStore:
        """Open the store over one folder."""
        factory, place = pytestconfig.stash[FACTORY], tmp_path / "place"
        place.mkdir()
        return lambda: factory(place)


class TestLogStore(_OverAFolder, LogStoreContract):
    """The store by itself."""


class TestPersistence(_OverAFolder, PersistenceContract):
    """The coordinator over the store."""
