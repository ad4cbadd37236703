"""The bash tool of an agent, and the registry of what its commands may know about the harness.

One invariant: every command gets its own immutable snapshot of the managed variables, collected for its own execution.
"""

from ._persistence import session_persistence
from ._plugin import BASH_ENV, ToolBashConfig, tool_bash
from ._registry import BashEnvContributor, BashEnvRegistry, BashEnvVariable
from ._render import render_result, result_value
from ._tool import BashTool
from .errors import BashEnvError, ContributorBroken, ContributorRefused

__all__ = [
    "BASH_ENV",
    "BashEnvContributor",
    "BashEnvError",
    "BashEnvRegistry",
    "BashEnvVariable",
    "BashTool",
    "ContributorBroken",
    "ContributorRefused",
    "ToolBashConfig",
    "render_result",
    "result_value",
    "session_persistence",
    "tool_bash",
]
