"""What the service kernel refuses.

::

    ContextError
    ├── ServiceMissing    key: nobody provides it
    ├── ServiceExists     key: somebody provides it already
    └── FiberClosed       fiber, state: the context belongs to a run that has ended
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._keys import ServiceKey


class ContextError(Exception):
    """The root of this package's errors."""


class ServiceMissing(ContextError):
    """A service was asked for, or replaced, while nobody provides it."""

    def __init__(self, key: ServiceKey[Any]) -> None:
        super().__init__(f"no service {key.name!r} is provided; name it in the plugin's needs, or provide it first")
        self.key = key


class ServiceExists(ContextError):
    """A second provider came while the first still holds the key."""

    def __init__(self, key: ServiceKey[Any]) -> None:
        super().__init__(f"service {key.name!r} is already provided; withdraw or replace the first provision")
        self.key = key


class FiberClosed(ContextError):
    """A context was used after its fiber began to stop."""

    def __init__(self, fiber: str, state: str) -> None:
        super().__init__(f"plugin {fiber!r} is {state}; its context can do nothing more")
        self.fiber = fiber
        self.state = state
