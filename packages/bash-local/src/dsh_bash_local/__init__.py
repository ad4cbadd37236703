"""Bash commands on this machine, with a rebuilt environment and bounded output.

One invariant: a command's environment is always the scrubbed parent, then the terminal overrides, then ``env``, then
``dsh_env``; and no command outlives the host that owns it.
"""

from ._config import LocalBashConfig
from ._local import LocalBash
from ._merge import ENV_OVERRIDES
from ._process import LocalBashProcess
from .errors import InvalidConfig, LocalBashError

__all__ = ["ENV_OVERRIDES", "InvalidConfig", "LocalBash", "LocalBashConfig", "LocalBashError", "LocalBashProcess"]
