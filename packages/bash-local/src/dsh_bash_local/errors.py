"""What can be wrong with the executor's own configuration; commands fail with the errors of ``dsh_bash``.

::

    LocalBashError
    └── InvalidConfig(field)
"""


class LocalBashError(Exception):
    """The root of this package's errors."""


class InvalidConfig(LocalBashError):
    """A configured value cannot be used."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"bash-local: config.{field} {message}")
        self.field = field
        """The field at fault."""
