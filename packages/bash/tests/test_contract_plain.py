from __future__ import annotations

import pytest

from dsh_bash.contract import BashContract, OpenBash
from dsh_bash.contract._plain import PlainBash


class TestPlain(BashContract):
    """The executor that the broken ones are made from keeps every promise; so what they break is what they change."""

    capabilities = PlainBash.capabilities

    @pytest.fixture
    def open_bash(self) -> OpenBash:
        return PlainBash
