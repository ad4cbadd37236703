"""The machine behind contexts: which node runs, against which bindings, and what it must undo.

A node is outdated when it was told to stop or when a service it was started with is no longer the present one. All
work on one node is one turn of one task; everyone else who wants the node changed notes it and, to stop it, waits.
Nobody waits for a turn that waits for him, directly or through others, so starts and cleanups may stop and withdraw
whatever they like.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from ._keys import ServiceKey
from ._turns import Failures, Turn

Cleanup = Callable[[], Awaitable[None] | None]
Listener = Callable[[Any], Awaitable[None] | None]
State = Literal["waiting", "starting", "active", "stopping", "failed", "stopped"]


@dataclass(slots=True, eq=False)
class Binding:
    """One value of a service. Its identity tells a replacement from the value before, even when both are equal."""

    value: Any


@dataclass(slots=True, eq=False)
class Run:
    """One life of a node: the services it was started with, and the ledger of what it did."""

    parent: Run | None = None
    bindings: dict[ServiceKey[Any], Binding] = field(default_factory=dict)
    effects: dict[Effect, None] = field(default_factory=dict)
    is_open: bool = True

    def binding(self, key: ServiceKey[Any]) -> Binding | None:
        """Return what this run, or the run that mounted it, was started with."""
        found = self.bindings.get(key)
        return self.parent.binding(key) if found is None and self.parent is not None else found

    async def undo(self, failures: Failures) -> None:
        """Run every cleanup, newest first, whatever the others raise."""
        self.is_open = False
        for effect in reversed(tuple(self.effects)):
            with failures:
                await effect()
        self.bindings.clear()


@dataclass(slots=True, eq=False)
class Effect:
    """A cleanup in a ledger. It runs once; who calls while it runs waits for it."""

    run: Run
    cleanup: Cleanup
    turn: Turn | None = None

    async def __call__(self) -> None:
        """Run the cleanup, or wait for the call that runs it already."""
        if self.turn is not None:
            await self.turn.wait()
            return
        self.turn = Turn()
        with self.turn:
            try:
                pending = self.cleanup()
                if inspect.isawaitable(pending):
                    await pending
            finally:
                self.forget()

    def forget(self) -> None:
        """Leave the ledger without running."""
        self.run.effects.pop(self, None)


@dataclass(slots=True, eq=False)
class Node:
    """One mounted plugin."""

    name: str
    needs: tuple[ServiceKey[Any], ...]
    body: Callable[[Run], Awaitable[None]]
    parent: Run | None = None
    state: State = "waiting"
    error: BaseException | None = None
    run: Run | None = None
    turn: Turn | None = None
    mount: Effect | None = None
    is_mounting: bool = False
    """Whether the call that mounts it still runs, and so raises a failed start."""
    is_closed: bool = False
    """Whether it was told to stop for good."""
    look_again: bool = False
    """Whether its turn, after undoing it, shall also start it if it can."""


class Kernel:
    """The services, the nodes in the order of their last start, and the listeners."""

    def __init__(self) -> None:
        self.services: dict[ServiceKey[Any], Binding] = {}
        self.nodes: list[Node] = []
        self.listeners: dict[type[Any], dict[object, Listener]] = {}

    async def put(self, key: ServiceKey[Any], binding: Binding | None) -> None:
        """Change a service: at once for everyone who asks, then stop whoever was started with the old value.

        Dependants stop last started first; then those that can start do, in the order they had. A cleanup that fails
        keeps nothing from happening; the errors rise at the end.
        """
        old = self.services.pop(key, None)
        if binding is not None:
            self.services[key] = binding
        failures = Failures()
        for node, run in reversed(self._users(key, old)):
            with failures:
                await self._settle(node, run)
        for node in tuple(self.nodes):
            if failures.interruption is not None and binding is not None and self.services.get(key) is binding:
                break  # the caller withdraws it now, and that looks at every node again
            with failures:
                await self.launch(node)
        failures.rise(f"plugins that used service {key.name!r}")

    async def mount(self, node: Node) -> None:
        """Take the node in and start it if it can run; when that start fails, put it out again and raise the error."""
        self.nodes.append(node)
        attempt = Failures()
        node.is_mounting = True
        with attempt:
            await self.launch(node)
        node.is_mounting = False
        error = attempt.first or node.error
        if error is not None:
            stopping = Failures()
            with stopping:
                await self.stop(node)
            _report_errors(node, stopping)
            raise error

    async def launch(self, node: Node) -> None:
        """Start the node if it can run; a turn under way takes the request over."""
        if node.turn is not None:
            node.look_again = True
        elif self._can_start(node):
            turn = await self._work(node, start=True)
            if not turn.waiters:
                _report_errors(node, turn.failures)
            if turn.failures.interruption is not None:
                raise turn.failures.interruption

    async def stop(self, node: Node) -> None:
        """Undo the node and never start it again. From inside its own turn this only asks."""
        node.is_closed = True
        await self._settle(node, None)

    async def emit(self, event: object) -> None:
        """Call the listeners of the event's own type; see ``Context.emit``."""
        failures: list[Exception] = []
        present = self.listeners.get(type(event), {})
        for token, listener in tuple(present.items()):
            if token not in present:  # an earlier listener removed it
                continue
            try:
                pending = listener(event)
                if inspect.isawaitable(pending):
                    await pending
            except Exception as error:  # noqa: BLE001 - the other listeners still run; it rises below
                failures.append(error)
        if failures:
            raise ExceptionGroup(f"listeners of {type(event).__name__}", failures)

    async def _settle(self, node: Node, run: Run | None) -> None:
        """Return when ``run`` is over, or without one when the node has stopped for good."""
        while node.run is run if run is not None else node.state != "stopped":
            turn = node.turn
            if turn is None:
                turn = await self._work(node, start=False)
                turn.failures.rise(f"stopping plugin {node.name!r}")
            elif turn.needs_us:
                return
            else:
                await turn.wait()
                turn.failures.rise_errors(f"stopping plugin {node.name!r}")

    async def _work(self, node: Node, *, start: bool) -> Turn:
        node.turn = turn = Turn()
        node.look_again = start
        with turn:
            try:
                while True:
                    if (run := self._outdated(node)) is not None:
                        await self._undo(node, run, turn.failures)
                    elif node.look_again and self._can_start(node):
                        node.look_again = False
                        await self._start(node, turn.failures)
                    else:
                        break
            finally:
                node.turn = None
                if node.is_closed and node.run is None:
                    self._bury(node)
        return turn

    async def _start(self, node: Node, failures: Failures) -> None:
        self.nodes.remove(node)
        self.nodes.append(node)
        node.state, node.error = "starting", None
        node.run = run = Run(parent=node.parent, bindings={key: self.services[key] for key in node.needs})
        attempt = Failures()
        with attempt:
            await node.body(run)
            node.state = "active"
            return
        bindings = dict(run.bindings)
        await run.undo(attempt)
        run.bindings.update(bindings)  # a change of one of them is what gives a failed node another chance
        node.error = _start_error(node.name, attempt)
        node.state = "failed"
        failures.interruption = failures.interruption or attempt.interruption
        if attempt.interruption is None and not node.is_mounting:
            _report(f"plugin {node.name!r} failed to start", node.error)

    async def _undo(self, node: Node, run: Run, failures: Failures) -> None:
        node.state = "stopping"
        await run.undo(failures)
        node.run = None
        node.state = "waiting"

    def _bury(self, node: Node) -> None:
        node.state = "stopped"
        if node in self.nodes:
            self.nodes.remove(node)
        if node.mount is not None:
            node.mount.forget()

    def _users(self, key: ServiceKey[Any], binding: Binding | None) -> list[tuple[Node, Run]]:
        if binding is None:
            return []
        runs = [(node, node.run) for node in self.nodes if node.run is not None]
        return [(node, run) for node, run in runs if run.bindings.get(key) is binding]

    def _can_start(self, node: Node) -> bool:
        return node.run is None and not node.is_closed and all(key in self.services for key in node.needs)

    def _outdated(self, node: Node) -> Run | None:
        run = node.run
        if run is None or node.is_closed:
            return run
        is_stale = any(self.services.get(key) is not binding for key, binding in run.bindings.items())
        return run if is_stale else None


