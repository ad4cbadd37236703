"""What a cancellation leaves behind: nothing half done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from dsh_context import App, Context, ContextError, Fiber, ServiceKey, plugin

if TYPE_CHECKING:
    from conftest import Kit

A: ServiceKey[str] = ServiceKey("a")


def state(fiber: Fiber) -> str:
    return fiber.state


class TestCancellation:
    async def test_during_a_mount(self, kit: Kit) -> None:
        """Cancelling a mount undoes what the start did and leaves nothing mounted."""
        gate, log = kit.gate(), list[str]()
        async with App() as app:
            mount = asyncio.create_task(app.plugin(kit.logged("p", log, start=gate), None))
            await gate.reached.wait()
            mount.cancel()
            with pytest.raises(asyncio.CancelledError):
                await mount
            assert (log, app.fibers, app._run.effects) == (["+p", "-p"], (), {})

    async def test_timeout_around_a_mount(self, kit: Kit) -> None:
        """A timeout around a mount works as timeouts do."""
        async with App() as app:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await app.plugin(kit.logged("p", [], start=kit.gate()), None)
            assert app.fibers == ()

    async def test_during_a_provide(self, kit: Kit) -> None:
        """Cancelling a provide withdraws it: started dependants stop, the interrupted one waits."""
        gate, log = kit.gate(), list[str]()
        async with App() as app:
            one = await app.plugin(kit.logged("1", log, A), None)
            two = await app.plugin(kit.logged("2", log, A, start=gate), None)
            three = await app.plugin(kit.logged("3", log, A), None)
            provide = asyncio.create_task(app.provide(A, "x"))
            await gate.reached.wait()
            provide.cancel()
            with pytest.raises(asyncio.CancelledError):
                await provide
            assert app.get(A) is None
            assert [state(f) for f in (one, two, three)] == ["waiting"] * 3
            assert log == ["+1", "+2", "-2", "-1"]
            gate.opened.set()
            await app.provide(A, "y")
            assert [state(f) for f in (one, two, three)] == ["active"] * 3

    @pytest.mark.parametrize("where", ["start", "stop"])
    async def test_during_a_replace(self, kit: Kit, where: str) -> None:
        """Cancelling a replacement withdraws the service, wherever it was; nobody runs, everything is undone."""
        gate, log, armed = kit.gate(), list[str](), list[str]()

        async def hold() -> None:
            if armed:
                armed.clear()
                await gate()

        holds = {where: hold}
        async with App() as app:
            provision = await app.provide(A, "x")
            one = await app.plugin(kit.logged("1", log, A), None)
            two = await app.plugin(kit.logged("2", log, A, **holds), None)
            armed.append("now")
            replace = asyncio.create_task(provision.replace("y"))
            await gate.reached.wait()
            replace.cancel()
            with pytest.raises(asyncio.CancelledError):
                await replace
            assert (app.get(A), state(one), state(two)) == (None, "waiting", "waiting")
            assert log.count("+1") == log.count("-1")

    async def test_during_a_stop(self, kit: Kit) -> None:
        """A cancelled stop cuts the cleanup it hit, runs all others, and then raises the cancellation."""
        gate, log = kit.gate(), list[str]()

        @plugin()
        async def slow(ctx: Context, config: None) -> None:
            ctx.effect(lambda: log.append("1"))
            ctx.effect(gate)
            ctx.effect(lambda: log.append("3"))

        async with App() as app:
            fiber = await app.plugin(slow, None)
            stop = asyncio.create_task(fiber.stop())
            await gate.reached.wait()
            stop.cancel()
            with pytest.raises(asyncio.CancelledError):
                await stop
            assert (log, state(fiber)) == (["3", "1"], "stopped")

    async def test_during_a_stop_with_errors(self, kit: Kit) -> None:
        """The cancellation rises; the errors are its cause."""
        gate = kit.gate()

        @plugin()
        async def messy(ctx: Context, config: None) -> None:
            def fail() -> None:
                raise OSError("stuck")

            ctx.effect(fail)
            ctx.effect(gate)

        async with App() as app:
            fiber = await app.plugin(messy, None)

            async def stop() -> BaseException | None:
                try:
                    await fiber.stop()
                except asyncio.CancelledError as error:
                    return error.__cause__
                return None

            stopping = asyncio.create_task(stop())
            await gate.reached.wait()
            stopping.cancel()
            assert isinstance(await stopping, ExceptionGroup)

    async def test_of_a_waiting_stop(self, kit: Kit) -> None:
        """Cancelling one that only waits for a stop cancels the waiting, not the stop."""
        gate, log = kit.gate(), list[str]()
        async with App() as app:
            fiber = await app.plugin(kit.logged("p", log, stop=gate), None)
            async with kit.beside(fiber.stop()):
                await gate.reached.wait()
                waiting = asyncio.create_task(fiber.stop())
                await kit.turn_over()
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                assert state(fiber) == "stopping"
                gate.opened.set()
            assert (log, state(fiber)) == (["+p", "-p"], "stopped")

    async def test_of_a_withdrawal(self, kit: Kit) -> None:
        """A cancelled withdrawal still stops every dependant."""
        gate, log = kit.gate(), list[str]()
        async with App() as app:
            provision = await app.provide(A, "x")
            one = await app.plugin(kit.logged("1", log, A), None)
            two = await app.plugin(kit.logged("2", log, A, stop=gate), None)
            withdrawal = asyncio.create_task(provision.withdraw())
            await gate.reached.wait()
            withdrawal.cancel()
            with pytest.raises(asyncio.CancelledError):
                await withdrawal
            assert (state(one), state(two), app.get(A)) == ("waiting", "waiting", None)
            assert log == ["+1", "+2", "-1"]

    async def test_of_a_withdrawal_while_the_key_is_provided_anew(self, kit: Kit) -> None:
        """A cancelled withdrawal leaves no fiber waiting for a service that exists."""
        gate, log = kit.gate(), list[str]()
        async with App() as app:
            provision = await app.provide(A, "x")
            one = await app.plugin(kit.logged("1", log, A), None)
            two = await app.plugin(kit.logged("2", log, A, stop=gate), None)
            withdrawal = asyncio.create_task(provision.withdraw())
            await gate.reached.wait()
            await app.provide(A, "y")
            withdrawal.cancel()
            with pytest.raises(asyncio.CancelledError):
                await withdrawal
            gate.opened.set()
            assert (state(one), state(two)) == ("active", "active")

    async def test_of_a_replace_whose_service_went_meanwhile(self, kit: Kit) -> None:
        """A cancelled replacement, withdrawn and provided anew by others meanwhile, leaves no fiber behind waiting."""
        gate, log = kit.gate(), list[str]()
        async with App() as app:
            provision = await app.provide(A, "x")
            one = await app.plugin(kit.logged("1", log, A), None)
            two = await app.plugin(kit.logged("2", log, A, stop=gate), None)
            replace = asyncio.create_task(provision.replace("y"))
            await gate.reached.wait()
            await provision.withdraw()
            await app.provide(A, "z")
            replace.cancel()
            with pytest.raises(asyncio.CancelledError):
                await replace
            assert (state(one), state(two)) == ("active", "active")
            gate.opened.set()

    async def test_of_the_app(self, kit: Kit) -> None:
        """A cancelled app undoes everything before the cancellation passes on."""
        log: list[str] = []

        async def main() -> None:
            async with App() as app:
                await app.plugin(kit.logged("p", log, stop=kit.turn_over), None)
                await asyncio.sleep(60)

        running = asyncio.create_task(main())
        await kit.turn_over()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert log == ["+p", "-p"]

    async def test_leak_in_a_cleanup(self) -> None:
        """A CancelledError of a task the cleanup ended is an error of that cleanup, not a cancellation of the stop."""
        log: list[str] = []

        async def end_task() -> None:
            background = asyncio.create_task(asyncio.sleep(60))
            await asyncio.sleep(0)
            background.cancel()
            await background

        @plugin()
        async def sloppy(ctx: Context, config: None) -> None:
            ctx.effect(lambda: log.append("undone"))
            ctx.effect(end_task)

        async with App() as app:
            fiber = await app.plugin(sloppy, None)
            with pytest.raises(ExceptionGroup) as caught:
                await fiber.stop()
            (error,) = caught.value.exceptions
            assert isinstance(error, ContextError)
            assert isinstance(error.__cause__, asyncio.CancelledError)
            assert (log, state(fiber)) == (["undone"], "stopped")

    async def test_leak_in_a_start(self, kit: Kit) -> None:
        """A CancelledError that leaks into a start fails that start, and cancels nobody."""

        async def leak() -> None:
            raise asyncio.CancelledError

        async with App() as app:
            with pytest.raises(ContextError, match="leaked"):
                await app.plugin(kit.logged("p", [], start=leak), None)

    async def test_interpreter_exit_in_a_start(self, kit: Kit) -> None:
        """SystemExit passes through a mount as it is, after everything is undone."""
        log: list[str] = []

        async def leave() -> None:
            raise SystemExit(3)

        async def mount(app: App) -> str:
            try:
                await app.plugin(kit.logged("p", log, start=leave), None)
            except SystemExit as error:
                return f"exit {error.code}"
            return "no exit"

        async with App() as app:
            assert await mount(app) == "exit 3"
            assert (log, app.fibers) == (["+p", "-p"], ())


def test_discarded_coroutine(kit: Kit) -> None:
    """A start whose coroutine is thrown away ends at once: it may not await any more, so nothing is undone."""
    log: list[str] = []

    async def main() -> None:
        mounting = App().plugin(kit.logged("p", log, start=kit.gate(), stop=kit.turn_over), None)
        mounting.send(None)
        mounting.close()

    asyncio.run(main())
    assert log == ["+p"]
