"""The agents of a harness: created, resumed, closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dsh_context import Context, plugin
from dsh_session import Session, SessionError, SessionMeta

from ._agent import Agent
from ._model import ModelRoute
from ._services import AGENTS, MODEL, PERSISTENCE, SESSIONS, TOOLS, AgentStarted
from .errors import NotConfigured


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsConfig:
    """What every agent of the harness shares."""

    route: ModelRoute
    system_prompt: str = ""


class Agents:
    """Makes agents over the services of a context."""

    def __init__(self, ctx: Context, config: AgentsConfig) -> None:
        self._ctx = ctx
        self._config = config

    async def create(self, *, meta: SessionMeta | None = None, session_id: str | None = None) -> Agent:
        """Return an agent over a new session, which has its id and header before its first turn."""
        session = self._ctx.require(SESSIONS).create(session_id, meta=meta)
        return await self._begin(session, "startup")

    async def resume(self, session_id: str) -> Agent:
        """Return an agent over a stored session; id, header and location stay what they were.

        Raises ``NotConfigured`` without persistence, and what ``SessionPersistence.resume`` raises.
        """
        persistence = self._ctx.get(PERSISTENCE)
        if persistence is None:
            msg = "cannot resume: session persistence is not configured; mount a persistence backend"
            raise NotConfigured(msg)
        session = await persistence.resume(session_id)
        try:
            self._ctx.require(SESSIONS).enter(session)
        except SessionError:
            await persistence.detach(session)
            raise
        return await self._begin(session, "resume")

    async def close(self, agent: Agent) -> None:
        """Let go of an agent's session: what it still has to write is written. Raises ``WriteFailed``."""
        persistence = self._ctx.get(PERSISTENCE)
        if persistence is not None:
            await persistence.detach(agent.session)
        self._ctx.require(SESSIONS).leave(agent.session)

    async def _begin(self, session: Session, source: Literal["startup", "resume"]) -> Agent:
        agent = Agent(self._ctx, session, route=self._config.route, system_prompt=self._config.system_prompt)
        try:
            await self._ctx.emit(AgentStarted(agent=agent, source=source))
        except BaseException:
            await self.close(agent)
            raise
        return agent


@plugin(SESSIONS, TOOLS, MODEL, name="agents")
async def agents(ctx: Context, config: AgentsConfig) -> None:
    """Provide ``AGENTS``."""
    await ctx.provide(AGENTS, Agents(ctx, config))
