"""Telling an agent that its background jobs have ended (BEHAVIOUR §5.5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from dsh_session import SessionEvent

from ._job import Job
from ._job_text import completion_notice, completion_summary

if TYPE_CHECKING:
    from ._agent import Agent

Delivery: TypeAlias = Literal["wakeup", "quiet"]

SOURCE = "tool-jobs"


class JobNotices:
    """Puts a notice before the owner of each job that ended without its knowledge.

    A running agent learns of it with its next step. With ``wakeup`` delivery an idle one gets a turn of its own, but no
    more than ``max_consecutive_wakes`` of them without a human in between: jobs that start jobs must not keep a model
    busy for ever. With ``quiet`` delivery, and after that, a notice waits for the next turn.
    """

    def __init__(self, *, delivery: Delivery, max_consecutive_wakes: int) -> None:
        self._delivery = delivery
        self._max_wakes = max_consecutive_wakes
        self._followed: dict[str, _Followed] = {}

    def follow(self, agent: Agent) -> None:
        """Count the turns an agent takes without a human."""
        followed = _Followed()
        followed.unfollow = agent.session.subscribe(followed.count)
        self._followed[agent.session.id] = followed

    def forget(self, agent: Agent) -> None:
        """Stop counting. Idempotent."""
        followed = self._followed.pop(agent.session.id, None)
        if followed is not None:
            followed.unfollow()

    def close(self) -> None:
        """Forget everybody."""
        for followed in self._followed.values():
            followed.unfollow()
        self._followed.clear()

    def completed(self, job: Job, agent: Agent | None) -> None:
        """Tell ``agent`` of a job that has ended, unless it knows."""
        followed = None if agent is None else self._followed.get(agent.session.id)
        if agent is None or followed is None or job.reported:
            return
        wakes = self._delivery == "wakeup" and followed.unattended < self._max_wakes
        deliver = agent.followup if wakes and agent.status == "idle" else agent.inject
        source = {"kind": SOURCE, "form": "notice", "summary": completion_summary(job)}
        followed.waiting[job.id] = deliver(completion_notice(job), source)

    def changed(self, job: Job) -> None:
        """Take back the notice of a job whose end its owner has read meanwhile."""
        followed = None if job.owner is None else self._followed.get(job.owner)
        if followed is not None and job.reported and job.id in followed.waiting:
            followed.waiting.pop(job.id)()


@dataclass(slots=True, kw_only=True, eq=False)
class _Followed:
    """What is kept of one agent."""

    unattended: int = 0
    """Turns since a human said something."""
    waiting: dict[str, Callable[[], None]] = field(default_factory=dict)
    """How the notice of each job is taken back."""
    unfollow: Callable[[], None] = lambda: None

    def count(self, event: SessionEvent) -> None:
        if event.type == "turn/start":
            self.unattended += 1
        elif event.type == "user/message" and event.data["source"]["kind"] == "user":
            self.unattended = 0
