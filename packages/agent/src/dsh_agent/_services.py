"""The typed keys of an agent's services, and the events it announces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dsh_context import ServiceKey
from dsh_persistence import SessionPersistence
from dsh_session import Sessions

from ._approval import Approval
from ._checkpoint import Checkpoint
from ._jobs import Jobs
from ._model import ModelAdapter
from ._tools import Tools

if TYPE_CHECKING:
    from ._agent import Agent
    from ._agents import Agents
    from ._extensions import Extensions

SESSIONS: ServiceKey[Sessions] = ServiceKey("sessions")
PERSISTENCE: ServiceKey[SessionPersistence] = ServiceKey("persistence")
TOOLS: ServiceKey[Tools] = ServiceKey("tools")
MODEL: ServiceKey[ModelAdapter] = ServiceKey("model")
JOBS: ServiceKey[Jobs] = ServiceKey("jobs")
AGENTS: ServiceKey[Agents] = ServiceKey("agents")
APPROVAL: ServiceKey[Approval] = ServiceKey("approval")
CHECKPOINT: ServiceKey[Checkpoint] = ServiceKey("checkpoint")
EXTENSIONS: ServiceKey[Extensions] = ServiceKey("extensions")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStarted:
    """An agent exists; its session may be new, resumed, or forked from another."""

    agent: Agent
    source: Literal["startup", "resume", "fork"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    """A turn has closed in the log. The next turn, and whoever awaits this one, wait for the listeners."""

    agent: Agent
    turn: int
    reason: Mapping[str, Any]
    feedback: str = ""
    """Why an extension kept the messages out, where the turn was blocked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFailed:
    """Something failed: a turn, or what surrounds turns, where the log is no place to say so."""

    agent: Agent
    error: Exception
    turn: int | None = None
    """The turn that ended with it; None outside of turns, and for what failed without ending one."""
    step: int | None = None
    """The last step of that turn; None where it had none."""
