"""The promises of the seam and of the coordinator, kept by a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dsh_persistence.contract import LogStoreContract, PersistenceContract
from dsh_persistence_sqlite import SqlLogStore

testing = pytest.importorskip("services.testing", reason="the server of the tests is started by integration/services")
testing.postgres_driver()


class _OverASchema:
    @pytest.fixture
    def new_location(self) -> Callable[[], SqlLogStore]:
        url = testing.fresh_schema(testing.postgres_server())
        return lambda: SqlLogStore(url)


class TestLogStore(_OverASchema, LogStoreContract):
    """The store by itself."""


class TestCoordinator(_OverASchema, PersistenceContract):
    """The coordinator over it."""
