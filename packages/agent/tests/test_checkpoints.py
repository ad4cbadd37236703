"""When the log must be durable before anything goes on (BEHAVIOUR §6.5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from loopkit import echo, told, until

from dsh_agent import AgentFailed, Extension, TurnEnded, checkpoints, turn_end_flush
from dsh_persistence import MemoryLogStore
from dsh_session import EncodedBatch

TEXT = {"text": "ok"}
LONG_MS = 600_000
OPENING = ["IN+ next-turn", "turn/start 1", "IN- next-turn"]


class Store(MemoryLogStore):
    """Remembers what each write ended with; fails where a test says so, and waits while it is held."""

    def __init__(self) -> None:
        super().__init__()
        self.tails: list[str] = []
        self.fails_at: str | None = None

    def extend(self, session_id: str, batch: EncodedBatch) -> None:
        if self.fails_at is not None and batch.events[-1].type == self.fails_at:
            raise OSError(28, "No space left on device")
        self.tails.append(batch.events[-1].type)
        super().extend(session_id, batch)


async def test_where_the_log_is_durable(rig: Any) -> None:
    """Before each step, each request and each call, and after the turn; what a flush ends with tells where it was."""
    store = Store()
    async with rig([{"tools": [echo()]}, TEXT], store=store, plugins=[checkpoints], window_ms=LONG_MS) as run:
        agent = await run.agents.create()
        await agent.prompt("go")

        step_1 = ["agent/inbox/spliced", "request/context", "tool/call"]
        assert [*step_1, "step/end", "step/start", "turn/end"] == store.tails
        assert 0 == run.persistence.health(agent.session.id).queued


async def test_turn_end_flush_alone(rig: Any) -> None:
    """Without checkpoints nothing is flushed before the turn has ended."""
    store = Store()
    async with rig([{"tools": [echo()]}, TEXT], store=store, plugins=[turn_end_flush], window_ms=LONG_MS) as run:
        agent = await run.agents.create()
        await agent.prompt("go")

        assert ["turn/end"] == store.tails


async def test_checkpoints_go_with_their_plugin(rig: Any) -> None:
    """Stopping it, or taking persistence away, leaves a loop that runs without."""
    store = Store()
    async with rig([TEXT], store=store, plugins=[], window_ms=LONG_MS) as run:
        fiber = await run.app.plugin(checkpoints, None)
        await fiber.stop()
        agent = await run.agents.create()
        await agent.prompt("go")

        assert [] == store.tails


@pytest.mark.parametrize(
    ("fails_at", "ends", "asked"),
    [
        ("agent/inbox/spliced", [*OPENING, "turn/end error"], 0),
        ("request/context", [*OPENING, "step/start 1.1", "step/end", "turn/end error"], 0),
        ("step/end", [*OPENING, "step/start 1.1", "call c1", "result c1", "step/end", "turn/end error"], 1),
    ],
)
async def test_a_failed_checkpoint_before_a_step_or_a_request(
    rig: Any, fails_at: str, ends: list[str], asked: int
) -> None:
    """The model is not asked, nothing is retried, the turn ends as failed, the error is announced; later work runs."""
    store, failures = Store(), []
    store.fails_at = fails_at
    async with rig([{"tools": [echo()]}, TEXT, TEXT], store=store, plugins=[checkpoints], window_ms=LONG_MS) as run:
        run.app.on(AgentFailed, failures.append)
        agent = await run.agents.create()
        result = await agent.prompt("go")

        kinds = ("IN", "turn", "step", "call", "result")
        assert ends == [line for line in told(agent.session) if line.startswith(kinds)]
        assert asked == len(run.model.requests)
        assert ("error", "UNKNOWN") == (result.reason["kind"], result.reason["error"]["code"])
        assert "No space left on device" in result.reason["error"]["message"]
        assert [(1, asked or (1 if fails_at == "request/context" else None))] == [
            (failed.turn, failed.step) for failed in failures
        ]
        store.fails_at = None
        assert "completed" == (await agent.prompt("again")).reason["kind"]
        assert 0 == run.persistence.health(agent.session.id).queued


async def test_a_failed_checkpoint_before_a_tool(rig: Any) -> None:
    """The body does not run, its result says why, no extension judges it, and the turn goes on."""
    store, failures, judged = Store(), [], []

    class Judge(Extension):
        name = "plugin:judge"

        async def post_tool_use(self, event: Any) -> None:
            judged.append(event)

        async def pre_tool_use(self, event: Any) -> None:
            store.fails_at = "tool/call"

    async with rig([{"tools": [echo()]}, TEXT], store=store, plugins=[checkpoints], window_ms=LONG_MS) as run:
        run.app.on(AgentFailed, failures.append)
        run.extensions.register(Judge())
        agent = await run.agents.create()
        result = await agent.prompt("go")

        (settled,) = [event.data for event in agent.session.events.of_type("tool/result")]
        assert "No space left on device" in settled["message"]["content"][0]["text"]
        assert (True, False) == (settled["message"]["isError"], "error" in settled)
        assert ([], [], "completed") == (run.echo.seen, judged, result.reason["kind"])
        assert 1 == len(failures)


async def test_a_failed_checkpoint_after_a_turn(rig: Any, caplog: Any) -> None:
    """It is announced and logged, never an event behind the closed turn; later work goes on."""
    store, failures = Store(), []
    store.fails_at = "turn/end"
    async with rig([TEXT, TEXT], store=store, plugins=[checkpoints], window_ms=LONG_MS) as run:
        run.app.on(AgentFailed, failures.append)
        agent = await run.agents.create()
        result = await agent.prompt("go")
        ended = told(agent.session)[-1]
        store.fails_at = None
        after = await agent.prompt("again")

        assert ("turn/end completed", "completed", "completed") == (ended, result.reason["kind"], after.reason["kind"])
        assert [None] == [failed.turn for failed in failures]
        assert "after turn 1" in caplog.text


@pytest.mark.parametrize("place", ["step", "model", "tool"])
async def test_cancel_at_a_checkpoint(rig: Any, place: str) -> None:
    """The wait ends at once; a call that waited for it was not dispatched."""
    from dsh_agent import CHECKPOINT

    class Held:
        def __init__(self) -> None:
            self.is_reached = asyncio.Event()

        async def reach(self, session: Any, at: str) -> None:
            if at == place:
                self.is_reached.set()
                await asyncio.Event().wait()

    async with rig([{"tools": [echo()]}, TEXT]) as run:
        held = Held()
        await run.app.provide(CHECKPOINT, held)
        agent = await run.agents.create()
        prompt = asyncio.create_task(agent.prompt("go"))
        await held.is_reached.wait()
        agent.cancel("user")

        assert {"kind": "user"} == (await prompt).reason["reason"]
        ends = {
            "step": ["IN- next-turn"],
            "model": ["request/context", "step/end"],
            "tool": ["call c1", "result c1 error", "step/end"],
        }
        assert [*ends[place], "turn/end aborted"] == told(agent.session)[-len(ends[place]) - 1 :]
        codes = [event.data["error"]["code"] for event in agent.session.events.of_type("tool/result")]
        assert (["ABORTED_BEFORE_DISPATCH"] if place == "tool" else []) == codes
        assert [] == run.echo.seen


async def test_the_next_turn_waits_for_the_flush(rig: Any) -> None:
    """A queued prompt starts when the turn before it is durable, and an agent is idle only then."""
    order: list[str] = []
    async with rig([TEXT, TEXT], plugins=[]) as run:

        async def slow(ended: TurnEnded) -> None:
            await asyncio.sleep(0.01)
            order.append(f"end {ended.turn} {agent.status}")

        run.app.on(TurnEnded, slow)
        agent = await run.agents.create()
        agent.session.subscribe(
            lambda event: order.append(f"start {event.data['turn']}") if event.type == "turn/start" else None
        )
        agent.followup("a", {"kind": "tool-jobs"})
        await agent.prompt("b")
        await until(lambda: agent.status == "idle")

        assert ["start 1", "end 1 running", "start 2", "end 2 running"] == order
