"""What a plugin is given, and what its provider holds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from ._kernel import Cleanup, Effect, Hold, Kernel, Node, Run, State
from .errors import FiberClosed, ServiceExists, ServiceMissing

if TYPE_CHECKING:
    from ._keys import ServiceKey

T = TypeVar("T")
C = TypeVar("C")
E = TypeVar("E")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin(Generic[C]):
    """A start function and the services without which it does not run.

    ``start`` is awaited with a fresh context each time the plugin starts. It and the cleanups it registers may run in
    different tasks, so nothing that is bound to a task (a task group, a timeout) may stay entered between them.
    """

    name: str
    start: Callable[[Context, C], Awaitable[None]]
    needs: tuple[ServiceKey[Any], ...] = ()


def plugin(*needs: ServiceKey[Any], name: str = "") -> Callable[[Callable[[Context, C], Awaitable[None]]], Plugin[C]]:
    """Make a start function a plugin: ``@plugin(BASH, SESSIONS)``. Its name is the function's unless given."""

    def wrap(start: Callable[[Context, C], Awaitable[None]]) -> Plugin[C]:
        return Plugin(name=name or start.__name__, start=start, needs=needs)

    return wrap


@dataclass(frozen=True, slots=True)
class Fiber:
    """One mounted plugin."""

    _kernel: Kernel
    _node: Node

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self._node.name

    @property
    def needs(self) -> tuple[ServiceKey[Any], ...]:
        """The services without which it does not run."""
        return self._node.needs

    @property
    def missing(self) -> tuple[ServiceKey[Any], ...]:
        """Those of its needs that nobody provides now."""
        return tuple(key for key in self._node.needs if key not in self._kernel.services)

    @property
    def state(self) -> State:
        """``waiting`` (for a need), ``starting``, ``active``, ``stopping``, ``failed`` (to start) or ``stopped``."""
        return self._node.state

    @property
    def error(self) -> BaseException | None:
        """Why the last start failed, if it did. A failed fiber starts again when a service it needs returns."""
        return self._node.error

    async def stop(self) -> None:
        """Undo every effect, newest first, and never start again. Idempotent.

        A start under way finishes first. Called from inside the fiber's own start or cleanup it only asks, and the
        fiber stops when that returns. Every effect is undone whatever the others raise; the errors rise as one
        ``ExceptionGroup`` afterwards, and so does a cancellation of the calling task.
        """
        await self._kernel.stop(self._node)


class Provision(Generic[T]):
    """The provider's hold on a service."""

    __slots__ = ("_hold", "key")

    def __init__(self, key: ServiceKey[T], hold: Hold) -> None:
        self.key = key
        self._hold = hold

    async def replace(self, value: T) -> None:
        """Put ``value`` in place. ``get`` sees it at once; fibers that need the key stop and start again.

        Such a fiber keeps seeing the old value until it has stopped. When one of them fails to stop cleanly the
        replacement is done all the same, and an ``ExceptionGroup`` rises afterwards. Cancelled halfway, the service
        is withdrawn, so that no fiber is left between two values. Raises ``ServiceMissing`` after a withdrawal.
        """
        if not self._hold.is_present:
            raise ServiceMissing(self.key)
        await self._hold.put(value)

    async def withdraw(self) -> None:
        """Take the service away and stop the fibers that need it, last started first. Idempotent.

        ``get`` answers None at once, except in those fibers: each keeps its service until it has stopped. Errors of
        their cleanups rise as one ``ExceptionGroup`` when all have stopped. A fiber that withdraws, from inside its
        own start or cleanup, what it needs itself is not waited for.
        """
        await self._hold.withdraw()


class Context:
    """What a plugin is given: the services, and a ledger of what it did."""

    def __init__(self, kernel: Kernel, node: Node, run: Run) -> None:
        self._kernel = kernel
        self._node = node
        self._run = run

    @property
    def fiber(self) -> Fiber:
        """The fiber this context belongs to."""
        return Fiber(self._kernel, self._node)

    def get(self, key: ServiceKey[T]) -> T | None:
        """Return the present provider, or None. Ask at the moment of use; never keep the answer.

        What the plugin needs is the exception: it stays the same from a start until the plugin has stopped.
        """
        found = self._run.binding(key) or self._kernel.services.get(key)
        return None if found is None else found.value

    def require(self, key: ServiceKey[T]) -> T:
        """Return the present provider or raise ``ServiceMissing``."""
        found = self._run.binding(key) or self._kernel.services.get(key)
        if found is None:
            raise ServiceMissing(key)
        value: T = found.value
        return value

    async def provide(self, key: ServiceKey[T], value: T) -> Provision[T]:
        """Offer a service until withdrawn or until this fiber stops; fibers that waited for it start now, in order.

        One that fails to start does not fail the provider: it becomes ``failed``, and the error goes to the loop's
        exception handler. Cancelled halfway, the service is withdrawn. Raises ``ServiceExists``.
        """
        self._check_open()
        if key in self._kernel.services:
            raise ServiceExists(key)
        hold = Hold(self._kernel, self._run, key)
        await hold.put(value)
        return Provision(key, hold)

    def effect(self, cleanup: Cleanup) -> Callable[[], Awaitable[None]]:
        """Own ``cleanup``: it runs once, when the fiber stops or when the returned disposer is awaited."""
        self._check_open()
        effect = Effect(self._run, cleanup)
        self._run.effects[effect] = None
        return effect

    async def plugin(self, plugin: Plugin[C], config: C) -> Fiber:
        """Mount a plugin as a child of this fiber.

        It starts now if what it needs exists, otherwise when it does. A start that runs now and fails raises here,
        after its effects are undone, and the plugin is not mounted; so does a cancellation.
        """
        self._check_open()
        kernel = self._kernel

        async def body(run: Run) -> None:
            await plugin.start(Context(kernel, node, run), config)

        node = Node(plugin.name, plugin.needs, body, parent=self._run)
        node.mount = Effect(self._run, lambda: kernel.stop(node))
        self._run.effects[node.mount] = None
        await kernel.mount(node)
        return Fiber(kernel, node)

    def on(self, event: type[E], listener: Callable[[E], Awaitable[None] | None]) -> Callable[[], Awaitable[None]]:
        """Call ``listener`` for each such event, in order of registration, until this fiber stops."""
        self._check_open()
        listeners, token = self._kernel.listeners.setdefault(event, {}), object()
        listeners[token] = listener

        def remove() -> None:
            del listeners[token]

        return self.effect(remove)

    async def emit(self, event: object) -> None:
        """Call the listeners of exactly this type; all run, then their failures rise as one ``ExceptionGroup``."""
        await self._kernel.emit(event)

    def _check_open(self) -> None:
        if not self._run.is_open:
            raise FiberClosed(self._node.name, self._node.state)


class App(Context):
    """The root context: ``async with App() as app`` mounts plugins, and leaving undoes all of them."""

    def __init__(self) -> None:
        run = Run()
        super().__init__(Kernel(), Node("app", (), _nothing, state="active", run=run), run)

    @property
    def fibers(self) -> tuple[Fiber, ...]:
        """Every mounted fiber, in the order of the last start: what is waiting, active or failed, and why."""
        return tuple(Fiber(self._kernel, node) for node in self._kernel.nodes)

    async def __aenter__(self) -> Self:
        self._check_open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.fiber.stop()


async def _nothing(_run: Run) -> None:
    """Start the root: its context is open from the beginning."""
