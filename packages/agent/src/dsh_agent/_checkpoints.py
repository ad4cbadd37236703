"""When a log must be durable before anything goes on (BEHAVIOUR §6.5)."""

from __future__ import annotations

from dsh_context import Context, plugin
from dsh_persistence import SessionPersistence
from dsh_session import Session

from ._checkpoint import CheckpointPlace
from ._services import CHECKPOINT, PERSISTENCE, TurnEnded


@plugin(PERSISTENCE, name="turn-end-flush")
async def turn_end_flush(ctx: Context, _config: None) -> None:
    """Flush a session after each of its turns, before the next turn begins and before ``prompt`` returns."""

    async def flush(ended: TurnEnded) -> None:
        await ctx.require(PERSISTENCE).flush(ended.agent.session.id)

    ctx.on(TurnEnded, flush)


@plugin(PERSISTENCE, name="checkpoints")
async def checkpoints(ctx: Context, _config: None) -> None:
    """Flush a session before each step, each request and each call, and after each turn.

    So no model is asked and no tool runs for what a crash could still take back.
    """
    await ctx.plugin(turn_end_flush, None)
    await ctx.provide(CHECKPOINT, _Flush(ctx.require(PERSISTENCE)))


class _Flush:
    """A checkpoint that is reached when everything is durable."""

    def __init__(self, persistence: SessionPersistence) -> None:
        self._persistence = persistence

    async def reach(self, session: Session, place: CheckpointPlace) -> None:  # noqa: ARG002  # all places are alike
        await self._persistence.flush(session.id)
