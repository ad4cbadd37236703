"""Services by type, plugin fibers that follow them, effects undone in reverse, typed events.

One invariant: whatever a fiber did through its context is undone, last first, before the fiber counts as stopped.
"""

from ._context import App, Context, Fiber, Plugin, Provision, plugin
from ._keys import ServiceKey
from .errors import ContextError, FiberClosed, ServiceExists, ServiceMissing

__all__ = [
    "App",
    "Context",
    "ContextError",
    "Fiber",
    "FiberClosed",
    "Plugin",
    "Provision",
    "ServiceExists",
    "ServiceKey",
    "ServiceMissing",
    "plugin",
]
