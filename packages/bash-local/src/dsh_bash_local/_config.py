"""The executor's configuration, checked when it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .errors import InvalidConfig

MAX_GRACE_MS = 2_147_483_647


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalBashConfig:
    """Defaults and limits for every command (BEHAVIOUR §3.1). Raises ``InvalidConfig``."""

    cwd: str | None = None
    """Where commands run that name no directory; None is the process's own at the time of the request."""
    timeout_ms: float = 120_000
    """The deadline of a foreground command that names none, in milliseconds."""
    max_timeout_ms: float = 600_000
    """The longest deadline anyone gets, in milliseconds."""
    max_output_bytes: int = 64_000
    """How much of each stream's tail is kept."""
    max_spill_bytes: int = 67_108_864
    """How large a file of a whole stream may grow."""
    grace_ms: float = 3_000
    """Milliseconds between SIGTERM and SIGKILL, and how long a pipe that outlives the shell is still read."""

    def __post_init__(self) -> None:
        for name in ("timeout_ms", "max_timeout_ms", "grace_ms"):
            if not is_positive(getattr(self, name)):
                raise InvalidConfig(name, f"must be a positive finite number, got {getattr(self, name)!r}")
        if self.grace_ms > MAX_GRACE_MS:
            raise InvalidConfig("grace_ms", f"must be at most {MAX_GRACE_MS}, got {self.grace_ms!r}")
        for name in ("max_output_bytes", "max_spill_bytes"):
            if not is_size(getattr(self, name)):
                raise InvalidConfig(name, f"must be a positive whole number, got {getattr(self, name)!r}")


def is_positive(value: object) -> bool:
    """Return whether ``value`` is a positive finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def is_size(value: object) -> bool:
    """Return whether ``value`` is a positive number of bytes."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
