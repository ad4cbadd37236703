"""The agent loop: turns of model and tools over a session, the model seam, tools and jobs.

One invariant: whatever happens inside a turn, its log is balanced when ``prompt`` returns or raises.
"""

from ._agent import Agent, Lineage, TurnResult
from ._agents import AgentClosing, Agents, AgentsConfig, agents
from ._checkpoints import turn_end_flush
from ._delegation import MAX_DEPTH, Spawn
from ._job import Job, JobOutcome, JobProcess, JobStatus
from ._job_plugin import JobsConfig, jobs
from ._jobs import Jobs
from ._model import ModelAdapter, ModelRequest, ModelRoute
from ._scripted import ScriptedCall, ScriptedModel, ScriptedReply
from ._services import (
    AGENTS,
    JOBS,
    MODEL,
    PERSISTENCE,
    SESSIONS,
    TOOLS,
    AgentFailed,
    AgentStarted,
    TurnEnded,
)
from ._tools import Tool, ToolExecution, ToolFailure, ToolResult, Tools
from .errors import (
    AgentError,
    DelegationTooDeep,
    ForkInvalid,
    JobError,
    JobRefused,
    JobUnknown,
    ModelFailed,
    NotConfigured,
    ScriptInvalid,
    ToolError,
    ToolExists,
    WaitInvalid,
)

__all__ = [
    "AGENTS",
    "JOBS",
    "MAX_DEPTH",
    "MODEL",
    "PERSISTENCE",
    "SESSIONS",
    "TOOLS",
    "Agent",
    "AgentClosing",
    "AgentError",
    "AgentFailed",
    "AgentStarted",
    "Agents",
    "AgentsConfig",
    "DelegationTooDeep",
    "ForkInvalid",
    "Job",
    "JobError",
    "JobOutcome",
    "JobProcess",
    "JobRefused",
    "JobStatus",
    "JobUnknown",
    "Jobs",
    "JobsConfig",
    "Lineage",
    "ModelAdapter",
    "ModelFailed",
    "ModelRequest",
    "ModelRoute",
    "NotConfigured",
    "ScriptInvalid",
    "ScriptedCall",
    "ScriptedModel",
    "ScriptedReply",
    "Spawn",
    "Tool",
    "ToolError",
    "ToolExecution",
    "ToolExists",
    "ToolFailure",
    "ToolResult",
    "Tools",
    "TurnEnded",
    "TurnResult",
    "WaitInvalid",
    "agents",
    "jobs",
    "turn_end_flush",
]
