"""What happens while something starts, and when much happens at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from dsh_context import App, Context, Fiber, ServiceKey, plugin

if TYPE_CHECKING:
    from conftest import Kit

A: ServiceKey[str] = ServiceKey("a")
B: ServiceKey[str] = ServiceKey("b")


def state(fiber: Fiber) -> str:
    return fiber.state


class TestDuringStart:
    async def test_stop(self, kit: Kit) -> None:
        """A stop during a start waits for the start and then undoes it."""
        gate, log = kit.gate(), list[str]()
        async with App() as app, kit.beside(app.plugin(kit.logged("p", log, start=gate), None)) as mount:
            await gate.reached.wait()
            (fiber,) = app.fibers
            assert state(fiber) == "starting"
            async with kit.beside(fiber.stop()) as stop:
                await kit.turn_over()
                assert (log, stop.done()) == (["+p"], False)
                gate.opened.set()
            assert (log, state(fiber)) == (["+p", "-p"], "stopped")
            assert await mount == fiber

    async def test_errors_of_that_stop_rise_in_the_stop(self, kit: Kit, reports: list[dict[str, Any]]) -> None:
        """Who asked for the stop learns what went wrong in it, not who mounted."""

        async def fail() -> None:
            raise OSError("stuck")

        gate = kit.gate()
        async with App() as app, kit.beside(app.plugin(kit.logged("p", [], start=gate, stop=fail), None)) as mount:
            await gate.reached.wait()
            asyncio.get_running_loop().call_soon(gate.opened.set)
            with pytest.raises(ExceptionGroup, match="'p'"):
                await app.fibers[0].stop()
            assert state(await mount) == "stopped"
        assert reports == []

    async def test_plugin_that_stops_itself(self, reports: list[dict[str, Any]]) -> None:
        """A plugin that stops itself while it starts goes on to the end of its start and is then undone."""
        log: list[str] = []

        @plugin()
        async def quitter(ctx: Context, config: None) -> None:
            ctx.effect(lambda: log.append("undone"))
            await ctx.fiber.stop()
            log.append("went on")
            ctx.effect(lambda: log.append("undone too"))

        async with App() as app:
            fiber = await app.plugin(quitter, None)
            assert state(fiber) == "stopped"
            assert log == ["went on", "undone too", "undone"]
            assert app.fibers == ()
            assert app._run.effects == {}
        assert reports == []

    async def test_errors_of_a_self_made_stop_are_reported(self, reports: list[dict[str, Any]]) -> None:
        """What nobody awaits goes to the loop's exception handler."""

        @plugin()
        async def quitter(ctx: Context, config: None) -> None:
            def fail() -> None:
                raise OSError("stuck")

            ctx.effect(fail)
            await ctx.fiber.stop()

        async with App() as app:
            assert state(await app.plugin(quitter, None)) == "stopped"
        assert [type(r["exception"]) for r in reports] == [ExceptionGroup]

    async def test_withdraw(self, kit: Kit) -> None:
        """A withdrawal during a start waits for the start, undoes it, and the mount stays, waiting."""
        gate, log = kit.gate(), list[str]()
        async with App() as app:
            provision = await app.provide(A, "x")
            async with kit.beside(app.plugin(kit.logged("p", log, A, start=gate), None)) as mount:
                await gate.reached.wait()
                async with kit.beside(provision.withdraw()) as withdrawal:
                    await kit.turn_over()
                    assert not withdrawal.done()
                    gate.opened.set()
            assert (log, state(await mount)) == (["+p", "-p"], "waiting")
            await app.provide(A, "y")
            assert state(await mount) == "active"

    async def test_replace(self, kit: Kit) -> None:
        """A replacement during a start undoes it and starts again with the new value."""
        gate, seen = kit.gate(), list[str]()

        @plugin(A)
        async def user(ctx: Context, config: None) -> None:
            seen.append(ctx.require(A))
            await gate()
            seen.append(ctx.require(A))

        async with App() as app:
            provision = await app.provide(A, "x")
            async with kit.beside(app.plugin(user, None)) as mount:
                await gate.reached.wait()
                async with kit.beside(provision.replace("y")):
                    await kit.turn_over()
                    gate.opened.set()
            assert (seen, state(await mount)) == (["x", "x", "y", "y"], "active")

    async def test_withdraw_of_ones_own_need(self, kit: Kit) -> None:
        """A plugin that withdraws what it needs, while it starts, is undone when its start returns."""
        log: list[str] = []
        async with App() as app:
            provision = await app.provide(A, "x")

            async def saw() -> None:
                await provision.withdraw()
                assert app.get(A) is None
                log.append("went on")

            fiber = await app.plugin(kit.logged("p", log, A, start=saw), None)
            assert (state(fiber), log) == ("waiting", ["+p", "went on", "-p"])

    async def test_provider_that_withdraws_again(self, kit: Kit) -> None:
        """A provider may provide and withdraw within its start."""
        log: list[str] = []

        @plugin()
        async def fickle(ctx: Context, config: None) -> None:
            await (await ctx.provide(A, "x")).withdraw()

        async with App() as app:
            fiber = await app.plugin(kit.logged("p", log, A), None)
            await app.plugin(fickle, None)
            assert (state(fiber), log) == ("waiting", ["+p", "-p"])

    async def test_stop_from_a_child_task_of_the_start(self) -> None:
        """A start that fans out into tasks may stop its own fiber from one of them without waiting for itself."""

        @plugin()
        async def fan(ctx: Context, config: None) -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(ctx.fiber.stop())

        async with App() as app, asyncio.timeout(5):
            assert state(await app.plugin(fan, None)) == "stopped"

    async def test_task_that_outlives_the_start_waits(self, kit: Kit) -> None:
        """A task made in a start is an ordinary caller once that start is over."""
        gate, go, tasks = kit.gate(), asyncio.Event(), list[asyncio.Task[None]]()

        @plugin()
        async def forker(ctx: Context, config: None) -> None:
            async def later() -> None:
                await go.wait()
                await ctx.fiber.stop()

            tasks.append(asyncio.create_task(later()))
            ctx.effect(gate)

        async with App() as app, asyncio.timeout(5):
            fiber = await app.plugin(forker, None)
            go.set()
            await gate.reached.wait()
            await kit.turn_over()
            assert (state(fiber), tasks[0].done()) == ("stopping", False)
            gate.opened.set()
            await tasks[0]
            assert state(fiber) == "stopped"

    async def test_parent_stops_while_a_child_starts(self, kit: Kit) -> None:
        """Stopping a parent waits for the start of a child that another task mounts, and undoes it."""
        gate, log, kept = kit.gate(), list[str](), list[Context]()

        @plugin()
        async def parent(ctx: Context, config: None) -> None:
            kept.append(ctx)

        async with App() as app:
            fiber = await app.plugin(parent, None)
            async with kit.beside(kept[0].plugin(kit.logged("child", log, start=gate), None)) as mount:
                await gate.reached.wait()
                async with kit.beside(fiber.stop()) as stop:
                    await kit.turn_over()
                    assert not stop.done()
                    gate.opened.set()
            assert (log, state(await mount)) == (["+child", "-child"], "stopped")


