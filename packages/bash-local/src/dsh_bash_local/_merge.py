"""The one map of explicit entries that a command's environment is made with."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dsh_bash import BashExecSpec

ENV_OVERRIDES: Final[Mapping[str, str]] = MappingProxyType(
    {"NO_COLOR": "1", "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}
)
"""What tells programs that nobody sits before a terminal."""


def explicit_env(spec: BashExecSpec) -> dict[str, str | None]:
    """Return terminal overrides, then ordinary entries, then managed ones (BEHAVIOUR §3.2).

    The subprocess seam merges the result over the scrubbed parent, which makes the parent the first of four layers.
    """
    return {**ENV_OVERRIDES, **(spec.env or {}), **(spec.dsh_env or {})}
