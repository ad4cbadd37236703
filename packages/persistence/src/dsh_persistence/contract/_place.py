"""The one fixture of the contracts."""

from __future__ import annotations

import pytest

from ._workers import OpenStore


class OverAPlace:
    """Every test gets a fresh, empty place, and opens it as often as it likes."""

    @pytest.fixture
    def new_location(self) -> OpenStore:
        """Return a function without arguments that opens a store over one place, the same at each call."""
        raise NotImplementedError(f"{type(self).__name__} does not override the fixture new_location")