class Hold:
    """A provider's grip on a service: the present binding, and the effect that takes it away."""

    def __init__(self, kernel: Kernel, run: Run, key: ServiceKey[Any]) -> None:
        self.key = key
        self.withdraw = Effect(run, self._take_away)
        self._kernel = kernel
        self._binding: Binding | None = None
        run.effects[self.withdraw] = None

    @property
    def is_present(self) -> bool:
        """Whether the service is this provider's."""
        return self._binding is not None and self._kernel.services.get(self.key) is self._binding

    async def put(self, value: Any) -> None:
        """Put ``value`` in place; interrupted, take the service away instead of leaving dependants between values."""
        self._binding = Binding(value)
        try:
            await self._kernel.put(self.key, self._binding)
        except Exception:
            raise
        except BaseException:
            await self.withdraw()
            raise

    async def _take_away(self) -> None:
        if self.is_present:
            await self._kernel.put(self.key, None)


def _start_error(name: str, attempt: Failures) -> BaseException | None:
    if attempt.interruption is None and len(attempt.errors) > 1:
        return ExceptionGroup(f"starting plugin {name!r}, and undoing what it did", attempt.errors)
    return attempt.first


def _report_errors(node: Node, failures: Failures) -> None:
    if failures.errors:
        group = ExceptionGroup(f"stopping plugin {node.name!r}", failures.errors)
        _report(str(group), group)


def _report(message: str, error: BaseException | None) -> None:
    # Nobody awaits this failure. The loop's handler is where asyncio sends such errors; it logs them by default.
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