class TestConcurrently:
    async def test_slow_start_holds_up_no_other_mount(self, kit: Kit) -> None:
        """While one plugin starts, others mount, start and stop."""
        gate, log = kit.gate(), list[str]()
        async with App() as app, kit.beside(app.plugin(kit.logged("slow", log, start=gate), None)):
            await gate.reached.wait()
            fiber = await app.plugin(kit.logged("quick", log), None)
            await app.provide(A, "x")
            await fiber.stop()
            assert log == ["+slow", "+quick", "-quick"]
            gate.opened.set()

    async def test_many_mounts(self, kit: Kit) -> None:
        """Plugins mounted at the same time start once each."""
        log: list[str] = []
        async with App() as app:
            async with asyncio.TaskGroup() as group:
                for i in range(20):
                    group.create_task(app.plugin(kit.logged(str(i), log, A, start=kit.turn_over), None))
                group.create_task(app.provide(A, "x"))
            assert sorted(log) == sorted(f"+{i}" for i in range(20))
            assert {fiber.state for fiber in app.fibers} == {"active"}

    async def test_two_providers(self) -> None:
        """Of two simultaneous providers one wins and the other is refused."""
        async with App() as app:
            results = await asyncio.gather(app.provide(A, "x"), app.provide(A, "y"), return_exceptions=True)
            assert [type(r).__name__ for r in results] == ["Provision", "ServiceExists"]

    async def test_two_stops(self, kit: Kit) -> None:
        """Two simultaneous stops both return when the fiber has stopped."""
        gate, log = kit.gate(), list[str]()
        async with App() as app:
            fiber = await app.plugin(kit.logged("p", log, stop=gate), None)
            async with kit.beside(fiber.stop()) as one, kit.beside(fiber.stop()) as two:
                await gate.reached.wait()
                await kit.turn_over()
                assert (one.done(), two.done()) == (False, False)
                gate.opened.set()
            assert log == ["+p", "-p"]

    async def test_two_disposals(self, kit: Kit) -> None:
        """A second caller of a disposer waits for the first, so a fiber never stops before its cleanups end."""
        gate = kit.gate()
        kept: list[Callable[[], Awaitable[None]]] = []

        @plugin()
        async def slow(ctx: Context, config: None) -> None:
            kept.append(ctx.effect(gate))

        async with App() as app:
            fiber = await app.plugin(slow, None)
            async with kit.beside(kept[0]()), kit.beside(fiber.stop()) as stop:
                await kit.turn_over()
                assert (state(fiber), stop.done()) == ("stopping", False)
                gate.opened.set()

    async def test_two_withdrawals_of_one_dependant(self, kit: Kit) -> None:
        """A fiber that loses two needs at once stops once."""
        log: list[str] = []
        async with App() as app:
            a, b = await app.provide(A, "x"), await app.provide(B, "x")
            fiber = await app.plugin(kit.logged("p", log, A, B, stop=kit.turn_over), None)
            await asyncio.gather(a.withdraw(), b.withdraw())
            assert (log, state(fiber)) == (["+p", "-p"], "waiting")

    async def test_two_replacements(self, kit: Kit) -> None:
        """The later of two simultaneous replacements wins, and dependants run with it."""
        seen: list[str] = []

        @plugin(A)
        async def user(ctx: Context, config: None) -> None:
            ctx.effect(kit.turn_over)
            await kit.turn_over()
            seen.append(ctx.require(A))

        async with App() as app:
            provision = await app.provide(A, "1")
            await app.plugin(user, None)
            await asyncio.gather(provision.replace("2"), provision.replace("3"))
            assert (app.get(A), seen[0], seen[-1]) == ("3", "1", "3")

    async def test_each_stops_the_other(self, kit: Kit) -> None:
        """Two plugins that stop each other in their cleanups, in two tasks, end instead of waiting forever."""
        fibers: list[Fiber] = []
        log: list[str] = []

        async def stop_other(index: int) -> None:
            await kit.turn_over()
            await fibers[index].stop()

        async with App() as app, asyncio.timeout(5):
            fibers.append(await app.plugin(kit.logged("0", log, stop=lambda: stop_other(1)), None))
            fibers.append(await app.plugin(kit.logged("1", log, stop=lambda: stop_other(0)), None))
            await asyncio.gather(*(fiber.stop() for fiber in fibers))
            assert [state(fiber) for fiber in fibers] == ["stopped", "stopped"]
            assert sorted(log) == ["+0", "+1", "-0", "-1"]

    async def test_child_cleanup_stops_the_parent(self, kit: Kit) -> None:
        """A cleanup that stops the fiber's own parent does not wait for itself, and all is undone."""
        log: list[str] = []
        children: list[Fiber] = []

        @plugin()
        async def parent(ctx: Context, config: None) -> None:
            ctx.effect(lambda: log.append("-parent"))
            children.append(await ctx.plugin(kit.logged("child", log, stop=ctx.fiber.stop), None))

        async with App() as app, asyncio.timeout(5):
            fiber = await app.plugin(parent, None)
            await children[0].stop()
            assert (state(fiber), state(children[0])) == ("stopped", "stopped")
            assert log == ["+child", "-parent", "-child"]
