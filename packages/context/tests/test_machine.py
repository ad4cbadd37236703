"""Whatever happens in whatever order, and at the same time, the kernel comes to rest where it should."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dsh_context import App, Context, ContextError, Fiber, Plugin, Provision, ServiceKey

KEYS: tuple[ServiceKey[int], ...] = tuple(ServiceKey(name) for name in "abcd")


@dataclass(frozen=True)
class Recipe:
    """What one plugin does."""

    needs: frozenset[int]
    gives: int | None
    """The key it provides in its start, if it is free."""
    pauses: int
    """How often start and cleanup let others run."""
    fails: str
    """``start`` or ``stop`` when that raises."""
    children: int
    act_in_start: tuple[str, int] | None
    act_in_stop: tuple[str, int] | None


actions = st.tuples(st.sampled_from(["stop", "withdraw", "replace", "provide"]), st.integers(0, 9))
recipes = st.builds(
    Recipe,
    needs=st.frozensets(st.integers(0, 3), max_size=2),
    gives=st.none() | st.integers(0, 3),
    pauses=st.integers(0, 3),
    fails=st.sampled_from(["", "", "", "", "start", "stop"]),
    children=st.integers(0, 1),
    act_in_start=st.none() | st.none() | actions,
    act_in_stop=st.none() | st.none() | actions,
)
operations = st.one_of(st.tuples(st.just("mount"), recipes), actions)


@dataclass(eq=False)
class Record:
    """What one mounted plugin did, seen from the inside."""

    recipe: Recipe
    fiber: Fiber | None = None
    values: dict[ServiceKey[int], int] = field(default_factory=dict)
    acts: int = 0
    """How often its start or cleanup acted on others; bounded, since a start may well undo and cause itself."""
    effects: list[int] = field(default_factory=list)


class KernelMachine(RuleBasedStateMachine):
    """Provide, withdraw, replace, mount and stop, one at a time, together, and cancelled halfway."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda _loop, _context: None)
        self.app = App()
        self.records: list[Record] = []
        self.provisions: list[Provision[int]] = []
        self.broken: list[str] = []
        self.count = 0

    def teardown(self) -> None:
        async def leave() -> None:
            with suppress(ExceptionGroup):
                await self.app.__aexit__(None, None, None)

        self.run(leave())
        self.check(at_end=True)
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        self.loop.run_until_complete(asyncio.wait_for(work, 60))

    @rule(operation=operations)
    def one(self, operation: tuple[str, Any]) -> None:
        self.run(self.act(self.app, *operation))

    @rule(many=st.lists(st.tuples(operations, st.none() | st.integers(0, 12)), min_size=2, max_size=6))
    def together(self, many: list[tuple[tuple[str, Any], int | None]]) -> None:
        async def work() -> None:
            async with asyncio.TaskGroup() as group:
                for operation, patience in many:
                    group.create_task(self.cut(operation, patience))

        self.run(work())

    @precondition(lambda self: self.provisions)
    @rule(index=st.integers(0, 9))
    def withdraw(self, index: int) -> None:
        self.run(self.act(self.app, "withdraw", index))

    @invariant()
    def at_rest(self) -> None:
        self.check(at_end=False)

    async def cut(self, operation: tuple[str, Any], patience: int | None) -> None:
        """Do it in a task, and cancel the task after some turns of the loop."""
        task = asyncio.ensure_future(self.act(self.app, *operation))
        if patience is not None:
            for _ in range(patience):
                await asyncio.sleep(0)
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def act(self, ctx: Context, what: str, how: Any) -> None:
        with suppress(ContextError, ExceptionGroup, OSError):
            if what == "mount":
                record = Record(how)
                self.records.append(record)
                record.fiber = await ctx.plugin(self.plugin(record), None)
            elif what == "provide":
                self.provisions.append(await ctx.provide(KEYS[how % 4], self.fresh()))
            elif what == "stop" and self.records:
                fiber = self.records[how % len(self.records)].fiber
                if fiber is not None:
                    await fiber.stop()
            elif self.provisions:
                provision = self.provisions[how % len(self.provisions)]
                await (provision.withdraw() if what == "withdraw" else provision.replace(self.fresh()))

    async def interfere(self, record: Record, action: tuple[str, int] | None) -> None:
        if action is not None and record.acts < 2:
            record.acts += 1
            await self.act(self.app, *action)

    def fresh(self) -> int:
        self.count += 1
        return self.count

    def plugin(self, record: Record) -> Plugin[None]:
        recipe = record.recipe
        needs = tuple(KEYS[i] for i in sorted(recipe.needs))

        async def pause() -> None:
            for _ in range(recipe.pauses):
                await asyncio.sleep(0)

        async def start(ctx: Context, _config: None) -> None:
            self.require(not record.effects, "a run began before the last was undone")
            record.fiber = ctx.fiber
            record.values = {key: ctx.require(key) for key in needs}
            bound = dict(record.values)

            async def undo(number: int) -> None:
                self.require(record.effects[-1] == number, "effects were not undone in reverse")
                self.require({key: ctx.get(key) for key in needs} == bound, "a need changed before the plugin stopped")
                try:
                    await pause()
                    if number == 2:
                        await self.interfere(record, recipe.act_in_stop)
                    if recipe.fails == "stop":
                        raise OSError("stop")
                finally:
                    record.effects.remove(number)

            async def first() -> None:
                await undo(1)

            async def second() -> None:
                await undo(2)

            record.effects.append(1)
            ctx.effect(first)
            if recipe.gives is not None and ctx.get(KEYS[recipe.gives]) is None:
                self.provisions.append(await ctx.provide(KEYS[recipe.gives], self.fresh()))
            record.effects.append(2)
            ctx.effect(second)
            for _ in range(recipe.children):
                await self.act(ctx, "mount", Recipe(recipe.needs, None, recipe.pauses, "", 0, None, None))
            await pause()
            await self.interfere(record, recipe.act_in_start)
            if recipe.fails == "start":
                raise OSError("start")

        return Plugin(name=f"p{len(self.records)}", start=start, needs=needs)

    def require(self, holds: bool, message: str) -> None:
        if not holds:
            self.broken.append(message)

    def check(self, *, at_end: bool) -> None:
        assert self.broken == []
        mounted = set(self.app.fibers)
        for record in self.records:
            fiber = record.fiber
            if fiber is None:
                continue
            assert fiber.state in ({"stopped"} if at_end else {"waiting", "active", "failed", "stopped"})
            assert (fiber in mounted) == (fiber.state != "stopped")
            assert record.effects == ([1, 2] if fiber.state == "active" else [])
            if fiber.state == "active":
                assert fiber.missing == ()
                assert record.values == {key: self.app.get(key) for key in fiber.needs}
            elif fiber.state == "waiting":
                assert fiber.missing != ()
            elif fiber.state == "failed":
                assert fiber.error is not None
        if at_end:
            assert self.app._kernel.services == {}
            assert self.app._run.effects == {}


TestKernelMachine = KernelMachine.TestCase
TestKernelMachine.settings = settings(
    max_examples=100,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,  # the sources may be read-only
)
