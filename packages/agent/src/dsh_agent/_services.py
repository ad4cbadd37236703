"""The typed keys of an agent's services, and the events it announces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dsh_context import ServiceKey
from dsh_persistence import SessionPersistence
from dsh_session import Sessions

from ._jobs import Jobs
from ._model import ModelAdapter
from ._tools import Tools

if TYPE_CHECKING:
    from ._agent import Agent
    from ._agents import Agents

SESSIONS: ServiceKey[Sessions] = ServiceKey("sessions")
PERSISTENCE: ServiceKey[SessionPersistence] = ServiceKey("persistence")
TOOLS: ServiceKey[Tools] = ServiceKey("tools")
MODEL: ServiceKey[ModelAdapter] = ServiceKey("model")
JOBS: ServiceKey[Jobs] = ServiceKey("jobs")
AGENTS: ServiceKey[Agents] = ServiceKey("agents")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFailed:
    """Something failed outside any turn, where the log is no place to say so."""

    agent: Agent
    error: Exception
