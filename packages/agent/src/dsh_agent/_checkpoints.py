"""When a log must be durable before anything goes on (BEHAVIOUR §6.5)."""

from __future__ import annotations

from dsh_context import Context, plugin

from ._services import PERSISTENCE, TurnEnded


@plugin(PERSISTENCE, name="turn-end-flush")
async def turn_end_flush(ctx: Context, _config: None) -> None:
    """Flush a session after each of its turns, before the next turn begins and before ``prompt`` returns."""

    async def flush(ended: TurnEnded) -> None:
        await ctx.require(PERSISTENCE).flush(ended.agent.session.id)

    ctx.on(TurnEnded, flush)
