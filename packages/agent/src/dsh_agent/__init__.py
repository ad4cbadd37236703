"""The agent loop: turns of model and tools over a session, the model seam, tools and jobs.

One invariant: whatever happens inside a turn, its log is balanced when ``prompt`` returns or raises.
"""

from ._agent import Agent, TurnResult
from ._agents import Agents, AgentsConfig, agents
from ._checkpoints import turn_end_flush
from ._job_tools import jobs
from ._jobs import Job, JobProcess, Jobs, JobStatus
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
    JobError,
    ModelFailed,
    NotConfigured,
    ScriptInvalid,
    ToolError,
    ToolExists,
)

__all__ = [
    "AGENTS",
    "JOBS",
    "MODEL",
    "PERSISTENCE",
    "SESSIONS",
    "TOOLS",
    "Agent",
    "AgentError",
    "AgentFailed",
    "AgentStarted",
    "Agents",
    "AgentsConfig",
    "Job",
    "JobError",
    "JobProcess",
    "JobStatus",
    "Jobs",
    "ModelAdapter",
    "ModelFailed",
    "ModelRequest",
    "ModelRoute",
    "NotConfigured",
    "ScriptInvalid",
    "ScriptedCall",
    "ScriptedModel",
    "ScriptedReply",
    "Tool",
    "ToolError",
    "ToolExecution",
    "ToolExists",
    "ToolFailure",
    "ToolResult",
    "Tools",
    "TurnEnded",
    "TurnResult",
    "agents",
    "jobs",
    "turn_end_flush",
]
