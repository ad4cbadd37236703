"""The plugin: one registry, its tools, and the notices."""

from __future__ import annotations

from dataclasses import dataclass

from dsh_context import Context, plugin

from ._agent import Agent
from ._agents import AgentClosing
from ._job_notices import Delivery, JobNotices
from ._job_tools import JobKill, JobList, JobOutput
from ._jobs import Jobs
from ._services import AGENTS, JOBS, TOOLS, AgentStarted


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsConfig:
    """How an agent learns that a job of its has ended."""

    completion_delivery: Delivery = "wakeup"
    """``wakeup`` gives an idle agent a turn for it; ``quiet`` waits for the next turn."""
    max_consecutive_wakes: int = 3
    """Turns an agent may get in this way without a human message in between."""


@plugin(TOOLS, name="jobs")
async def jobs(ctx: Context, config: JobsConfig | None) -> None:
    """Provide ``JOBS`` and its tools; stopping ends what still runs. None is the default configuration."""
    config = config or JobsConfig()
    registry = Jobs()
    notices = JobNotices(delivery=config.completion_delivery, max_consecutive_wakes=config.max_consecutive_wakes)
    ctx.effect(registry.observe(notices.changed))
    ctx.effect(registry.on_completion(notices.completed))
    ctx.effect(notices.close)
    ctx.effect(registry.close)

    def adopt(agent: Agent) -> None:
        registry.adopt(agent)
        notices.follow(agent)

    async def release(closing: AgentClosing) -> None:
        notices.forget(closing.agent)
        await registry.release(closing.agent)

    for agent in ctx.get(AGENTS) or ():
        adopt(agent)
    ctx.on(AgentStarted, lambda started: adopt(started.agent))
    ctx.on(AgentClosing, release)
    await ctx.provide(JOBS, registry)
    tools = ctx.require(TOOLS)
    for tool in (JobOutput(registry), JobList(registry), JobKill(registry)):
        ctx.effect(tools.register(tool))
