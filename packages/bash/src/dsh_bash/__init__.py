"""The bash seam: what a caller asks, what an executor decides, what comes back.

One invariant: a managed variable (``dsh_env``) reaches the command as it was given, whatever else the environment
says; and only a command that could not start raises.
"""

from dsh_subprocess import DSH_ENV_PREFIX, DshEnvironment, DshEnvironmentKey

from ._seam import BASH, Bash, BashProcess, BashStatus
from ._values import BashDelta, BashExecRequest, BashExecSpec, BashOutput, BashRunResult
from .errors import (
    BashClosed,
    BashError,
    BashMissing,
    BashStartCancelled,
    BashStartFailed,
    InvalidBashRequest,
    WorkdirMissing,
)

__all__ = [
    "BASH",
    "DSH_ENV_PREFIX",
    "Bash",
    "BashClosed",
    "BashDelta",
    "BashError",
    "BashExecRequest",
    "BashExecSpec",
    "BashMissing",
    "BashOutput",
    "BashProcess",
    "BashRunResult",
    "BashStartCancelled",
    "BashStartFailed",
    "BashStatus",
    "DshEnvironment",
    "DshEnvironmentKey",
    "InvalidBashRequest",
    "WorkdirMissing",
]
