"""Process trees with explicit environments and bounded output.

One invariant: what a child inherits is the parent's environment without credential-shaped and ``DSH_`` names, and
nothing that a ``ProcessHost`` started outlives it, as far as its containment reaches.
"""

from ._environment import (
    Dropped,
    DshEnvironment,
    DshEnvironmentKey,
    child_env,
    dropped_names,
    explain,
    parent_values,
    scrubbed_parent_env,
)
from ._host import ProcessHost
from ._output import CollectedOutput, OutputChunk
from ._pipes import PipeReader, PipeWriter
from ._policy import (
    DSH_ENV_PREFIX,
    FOREIGN_HARNESS_MARKERS,
    MANAGED_NAME,
    PARITY,
    STRICT,
    USERINFO_REMOVED,
    EnvPolicy,
    EnvRule,
)
from ._spec import Collect, Ignore, Inherit, Output, Pipe, ProcessExit, SpawnSpec, Stdin, StdinData
from ._tree import ProcessTree
from .errors import (
    ExecutableMissing,
    HostClosed,
    InvalidEnvironment,
    InvalidSpec,
    SpawnDenied,
    SpawnFailed,
    StreamUnavailable,
    SubprocessError,
    TreesSurvived,
    WorkingDirectoryMissing,
)

__all__ = [
    "DSH_ENV_PREFIX",
    "FOREIGN_HARNESS_MARKERS",
    "MANAGED_NAME",
    "PARITY",
    "STRICT",
    "USERINFO_REMOVED",
    "Collect",
    "CollectedOutput",
    "Dropped",
    "DshEnvironment",
    "DshEnvironmentKey",
    "EnvPolicy",
    "EnvRule",
    "ExecutableMissing",
    "HostClosed",
    "Ignore",
    "Inherit",
    "InvalidEnvironment",
    "InvalidSpec",
    "Output",
    "OutputChunk",
    "Pipe",
    "PipeReader",
    "PipeWriter",
    "ProcessExit",
    "ProcessHost",
    "ProcessTree",
    "SpawnDenied",
    "SpawnFailed",
    "SpawnSpec",
    "Stdin",
    "StdinData",
    "StreamUnavailable",
    "SubprocessError",
    "TreesSurvived",
    "WorkingDirectoryMissing",
    "child_env",
    "dropped_names",
    "explain",
    "parent_values",
    "scrubbed_parent_env",
]
