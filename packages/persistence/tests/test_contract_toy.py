from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dsh_persistence.contract import LogStoreContract
from dsh_persistence.contract._toy import ToyLogStore


class TestToy(LogStoreContract):
    """The store that the broken ones are made from keeps every promise; so what they break is what they change."""

    @pytest.fixture
    def new_location(self, tmp_path: Path) -> Callable[[], ToyLogStore]:
        return lambda: ToyLogStore(tmp_path / "toy")
