"""The promises of the seam, kept by the local executor."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsh_bash.contract import BashCapabilities, BashContract, OpenBash
from dsh_bash_local import LocalBash, LocalBashConfig
from dsh_subprocess import ProcessHost


class TestLocalBash(BashContract):
    """Its commands inherit this process's environment, as those of a harness do."""

    capabilities = BashCapabilities(
        shows_processes=True,
        contains_sessions=ProcessHost().containment == "keeper",
        leaves_children=True,
        tells_leftovers=True,
        inherits_environment=True,
        finds_bash_on_path=True,
    )

    @pytest.fixture
    def open_bash(self, tmp_path: Path) -> OpenBash:
        return lambda: LocalBash(LocalBashConfig(cwd=str(tmp_path), grace_ms=400))
