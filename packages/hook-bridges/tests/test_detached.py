"""Runs beside the loop: each belongs to a session, and none outlives what owns it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from dsh_hook_bridges._detached import DetachedRuns

PATIENCE_S = 30


class Runs:
    """Runs that end when they are let, and remember how they ended."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.go = asyncio.Event()

    async def wait(self, name: str) -> None:
        try:
            await self.go.wait()
            self.ended.append(name)
        except asyncio.CancelledError:
            self.ended.append(f"{name} cancelled")
            raise


async def test_what_ends_in_time_is_waited_for():
    """All of a session, and nobody else's."""
    runs, detached = Runs(), DetachedRuns()
    for name in ("a1", "a2", "b1"):
        detached.start(name[0], runs.wait(name))
    asyncio.get_running_loop().call_later(0.05, runs.go.set)
    assert 0 == await detached.drain(PATIENCE_S, "a")
    assert {"a1", "a2"} <= set(runs.ended)
    assert 0 == await detached.drain(PATIENCE_S)
    assert {"a1", "a2", "b1"} == set(runs.ended)


async def test_what_takes_longer_is_ended():
    """And waited for, so that nothing of it is left; others go on."""
    runs, detached = Runs(), DetachedRuns()
    for name in ("a1", "a2", "b1"):
        detached.start(name[0], runs.wait(name))
    assert 2 == await detached.drain(0.01, "a")
    assert {"a1 cancelled", "a2 cancelled"} == set(runs.ended)
    runs.go.set()
    assert 0 == await detached.drain(PATIENCE_S)
    assert "b1" in runs.ended


async def test_nothing_to_wait_for():
    assert [0, 0] == [await DetachedRuns().drain(PATIENCE_S), await DetachedRuns().drain(0, "a")]


async def test_who_cannot_wait_any_longer_ends_them_at_once():
    """The cancellation is passed on once they are gone."""
    runs, detached = Runs(), DetachedRuns()
    detached.start("a", runs.wait("a1"))
    draining = asyncio.create_task(detached.drain(PATIENCE_S))
    await asyncio.sleep(0)
    draining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await draining
    assert ["a1 cancelled"] == runs.ended


async def test_what_fails_is_logged(caplog):
    """Nobody awaits it, and it takes no other run with it."""

    async def fail() -> None:
        raise ValueError("nobody hears me")

    runs, detached = Runs(), DetachedRuns()
    runs.go.set()
    detached.start("a", fail())
    detached.start("a", runs.wait("a1"))
    with caplog.at_level(logging.ERROR, "dsh_hook_bridges"):
        assert 0 == await detached.drain(PATIENCE_S)
    assert ["a1"] == runs.ended
    (record,) = caplog.records
    assert record.exc_info is not None
    assert "nobody hears me" == str(record.exc_info[1])
