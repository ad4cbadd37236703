from __future__ import annotations

import pytest

from dsh_context import (
    App,
    Context,
    ContextError,
    Fiber,
    FiberClosed,
    Plugin,
    Provision,
    ServiceExists,
    ServiceKey,
    ServiceMissing,
    plugin,
)

A: ServiceKey[str] = ServiceKey("a")
B: ServiceKey[str] = ServiceKey("b")


def state(fiber: Fiber) -> str:
    return fiber.state


@plugin(A)
async def needs_a(ctx: Context, log: list[str]) -> None:
    value = ctx.require(A)
    log.append(f"+{value}")
    ctx.effect(lambda: log.append(f"-{ctx.require(A)}"))


@plugin(name="logger")
async def three_effects(ctx: Context, log: list[str]) -> None:
    async def slow() -> None:
        log.append("2")

    ctx.effect(lambda: log.append("1"))
    ctx.effect(slow)
    ctx.effect(lambda: log.append("3"))


class TestServices:
    async def test_get_and_require(self) -> None:
        """`get` answers None where `require` raises, naming the key."""
        async with App() as app:
            assert app.get(A) is None
            with pytest.raises(ServiceMissing, match="'a'") as caught:
                app.require(A)
            assert caught.value.key is A
            assert isinstance(caught.value, ContextError)
            await app.provide(A, "x")
            assert (app.get(A), app.require(A)) == ("x", "x")

    async def test_falsy_values_are_values(self) -> None:
        """A service may be falsy."""
        async with App() as app:
            await app.provide(A, "")
            assert (app.get(A), app.require(A)) == ("", "")

    async def test_one_provider_a_key(self) -> None:
        """A second provider is refused and changes nothing; after a withdrawal the key is free."""
        async with App() as app:
            first = await app.provide(A, "x")
            with pytest.raises(ServiceExists, match="withdraw or replace") as caught:
                await app.provide(A, "y")
            assert caught.value.key is A
            assert app.get(A) == "x"
            await first.withdraw()
            await app.provide(A, "y")
            assert app.get(A) == "y"

    async def test_keys_are_objects(self) -> None:
        """Two keys of one name are two services."""
        other: ServiceKey[str] = ServiceKey("a")
        async with App() as app:
            await app.provide(A, "x")
            await app.provide(other, "y")
            assert (app.get(A), app.get(other)) == ("x", "y")
        assert repr(other) == "ServiceKey('a')"

    async def test_withdraw_twice(self) -> None:
        """Withdrawing twice is once, and never takes a later provider's service away."""
        async with App() as app:
            first = await app.provide(A, "x")
            await first.withdraw()
            await app.provide(A, "y")
            await first.withdraw()
            assert app.get(A) == "y"

    async def test_replace_after_withdrawal(self) -> None:
        """A withdrawn provision can no longer replace, whoever holds the key now."""
        async with App() as app:
            first = await app.provide(A, "x")
            await first.withdraw()
            with pytest.raises(ServiceMissing):
                await first.replace("z")
            await app.provide(A, "y")
            with pytest.raises(ServiceMissing):
                await first.replace("z")
            assert app.get(A) == "y"

    async def test_replace_restarts_for_an_equal_value(self) -> None:
        """A replacement counts, also when it equals what it replaces."""
        log: list[str] = []
        async with App() as app:
            provision = await app.provide(A, "x")
            await app.plugin(needs_a, log)
            await provision.replace("x")
            assert log == ["+x", "-x", "+x"]

    async def test_leaves_no_trace(self) -> None:
        """Provisions, effects, listeners and fibers that came and went leave nothing in any ledger."""
        async with App() as app:
            for _ in range(3):
                provision = await app.provide(A, "x")
                fiber = await app.plugin(needs_a, [])
                remove = app.on(str, lambda _: None)
                dispose = app.effect(lambda: None)
                for undo in (remove, dispose, fiber.stop, provision.withdraw):
                    await undo()
            assert app._run.effects == {}
            assert app.fibers == ()
            assert app._kernel.services == {}
            assert app._kernel.listeners == {str: {}}


