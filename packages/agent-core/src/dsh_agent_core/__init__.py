"""One function composes a harness: sessions, their logs, a shell, tools, a model and the loop, from one configuration.

One invariant: when ``harness`` has been left, nothing it started runs and nothing it acknowledged is lost.
"""

from ._compose import Harness, HarnessConfig, harness
from ._plugins import jsonl_persistence, local_bash

__all__ = ["Harness", "HarnessConfig", "harness", "jsonl_persistence", "local_bash"]
