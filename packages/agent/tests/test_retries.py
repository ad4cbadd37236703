"""Requests that are tried again within their step (BEHAVIOUR §6.2, §6.3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from loopkit import told, until

from dsh_agent import ModelRequest, RetryPolicy
from dsh_session import BlockStart, StreamChunk, TextDelta

TEXT = {"text": "fine"}
QUICK = RetryPolicy(base_ms=1, jitter=0)


def failing(code: str = "SERVER", **more: Any) -> dict[str, Any]:
    return {"text": "half", "fail": "no", "code": code, **more}


async def test_a_retry_stays_in_its_step(rig: Any) -> None:
    """§6.3: attempt, retry and its start, then the message of the second attempt; the model sees no trace of it."""
    async with rig([failing("TRANSPORT"), TEXT], retries=QUICK) as run:
        agent = await run.agents.create()
        result = await agent.prompt("go")

        again = ["attempt", "llm/retry", "llm/retry-started", "message", "step/end", "turn/end completed"]
        assert again == told(agent.session)[8:]
        assert ({"kind": "completed"}, "fine") == (result.reason, result.text)
        assert [["user: go"]] * 2 == run.model.heard
        retry, started = (next(agent.session.events.of_type(kind)).data for kind in ("llm/retry", "llm/retry-started"))
        assert {
            "retryId": started["retryId"],
            "turn": 1,
            "step": 1,
            "provider": "scripted",
            "mode": "normal",
            "policyKey": '["normal",5,["EMPTY_RESPONSE","RATE_LIMIT","SERVER","TIMEOUT","TRANSPORT"],1,10000,0]',
            "retry": 1,
            "maxRetries": 5,
            "delayMs": 1,
            "failure": {"message": "no", "code": "TRANSPORT"},
        } == retry
        assert {"retryId": retry["retryId"], "turn": 1, "step": 1, "retry": 1} == started


async def test_retries_end(rig: Any) -> None:
    """The last failure is the turn's; all attempts are in the log, under one id, numbered."""
    policy = RetryPolicy(max_retries=2, base_ms=1, jitter=0)
    async with rig([failing()] * 3, retries=policy) as run:
        agent = await run.agents.create()
        result = await agent.prompt("go")

        expected = [*["attempt", "llm/retry", "llm/retry-started"] * 2, "attempt", "step/end", "turn/end error"]
        assert expected == told(agent.session)[8:]
        assert {"message": "no", "code": "SERVER"} == result.reason["error"]
        retries = [event.data for event in agent.session.events.of_type("llm/retry")]
        assert [(1, 1), (2, 2)] == [(data["retry"], data["delayMs"]) for data in retries]
        assert 1 == len({data["retryId"] for data in retries})


async def test_each_step_has_its_own_retries(rig: Any) -> None:
    """What one request used up the next has again."""
    call = {"tools": [{"name": "echo", "arguments": {"text": "x"}}]}
    policy = RetryPolicy(max_retries=1, base_ms=1, jitter=0)
    async with rig([failing(), call, failing(), TEXT], retries=policy) as run:
        agent = await run.agents.create()

        assert "completed" == (await agent.prompt("go")).reason["kind"]
        assert [1, 1] == [event.data["retry"] for event in agent.session.events.of_type("llm/retry")]


@pytest.mark.parametrize(
    ("failure", "is_retried"),
    [
        ({"code": "RATE_LIMIT"}, True),
        ({"code": "TIMEOUT"}, True),
        ({"code": "TRANSPORT"}, True),
        ({"code": "SERVER"}, True),
        ({"code": "EMPTY_RESPONSE"}, True),
        ({"code": "OTHER", "status": 429}, True),
        ({"code": "QUOTA", "status": 429}, False),
        ({"code": "OTHER", "status": 503}, True),
        ({"code": "OTHER", "status": 408}, True),
        ({"code": "OTHER"}, False),
        ({"code": "AUTH", "status": 401}, False),
        ({"code": "CONTEXT_WINDOW_EXCEEDED", "status": 400}, False),
        ({"code": "MALFORMED_RESPONSE"}, False),
        ({}, False),
    ],
)
def test_what_may_pass_is_retried(failure: dict[str, Any], is_retried: bool) -> None:
    """Rate limits, servers, networks; not what another attempt would only repeat."""
    assert is_retried == (QUICK.delay_ms(1, failure) is not None)


def test_the_wait_doubles_up_to_a_limit() -> None:
    """Without jitter exactly, with it by no more than its part."""
    policy = RetryPolicy(max_retries=7, jitter=0)
    failure = {"code": "SERVER"}
    assert [500, 1000, 2000, 4000, 8000, 10_000, 10_000, None] == [policy.delay_ms(n, failure) for n in range(1, 9)]
    waits = [RetryPolicy().delay_ms(1, failure) for _ in range(200)]
    assert all(wait is not None and 450 <= wait <= 550 for wait in waits)
    assert len(set(waits)) > 1


def test_a_provider_says_how_long() -> None:
    """Its wait counts, not ours; one beyond patience is a failure at once, and one that is none does not count."""
    policy = RetryPolicy(jitter=0)
    asked = {0: 0, 2500: 2500, 120_000: 120_000, 120_001: None, -1: 500, True: 500, "5": 500, None: 500}
    for said, wait in asked.items():
        assert wait == policy.delay_ms(1, {"code": "RATE_LIMIT", "providerRetryAfterMs": said}), said


async def test_a_provider_s_wait_is_in_the_log(rig: Any) -> None:
    """And the failure with it, as the provider said it."""
    async with rig([failing("RATE_LIMIT", status=429, retry_after_ms=3), TEXT]) as run:
        agent = await run.agents.create()
        await agent.prompt("go")

        (retry,) = agent.session.events.of_type("llm/retry")
        failure = {"message": "no", "code": "RATE_LIMIT", "status": 429, "providerRetryAfterMs": 3}
        assert (3, failure) == (retry.data["delayMs"], retry.data["failure"])


async def test_a_cancel_ends_the_wait(rig: Any) -> None:
    """The retry is scheduled and never started."""
    async with rig([failing(), TEXT], retries=RetryPolicy(base_ms=10_000_000, max_ms=10_000_000)) as run:
        agent = await run.agents.create()
        prompt = asyncio.create_task(agent.prompt("go"))
        await until(lambda: "llm/retry" in told(agent.session))
        agent.cancel("user")
        async with asyncio.timeout(20):
            assert "aborted" == (await prompt).reason["kind"]

        assert ["attempt", "llm/retry", "step/end", "turn/end aborted"] == told(agent.session)[8:]
        assert 1 == len(run.model.requests)


async def test_a_model_that_is_left_hangs_up(rig: Any) -> None:
    """The adapter's stream is closed when its turn is cancelled, before the turn has ended."""
    closed = asyncio.Event()

    class Endless:
        async def stream(self, request: ModelRequest) -> AsyncIterator[StreamChunk]:
            try:
                yield BlockStart(index=0, block_type="text")
                while True:
                    yield TextDelta(index=0, text="word ")
                    await asyncio.sleep(0.001)
            finally:
                closed.set()

    async with rig(model=Endless()) as run:
        agent = await run.agents.create()
        turn = asyncio.create_task(agent.prompt("go on"))
        await asyncio.sleep(0.05)
        agent.cancel("user")
        assert {"kind": "aborted", "reason": {"kind": "user"}} == (await turn).reason
        assert closed.is_set()
