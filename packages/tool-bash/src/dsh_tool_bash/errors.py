"""What the registry of managed variables refuses. Failures of a call are ``dsh_agent.ToolError``.

::

    BashEnvError
    ├── ContributorRefused    contributor, key: a declaration that cannot be registered
    └── ContributorBroken     contributor, key: a resolver that does not keep to its declaration
"""

from __future__ import annotations


class BashEnvError(Exception):
    """The root of this package's errors."""

    def __init__(self, message: str, *, contributor: str, key: str | None = None) -> None:
        super().__init__(message)
        self.contributor = contributor
        self.key = key
        """The variable at fault, when it is about one."""


class ContributorRefused(BashEnvError):
    """A declaration cannot be registered; nothing of it was."""


class ContributorBroken(BashEnvError):
    """A resolver returned what its contributor did not declare; the command does not start."""
