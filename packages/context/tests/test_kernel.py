"""In which order things start and stop, and what each of them sees."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from dsh_context import App, Context, Fiber, ServiceKey, plugin

if TYPE_CHECKING:
    from conftest import Kit

A: ServiceKey[str] = ServiceKey("a")
B: ServiceKey[str] = ServiceKey("b")


def state(fiber: Fiber) -> str:
    return fiber.state


class TestOrder:
    async def test_dependants_start_in_order_and_stop_in_reverse(self, kit: Kit) -> None:
        """Waiting plugins start in the order of mounting, and stop last started first."""
        log: list[str] = []
        async with App() as app:
            for name in "123":
                await app.plugin(kit.logged(name, log, A), None)
            provision = await app.provide(A, "x")
            await provision.withdraw()
            assert log == ["+1", "+2", "+3", "-3", "-2", "-1"]

    async def test_last_started_is_not_last_mounted(self, kit: Kit) -> None:
        """What started last stops first, although it was mounted first."""
        log: list[str] = []
        async with App() as app:
            await app.plugin(kit.logged("late", log, A, B), None)
            await app.plugin(kit.logged("early", log, A), None)
            provision = await app.provide(A, "x")
            await app.provide(B, "x")
            await provision.withdraw()
            assert log == ["+early", "+late", "-late", "-early"]

    async def test_start_follows_provision(self, kit: Kit) -> None:
        """What waits for the first provided key starts before what waits for the second, whatever was mounted first."""
        log: list[str] = []
        async with App() as app:
            await app.plugin(kit.logged("b", log, B), None)
            await app.plugin(kit.logged("a", log, A), None)
            await app.provide(A, "x")
            await app.provide(B, "x")
            assert log == ["+a", "+b"]

    async def test_replace_stops_all_then_starts_all(self, kit: Kit) -> None:
        """A replacement stops every dependant before the first starts again, in the order they had."""
        log: list[str] = []
        async with App() as app:
            provision = await app.provide(A, "x")
            for name in "12":
                await app.plugin(kit.logged(name, log, A), None)
            log.clear()
            await provision.replace("y")
            assert log == ["-2", "-1", "+1", "+2"]

    async def test_chain(self, kit: Kit) -> None:
        """A service that depends on a service goes and comes with it, and so does what needs the second."""
        log: list[str] = []

        @plugin(A)
        async def middle(ctx: Context, config: None) -> None:
            log.append("+middle")
            ctx.effect(lambda: log.append("-middle"))
            await ctx.provide(B, f"b over {ctx.require(A)}")

        async with App() as app:
            await app.plugin(kit.logged("user", log, A, B), None)
            await app.plugin(middle, None)
            provision = await app.provide(A, "x")
            assert (app.get(B), log) == ("b over x", ["+middle", "+user"])
            log.clear()
            await provision.replace("y")
            assert (app.get(B), log) == ("b over y", ["-user", "-middle", "+middle", "+user"])
            log.clear()
            await provision.withdraw()
            assert (app.get(B), log) == (None, ["-user", "-middle"])


class TestVisibility:
    async def test_replace_is_seen_at_once_and_needs_stay(self, kit: Kit) -> None:
        """`get` answers the new value while dependants still stop; those, and their children, keep the old one."""
        gate, seen = kit.gate(), list[str | None]()

        @plugin()
        async def child(ctx: Context, config: None) -> None:
            ctx.effect(lambda: seen.append(ctx.get(A)))

        @plugin(A)
        async def user(ctx: Context, config: None) -> None:
            ctx.effect(lambda: seen.append(ctx.require(A)))
            await ctx.plugin(child, None)
            if ctx.require(A) == "old":
                ctx.effect(gate)

        async with App() as app:
            provision = await app.provide(A, "old")
            await app.plugin(user, None)
            async with kit.beside(provision.replace("new")):
                await gate.reached.wait()
                assert app.get(A) == "new"
                gate.opened.set()
            assert seen == ["old", "old"]
            await provision.withdraw()
            assert seen == ["old", "old", "new", "new"]

    async def test_withdrawn_service_stays_for_those_that_need_it(self, kit: Kit) -> None:
        """A withdrawn service is gone at once for others and stays for a dependant until that has stopped."""
        gate, seen = kit.gate(), list[str]()

        @plugin(A)
        async def user(ctx: Context, config: None) -> None:
            ctx.effect(lambda: seen.append(ctx.require(A)))
            ctx.effect(gate)

        async with App() as app:
            provision = await app.provide(A, "x")
            fiber = await app.plugin(user, None)
            async with kit.beside(provision.withdraw()) as withdrawal:
                await gate.reached.wait()
                assert (app.get(A), state(fiber), seen) == (None, "stopping", [])
                assert not withdrawal.done()
                gate.opened.set()
            assert (seen, state(fiber)) == (["x"], "waiting")

    async def test_nobody_starts_with_a_service_that_goes(self, kit: Kit) -> None:
        """A plugin mounted while its need is being withdrawn waits."""
        gate, log = kit.gate(), list[str]()
        async with App() as app:
            provision = await app.provide(A, "x")
            await app.plugin(kit.logged("old", log, A, stop=gate), None)
            async with kit.beside(provision.withdraw()):
                await gate.reached.wait()
                fiber = await app.plugin(kit.logged("new", log, A), None)
                assert state(fiber) == "waiting"
                gate.opened.set()
            assert (state(fiber), log) == ("waiting", ["+old", "-old"])

    async def test_provided_anew_while_dependants_stop(self, kit: Kit) -> None:
        """A service provided anew during a withdrawal gives the dependants a new run when the old one is over."""
        gate, log = kit.gate(), list[str]()
        async with App() as app:
            provision = await app.provide(A, "x")
            first = await app.plugin(kit.logged("1", log, A), None)
            second = await app.plugin(kit.logged("2", log, A, stop=gate), None)
            async with kit.beside(provision.withdraw()):
                await gate.reached.wait()
                await app.provide(A, "y")
                assert (state(first), state(second)) == ("active", "stopping")
                gate.opened.set()
            assert (state(first), state(second)) == ("active", "active")
            assert log == ["+1", "+2", "-2", "+2", "-1", "+1"]


class TestLateFailure:
    async def test_provider_is_not_to_blame(self, kit: Kit, reports: list[dict[str, Any]]) -> None:
        """A dependant that fails to start fails no provider: it says so itself, and the loop's handler hears of it."""
        log: list[str] = []

        async def fail() -> None:
            raise ValueError("no")

        async with App() as app:
            bad = await app.plugin(kit.logged("bad", log, A, start=fail), None)
            good = await app.plugin(kit.logged("good", log, A), None)
            await app.provide(A, "x")
            assert (state(bad), state(good)) == ("failed", "active")
            assert repr(bad.error) == "ValueError('no')"
            assert log == ["+bad", "-bad", "+good"]
        assert [(r["message"], r["exception"]) for r in reports] == [("plugin 'bad' failed to start", bad.error)]
        assert state(bad) == "stopped"

    async def test_another_chance(self, reports: list[dict[str, Any]]) -> None:
        """A failed plugin starts again when a service it needs changes, and only then."""
        tries: list[str] = []

        @plugin(A)
        async def picky(ctx: Context, config: None) -> None:
            tries.append(ctx.require(A))
            if ctx.require(A) == "bad":
                raise ValueError("no")

        async with App() as app:
            fiber = await app.plugin(picky, None)
            provision = await app.provide(A, "bad")
            await app.provide(B, "x")
            assert (state(fiber), tries) == ("failed", ["bad"])
            await provision.replace("good")
            assert (state(fiber), fiber.error, tries) == ("active", None, ["bad", "good"])
        assert len(reports) == 1

    async def test_need_lost_during_a_failing_mount(self, kit: Kit) -> None:
        """A start that fails while its need goes still raises from the mount, and leaves nothing mounted."""
        gate = kit.gate()

        async def fail() -> None:
            await gate()
            raise ValueError("no")

        async with App() as app:
            provision = await app.provide(A, "x")
            mount = asyncio.create_task(app.plugin(kit.logged("p", [], A, start=fail), None))
            await gate.reached.wait()
            async with kit.beside(provision.withdraw()):
                await kit.turn_over()
                gate.opened.set()
            with pytest.raises(ValueError, match="no"):
                await mount
            assert app.fibers == ()
