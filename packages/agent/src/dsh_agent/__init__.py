"""The agent loop: turns of model and tools over a session, the model seam, tools and jobs.

One invariant: whatever happens inside a turn, its log is balanced when ``prompt`` returns or raises.
"""

from ._agent import Agent, Lineage
from ._agents import AgentClosing, Agents, AgentsConfig, agents
from ._approval import Approval, ApprovalAnswer, ApprovalRequest
from ._cancellation import CancelCause
from ._checkpoint import Checkpoint, CheckpointPlace
from ._checkpoints import checkpoints, turn_end_flush
from ._decisions import (
    ApprovalAsked,
    PromptDecision,
    PromptSubmit,
    Remark,
    ResultDecision,
    SessionEnd,
    SessionSource,
    SessionStart,
    StartDecision,
    StopDecision,
    SubagentEnd,
    SubagentStart,
    ToolDecision,
    ToolUse,
    ToolUsed,
    TurnStopping,
)
from ._delegation import MAX_DEPTH, Spawn
from ._extensions import Extension, Extensions
from ._job import Job, JobOutcome, JobProcess, JobStatus
from ._job_plugin import JobsConfig, jobs
from ._jobs import Jobs
from ._model import ModelAdapter, ModelRequest, ModelRoute
from ._project import find_project
from ._retry import RetryPolicy
from ._scripted import ScriptedCall, ScriptedModel, ScriptedReply
from ._services import (
    AGENTS,
    APPROVAL,
    CHECKPOINT,
    EXTENSIONS,
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
from ._turn import TurnResult
from .errors import (
    AgentError,
    AgentStopped,
    CheckpointFailed,
    DelegationTooDeep,
    ForkInvalid,
    JobError,
    JobRefused,
    JobUnknown,
    MessagePending,
    ModelFailed,
    NotConfigured,
    PromptCanceled,
    ScriptInvalid,
    ToolError,
    ToolExists,
    WaitInvalid,
)

__all__ = [
    "AGENTS",
    "APPROVAL",
    "CHECKPOINT",
    "EXTENSIONS",
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
    "AgentStopped",
    "Agents",
    "AgentsConfig",
    "Approval",
    "ApprovalAnswer",
    "ApprovalAsked",
    "ApprovalRequest",
    "CancelCause",
    "Checkpoint",
    "CheckpointFailed",
    "CheckpointPlace",
    "DelegationTooDeep",
    "Extension",
    "Extensions",
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
    "MessagePending",
    "ModelAdapter",
    "ModelFailed",
    "ModelRequest",
    "ModelRoute",
    "NotConfigured",
    "PromptCanceled",
    "PromptDecision",
    "PromptSubmit",
    "Remark",
    "ResultDecision",
    "RetryPolicy",
    "ScriptInvalid",
    "ScriptedCall",
    "ScriptedModel",
    "ScriptedReply",
    "SessionEnd",
    "SessionSource",
    "SessionStart",
    "Spawn",
    "StartDecision",
    "StopDecision",
    "SubagentEnd",
    "SubagentStart",
    "Tool",
    "ToolDecision",
    "ToolError",
    "ToolExecution",
    "ToolExists",
    "ToolFailure",
    "ToolResult",
    "ToolUse",
    "ToolUsed",
    "Tools",
    "TurnEnded",
    "TurnResult",
    "TurnStopping",
    "WaitInvalid",
    "agents",
    "checkpoints",
    "find_project",
    "jobs",
    "turn_end_flush",
]
