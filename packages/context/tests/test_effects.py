from __future__ import annotations

import pytest

from dsh_context import App, Context, Fiber, ServiceKey, plugin

A: ServiceKey[str] = ServiceKey("a")


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


class TestEffects:
    async def test_reverse_order(self) -> None:
        """Effects are undone newest first, synchronous and asynchronous alike."""
        log: list[str] = []
        async with App() as app:
            fiber = await app.plugin(three_effects, log)
            await fiber.stop()
            assert log == ["3", "2", "1"]

    async def test_disposer(self) -> None:
        """A disposer runs its cleanup once; the fiber's end does not run it again."""
        log: list[str] = []
        async with App() as app:
            dispose = app.effect(lambda: log.append("x"))
            await dispose()
            await dispose()
            assert log == ["x"]
        assert log == ["x"]

    async def test_stop_twice(self) -> None:
        """Stopping twice is once."""
        log: list[str] = []
        async with App() as app:
            fiber = await app.plugin(three_effects, log)
            await fiber.stop()
            await fiber.stop()
            assert log == ["3", "2", "1"]

    async def test_stop_before_start(self) -> None:
        """A fiber stopped while it waits never starts."""
        log: list[str] = []
        async with App() as app:
            fiber = await app.plugin(needs_a, log)
            await fiber.stop()
            await app.provide(A, "x")
            assert (state(fiber), log) == ("stopped", [])

    async def test_errors_are_gathered(self) -> None:
        """Every cleanup runs whatever the others raise; the errors rise as one group, in the order they came."""
        log: list[str] = []

        @plugin()
        async def messy(ctx: Context, config: None) -> None:
            def fail(name: str) -> None:
                log.append(name)
                raise OSError(name)

            ctx.effect(lambda: log.append("1"))
            ctx.effect(lambda: fail("2"))
            ctx.effect(lambda: log.append("3"))
            ctx.effect(lambda: fail("4"))

        async with App() as app:
            fiber = await app.plugin(messy, None)
            with pytest.raises(ExceptionGroup, match="'messy'") as caught:
                await fiber.stop()
            assert [str(e) for e in caught.value.exceptions] == ["4", "2"]
            assert log == ["4", "3", "2", "1"]
            assert state(fiber) == "stopped"
            await fiber.stop()
            assert app.fibers == ()

    async def test_errors_of_dependants_rise_where_the_service_goes(self) -> None:
        """A dependant that cannot stop cleanly keeps neither the withdrawal nor its siblings from stopping."""
        log: list[str] = []

        @plugin(A)
        async def messy(ctx: Context, config: None) -> None:
            def fail() -> None:
                raise OSError("stuck")

            ctx.effect(fail)

        async with App() as app:
            provision = await app.provide(A, "x")
            await app.plugin(needs_a, log)
            fiber = await app.plugin(messy, None)
            with pytest.raises(ExceptionGroup) as caught:
                await provision.withdraw()
            assert caught.value.subgroup(OSError) is not None
            assert (app.get(A), state(fiber), log) == (None, "waiting", ["+x", "-x"])

    async def test_replace_goes_through_whatever_rises(self) -> None:
        """A replacement is done, and dependants run again, before the errors of their stopping rise."""

        @plugin(A)
        async def messy(ctx: Context, config: None) -> None:
            def fail() -> None:
                raise OSError("stuck")

            if ctx.require(A) == "x":
                ctx.effect(fail)

        async with App() as app:
            provision = await app.provide(A, "x")
            fiber = await app.plugin(messy, None)
            with pytest.raises(ExceptionGroup):
                await provision.replace("y")
            assert (app.get(A), state(fiber)) == ("y", "active")

    async def test_app_exit_gathers(self) -> None:
        """Leaving the app undoes everything and then raises."""
        log: list[str] = []

        def fail() -> None:
            raise OSError("stuck")

        app = App()
        app.effect(lambda: log.append("x"))
        app.effect(fail)
        with pytest.raises(ExceptionGroup) as caught:
            await app.__aexit__(None, None, None)
        assert [type(e) for e in caught.value.exceptions] == [OSError]
        assert log == ["x"]


class TestEvents:
    async def test_order_and_type(self) -> None:
        """Listeners run in the order of registration, for exactly the event's type."""
        log: list[str] = []

        class Base: ...

        class Derived(Base): ...

        async def late(_: Base) -> None:
            log.append("second")

        async with App() as app:
            app.on(Base, lambda _: log.append("first"))
            app.on(Base, late)
            app.on(Derived, lambda _: log.append("derived"))
            await app.emit(Base())
            assert log == ["first", "second"]
            await app.emit(Derived())
            assert log == ["first", "second", "derived"]
            await app.emit(object())

    async def test_all_run_then_one_group(self) -> None:
        """A failing listener stops no other; the failures rise as one group."""
        log: list[str] = []

        def fail(event: str) -> None:
            raise ValueError(event)

        async def fail_late(event: str) -> None:
            raise OSError(event)

        async with App() as app:
            app.on(str, fail)
            app.on(str, fail_late)
            app.on(str, log.append)
            with pytest.raises(ExceptionGroup, match="listeners of str") as caught:
                await app.emit("x")
            assert [type(e) for e in caught.value.exceptions] == [ValueError, OSError]
            assert log == ["x"]

    async def test_listeners_go_with_their_fiber(self) -> None:
        """A plugin's listeners go with it; a disposer removes just its own registration."""
        log: list[str] = []

        @plugin()
        async def listening(ctx: Context, config: None) -> None:
            ctx.on(str, log.append)

        async with App() as app:
            fiber = await app.plugin(listening, None)
            first = app.on(str, log.append)
            app.on(str, lambda event: log.append(f"{event}!"))
            app.on(str, log.append)
            await app.emit("a")
            assert log == ["a", "a", "a!", "a"]
            log.clear()
            await fiber.stop()
            await first()
            await app.emit("b")
            assert log == ["b!", "b"]

    async def test_removed_while_emitting(self) -> None:
        """A listener that an earlier one removed is not called; one added meanwhile waits for the next event."""
        log: list[str] = []
        async with App() as app:

            async def first(_: str) -> None:
                log.append("first")
                await remove()
                app.on(str, lambda _: log.append("added"))

            app.on(str, first)
            remove = app.on(str, lambda _: log.append("removed"))
            await app.emit("x")
            assert log == ["first"]
