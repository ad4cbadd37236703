"""Deliberately broken executors fail the promise they break, or the contract would prove nothing."""

from __future__ import annotations

import asyncio
import inspect
import os

import pytest

from dsh_bash import BashError
from dsh_bash.contract import BashContract
from dsh_bash.contract._inputs import AMBIENT
from dsh_bash.contract._plain import PlainBash
from dsh_bash.contract._trial import PATIENCE_S, Trial
from dsh_bash.contract.broken import BROKEN

TESTS = [name for name in sorted(dir(BashContract)) if name.startswith("test_")]
SEEN = (AssertionError, BashError, ValueError, TimeoutError, BaseExceptionGroup, pytest.fail.Exception)


def number_of(test: str) -> str:
    return f"B{int(test[6:8])}"


async def fails(kind: type[PlainBash], test: str) -> bool:
    """Try one promise on an executor of its own."""
    trial = Trial(kind, kind.capabilities)
    try:
        async with asyncio.timeout(PATIENCE_S), trial:
            await inspect.unwrap(getattr(BashContract, test))(BashContract(), trial)
    except pytest.skip.Exception:
        return False
    except SEEN:
        return True
    return False


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
async def test_broken_executors_fail(kind: type[PlainBash], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the whole suite, all at once on one loop, exactly the test of the broken promise fails."""
    monkeypatch.setattr(os, "environ", os.environ)
    for name, value in AMBIENT.items():
        monkeypatch.setenv(name, value)
    failed = await asyncio.gather(*(fails(kind, test) for test in TESTS))
    assert [BROKEN[kind]] == [number_of(test) for test, one in zip(TESTS, failed, strict=True) if one]


def test_every_promise_is_broken_by_somebody() -> None:
    """No promise is there that an executor could not break unseen."""
    assert {number_of(test) for test in TESTS} == set(BROKEN.values())
