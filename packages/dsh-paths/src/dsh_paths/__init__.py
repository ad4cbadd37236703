"""Where the DeepSeek Harness home is.

One invariant: resolving reads the environment and the working directory, and never the disk.
"""

from ._directory import require_dsh_home_directory
from ._home import (
    DSH_HOME_ENV,
    default_dsh_home,
    dsh_home_display,
    dsh_home_path,
    expand_home_path,
    resolve_dsh_home,
)
from .errors import DshHomeInvalid, DshHomeNotDirectory, DshPathsError, UserHomeUnknown

__all__ = [
    "DSH_HOME_ENV",
    "DshHomeInvalid",
    "DshHomeNotDirectory",
    "DshPathsError",
    "UserHomeUnknown",
    "default_dsh_home",
    "dsh_home_display",
    "dsh_home_path",
    "expand_home_path",
    "require_dsh_home_directory",
    "resolve_dsh_home",
]
