"""One function composes a harness: sessions, their logs, a shell, tools, a model and the loop, from one configuration.

One invariant: when ``harness`` has been left, nothing it started runs and nothing it acknowledged is lost.
"""

from ._compose import Harness, HarnessConfig, harness
from ._plugins import (
    JsonlPersistenceConfig,
    LocalBashPluginConfig,
    jsonl_persistence,
    local_bash,
    model,
    sessions,
    tools,
)

__all__ = [
    "Harness",
    "HarnessConfig",
    "JsonlPersistenceConfig",
    "LocalBashPluginConfig",
    "harness",
    "jsonl_persistence",
    "local_bash",
    "model",
    "sessions",
    "tools",
]
