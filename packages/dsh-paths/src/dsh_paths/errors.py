"""What can go wrong when the harness home is looked for.

::

    DshPathsError
    ├── DshHomeInvalid         the configured home is blank
    ├── DshHomeNotDirectory    path, obstacle: something else lies where the home should be
    └── UserHomeUnknown        nothing says where the user's own home is
"""

from __future__ import annotations


class DshPathsError(Exception):
    """The root of this package's errors."""


class DshHomeInvalid(DshPathsError):
    """The configured home is blank, which would silently mean the working directory."""

    def __init__(self, configured: str) -> None:
        super().__init__(f"the configured home is blank: {configured!r}; name a directory, or leave the setting out")
        self.configured = configured


class DshHomeNotDirectory(DshPathsError):
    """Something that is no directory lies at the home, or on the way to it."""

    def __init__(self, path: str, obstacle: str, what: str) -> None:
        where = f"home is {what}: {path}" if obstacle == path else f"home lies below {what}: {path} (at {obstacle})"
        super().__init__(f"{where}; move it away, or set DSH_HOME to a directory")
        self.path = path
        self.obstacle = obstacle


class UserHomeUnknown(DshPathsError):
    """Neither the environment nor the user database names a home for this user."""

    def __init__(self, variable: str) -> None:
        super().__init__(
            f"no home directory is known for this user; set {variable}, or set DSH_HOME to an absolute path"
        )
        self.variable = variable
