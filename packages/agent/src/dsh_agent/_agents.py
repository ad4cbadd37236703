"""The agents of a harness: created, resumed, closed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dsh_context import Context, plugin
from dsh_session import EventLog, Session, SessionHeader, SessionMeta

from ._agent import MAX_PARALLEL_TOOL_CALLS, Agent, Lineage
from ._decisions import SubagentEnd, SubagentStart
from ._delegation import Spawn, descriptor, ended_turns, fork_meta, spawn_meta
from ._extensions import Extensions
from ._model import ModelRoute
from ._retry import RetryPolicy
from ._services import AGENTS, EXTENSIONS, MODEL, PERSISTENCE, SESSIONS, TOOLS, AgentStarted
from .errors import ForkInvalid, NotConfigured


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsConfig:
    """What every agent of the harness shares."""

    route: ModelRoute
    system_prompt: str = ""
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    max_parallel_tool_calls: int = MAX_PARALLEL_TOOL_CALLS
    """How many calls of one reply may run at a time, of those that may overlap at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentClosing:
    """An agent is about to let go of its session; what works for it ends now, while its log can still grow."""

    agent: Agent


class Agents:
    """Makes agents over the services of a context, and knows those that live."""

    def __init__(self, ctx: Context, config: AgentsConfig) -> None:
        self._ctx = ctx
        self._config = config
        self._live: dict[str, Agent] = {}
        self._delegated: dict[Agent, SubagentStart] = {}

    def __iter__(self) -> Iterator[Agent]:
        """Iterate over the live agents, oldest first."""
        return iter(tuple(self._live.values()))

    def get(self, session_id: str) -> Agent | None:
        """Return the live agent of that session, or None."""
        return self._live.get(session_id)

    async def create(self, *, meta: SessionMeta | None = None, session_id: str | None = None) -> Agent:
        """Return an agent over a new session, which has its id and header before its first turn."""
        lineage = await self.lineage_of(meta or SessionMeta())
        session = self._ctx.require(SESSIONS).create(session_id, meta=meta)
        return await self._begin(session, "startup", lineage)

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
            lineage = await self.lineage_of(session.header)
            self._ctx.require(SESSIONS).enter(session)
        except BaseException:
            await persistence.detach(session)
            raise
        return await self._begin(session, "resume", lineage)

    async def fork(self, session_id: str, *, at: int | None = None, new_id: str | None = None) -> Agent:
        """Return an agent over a new session that begins with the events of another up to and with seq ``at``.

        ``at`` defaults to the last event and may lie inside a turn, which the fork closes for itself. The other session
        may be live or stored; nothing of it changes. Raises ``NotConfigured`` where it is neither live nor could be
        stored, ``ForkInvalid`` when there is no event ``at``, and what ``SessionPersistence.inspect`` raises.
        """
        header, events = await self._history(session_id)
        boundary = len(events) - 1 if at is None else at
        if not 0 <= boundary < len(events):
            raise ForkInvalid(session_id, at=boundary, events=len(events))
        sessions = self._ctx.require(SESSIONS)
        session = sessions.create(new_id, seed=events[: boundary + 1], meta=fork_meta(header))
        return await self._begin(session, "fork", None)

    async def spawn(self, parent: Agent, spawn: Spawn, *, session_id: str | None = None) -> Agent:
        """Return an agent over a new session that ``parent`` delegates to; it works beside its parent.

        Extensions are told, and told again when the child is closed. Raises ``DelegationTooDeep``; nothing was made
        then.
        """
        meta = spawn_meta(parent.session, spawn)
        events = parent.session.events
        seed = events[: ended_turns(events)] if spawn.inherit == "turns" else ()
        lineage = await self.lineage_of(meta)
        session = self._ctx.require(SESSIONS).create(session_id, seed=seed, meta=meta)
        session.append("subagent/descriptor", descriptor(spawn))
        child = await self._begin(session, "startup", lineage)
        self._delegated[child] = SubagentStart(agent=parent, child=child, kind=spawn.label)
        child.add(await self._extensions().subagent_start(self._delegated[child]))
        return child

    async def close(self, agent: Agent) -> None:
        """Let go of an agent's session: what works for it ends, and what it still has to write is written.

        Raises ``WriteFailed``, and an ``ExceptionGroup`` of what ``AgentClosing`` listeners raised.
        """
        await agent.stop()
        delegated = self._delegated.pop(agent, None)
        if delegated is not None:
            reason: Mapping[str, Any] = {}
            for event in agent.session.events.of_type("turn/end"):
                reason = event.data["reason"]
            ended = SubagentEnd(agent=delegated.agent, child=agent, kind=delegated.kind, reason=reason)
            await self._extensions().subagent_end(ended)
        try:
            await self._ctx.emit(AgentClosing(agent=agent))
        finally:
            persistence = self._ctx.get(PERSISTENCE)
            if persistence is not None:
                await persistence.detach(agent.session)
            self._ctx.require(SESSIONS).leave(agent.session)
            if self._live.get(agent.session.id) is agent:
                del self._live[agent.session.id]

    async def stop(self) -> None:
        """Stop every agent; its session stays as it is."""
        for agent in self:
            await agent.stop()

    async def lineage_of(self, header: SessionHeader | SessionMeta) -> Lineage | None:
        """Return who delegated to a session, None when nobody did.

        Delegations are followed upwards through sessions that live and headers that are stored.
        """
        parent = _delegator(header)
        if parent is None:
            return None
        live = self._ctx.require(SESSIONS)
        stored: Mapping[str, SessionHeader] | None = None
        root, seen = parent, {parent}
        while True:
            session = live.get(root)
            if session is None and stored is None:
                stored = await self._stored_headers()
            known = session.header if session is not None else (stored or {}).get(root)
            above = None if known is None else _delegator(known)
            if above is None or above in seen:
                return Lineage(parent=parent, root=root)
            seen.add(above)
            root = above

    def _extensions(self) -> Extensions:
        return self._ctx.get(EXTENSIONS) or Extensions(self._ctx.emit)

    async def _history(self, session_id: str) -> tuple[SessionHeader, EventLog]:
        live = self._ctx.require(SESSIONS).get(session_id)
        if live is not None:
            return live.header, live.events
        persistence = self._ctx.get(PERSISTENCE)
        if persistence is None:
            msg = f"cannot fork session {session_id}: it is not live, and session persistence is not configured"
            raise NotConfigured(msg)
        stored = await persistence.inspect(session_id)
        return stored.header, stored.events

    async def _stored_headers(self) -> Mapping[str, SessionHeader]:
        persistence = self._ctx.get(PERSISTENCE)
        listed = () if persistence is None else await persistence.list()
        return {entry.header.id: entry.header for entry in listed if entry.header is not None}

    async def _begin(
        self, session: Session, source: Literal["startup", "resume", "fork"], lineage: Lineage | None
    ) -> Agent:
        config = self._config
        agent = Agent(
            self._ctx,
            session,
            route=config.route,
            system_prompt=config.system_prompt,
            lineage=lineage,
            retries=config.retries,
            max_parallel_tool_calls=config.max_parallel_tool_calls,
        )
        self._live[session.id] = agent
        try:
            await self._ctx.emit(AgentStarted(agent=agent, source=source))
            await agent.begin(source)
        except BaseException:
            await self.close(agent)
            raise
        return agent


@plugin(SESSIONS, TOOLS, MODEL, name="agents")
async def agents(ctx: Context, config: AgentsConfig) -> None:
    """Provide ``AGENTS`` and ``EXTENSIONS``; stopping ends the agents' turns, before the extensions go."""
    await ctx.provide(EXTENSIONS, Extensions(ctx.emit))
    service = Agents(ctx, config)
    ctx.effect(service.stop)
    await ctx.provide(AGENTS, service)


def _delegator(header: SessionHeader | SessionMeta) -> str | None:
    """Return the session that delegated to this one; None for one at the top, and for one that was merely forked."""
    is_delegated = header.origin == "subagent" or header.delegation_depth > 0
    return header.parent_session if is_delegated else None