class TestPlugins:
    def test_decorator(self) -> None:
        """The decorator makes a plugin named like its function unless told otherwise."""
        assert needs_a.name == "needs_a"
        assert needs_a.needs == (A,)
        assert three_effects.name == "logger"
        assert isinstance(needs_a, Plugin)

    async def test_waits_runs_and_stops_with_its_need(self) -> None:
        """A plugin is active exactly while what it needs exists."""
        log: list[str] = []
        async with App() as app:
            fiber = await app.plugin(needs_a, log)
            assert (fiber.name, fiber.needs, fiber.missing, state(fiber)) == ("needs_a", (A,), (A,), "waiting")
            provision = await app.provide(A, "1")
            assert (fiber.missing, state(fiber)) == ((), "active")
            await provision.withdraw()
            assert state(fiber) == "waiting"
            await app.provide(A, "2")
            assert state(fiber) == "active"
        assert state(fiber) == "stopped"
        assert log == ["+1", "-1", "+2", "-2"]

    async def test_every_need_counts(self) -> None:
        """One missing need keeps a plugin waiting."""
        async with App() as app:

            @plugin(A, B)
            async def both(ctx: Context, config: None) -> None: ...

            fiber = await app.plugin(both, None)
            a = await app.provide(A, "1")
            assert fiber.missing == (B,)
            await app.provide(B, "1")
            assert state(fiber) == "active"
            await a.withdraw()
            assert (state(fiber), fiber.missing) == ("waiting", (A,))

    async def test_config_and_instances(self) -> None:
        """One plugin may be mounted many times, each with its config."""
        one: list[str] = []
        two: list[str] = []
        async with App() as app:
            await app.provide(A, "x")
            first = await app.plugin(needs_a, one)
            second = await app.plugin(needs_a, two)
            await first.stop()
            assert (state(first), state(second)) == ("stopped", "active")
            assert (one, two) == (["+x", "-x"], ["+x"])
            assert app.fibers == (second,)

    async def test_failed_start_raises_and_is_undone(self) -> None:
        """A mount whose start fails undoes what the start did, newest first, and raises the very error."""
        log: list[str] = []

        @plugin()
        async def broken(ctx: Context, config: None) -> None:
            await ctx.provide(A, "x")
            await ctx.plugin(needs_a, log)
            ctx.effect(lambda: log.append("effect"))
            raise ValueError("no")

        async with App() as app:
            with pytest.raises(ValueError, match="no"):
                await app.plugin(broken, None)
            assert log == ["+x", "effect", "-x"]
            assert app.get(A) is None
            assert app.fibers == ()
            assert app._run.effects == {}

    async def test_failed_start_whose_undoing_fails_too(self) -> None:
        """Both failures rise together, and everything is undone."""
        log: list[str] = []

        def cannot() -> None:
            raise OSError("stuck")

        @plugin()
        async def broken(ctx: Context, config: None) -> None:
            ctx.effect(lambda: log.append("undone"))
            ctx.effect(cannot)
            raise ValueError("no")

        async with App() as app:
            with pytest.raises(ExceptionGroup, match="'broken'") as caught:
                await app.plugin(broken, None)
            assert [type(e) for e in caught.value.exceptions] == [ValueError, OSError]
            assert log == ["undone"]

    async def test_children_stop_with_their_parent(self) -> None:
        """A plugin's plugins stop with it, before its earlier effects are undone."""
        log: list[str] = []
        children: list[Fiber] = []

        @plugin()
        async def parent(ctx: Context, config: None) -> None:
            ctx.effect(lambda: log.append("first"))
            await ctx.provide(A, "x")
            children.append(await ctx.plugin(needs_a, log))

        async with App() as app:
            fiber = await app.plugin(parent, None)
            await fiber.stop()
            assert state(children[0]) == "stopped"
            assert log == ["+x", "-x", "first"]

    async def test_fiber_of_a_context(self) -> None:
        """A plugin can ask for its own fiber."""
        seen: list[Fiber] = []

        @plugin()
        async def curious(ctx: Context, config: None) -> None:
            seen.append(ctx.fiber)
            assert state(ctx.fiber) == "starting"

        async with App() as app:
            fiber = await app.plugin(curious, None)
            assert seen == [fiber]


class TestClosed:
    async def test_everything_is_refused_after_the_end(self) -> None:
        """A context whose run has ended registers nothing more, and names its plugin."""
        kept: list[Context] = []

        @plugin()
        async def keeper(ctx: Context, config: None) -> None:
            kept.append(ctx)

        async with App() as app:
            fiber = await app.plugin(keeper, None)
            await fiber.stop()
            (ctx,) = kept
            with pytest.raises(FiberClosed, match="'keeper' is stopped"):
                ctx.effect(lambda: None)
            with pytest.raises(FiberClosed):
                ctx.on(str, lambda _: None)
            with pytest.raises(FiberClosed):
                await ctx.provide(A, "x")
            with pytest.raises(FiberClosed):
                await ctx.plugin(keeper, None)
            assert app._kernel.listeners == {}
            assert ctx.get(A) is None
            await ctx.emit("still allowed")

    async def test_cleanup_cannot_register(self) -> None:
        """A cleanup that registers an effect is an error, so nothing is left behind."""

        @plugin()
        async def sly(ctx: Context, config: None) -> None:
            def register() -> None:
                ctx.effect(lambda: None)

            ctx.effect(register)

        async with App() as app:
            fiber = await app.plugin(sly, None)
            with pytest.raises(ExceptionGroup) as caught:
                await fiber.stop()
            assert caught.value.subgroup(FiberClosed) is not None

    async def test_context_of_an_earlier_run(self) -> None:
        """A context kept from before a restart is closed, although its fiber runs again."""
        kept: list[Context] = []

        @plugin(A)
        async def keeper(ctx: Context, config: None) -> None:
            kept.append(ctx)

        async with App() as app:
            provision = await app.provide(A, "x")
            await app.plugin(keeper, None)
            await provision.replace("y")
            old, new = kept
            with pytest.raises(FiberClosed):
                old.effect(lambda: None)
            new.effect(lambda: None)

    async def test_app_is_used_once(self) -> None:
        """An app that was left cannot be entered again."""
        app = App()
        async with app:
            pass
        with pytest.raises(FiberClosed, match="'app' is stopped"):
            async with app:
                pass


async def test_provision_type() -> None:
    """`provide` returns the provision, which knows its key."""
    async with App() as app:
        provision = await app.provide(A, "x")
        assert isinstance(provision, Provision)
        assert provision.key is A
