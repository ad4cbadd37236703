"""One function composes a harness: sessions, their logs, a shell, tools, a model and the loop, from one configuration.

One invariant: when ``harness`` has been left, nothing it started runs and nothing it acknowledged is lost.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ._open_store import open_store
from .errors import AgentCoreError, HomesDiffer

if TYPE_CHECKING:
    from ._compose import Harness, HarnessConfig, SkillsConfig, harness
    from ._plugins import (
        LocalBashPluginConfig,
        PersistenceConfig,
        local_bash,
        model,
        persistence,
        sessions,
        tools,
    )

__all__ = [
    "AgentCoreError",
    "Harness",
    "HarnessConfig",
    "HomesDiffer",
    "LocalBashPluginConfig",
    "PersistenceConfig",
    "SkillsConfig",
    "harness",
    "local_bash",
    "model",
    "open_store",
    "persistence",
    "sessions",
    "tools",
]

# Who only opens a store needs no agent, no shell and no loop; everybody pays for an import.
_ON_DEMAND = {
    "Harness": "_compose",
    "HarnessConfig": "_compose",
    "LocalBashPluginConfig": "_plugins",
    "PersistenceConfig": "_plugins",
    "SkillsConfig": "_compose",
    "harness": "_compose",
    "local_bash": "_plugins",
    "model": "_plugins",
    "persistence": "_plugins",
    "sessions": "_plugins",
    "tools": "_plugins",
}


def __getattr__(name: str) -> object:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_ON_DEMAND[name]}", __name__), name)
