"""What can go wrong in an agent.

::

    AgentError
    ├── ToolError         a tool's own failure; becomes its result, and the turn goes on
    ├── ToolExists        a second tool of the same name
    ├── ModelFailed       the model's reply ended in a failure; ends the turn
    ├── CheckpointFailed  what has happened could not be made durable; ``place``
    ├── MessagePending    a message of that id waits already; ``message_id``
    ├── PromptCanceled    a prompt was taken out of the inbox before its turn
    ├── AgentStopped      the agent takes no turns any more; ``session_id``
    ├── ScriptInvalid     a model script that is none; ``where``
    ├── NotConfigured     something an operation needs is not there
    ├── ForkInvalid       no event to fork at; ``session_id``, ``at``, ``events``
    ├── DelegationTooDeep  a delegation beyond what is allowed; ``depth``, ``max_depth``
    └── JobError          something about background jobs
        ├── JobRefused      one that may not be started
        ├── JobUnknown      an id that is nobody's, or another session's; ``job_id``, ``is_foreign``
        └── WaitInvalid     a time to wait that is none; ``timeout_ms``
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class AgentError(Exception):
    """The root of this package's errors."""


class ToolError(AgentError):
    """A tool could not do what it was asked; the model sees ``Error: <message>`` and goes on."""

    def __init__(self, message: str, *, name: str = "", code: str = "") -> None:
        """``name`` and ``code`` go into the log beside the result when both are given."""
        super().__init__(message)
        self.name = name
        self.code = code


class ToolExists(AgentError):
    """A tool of that name is registered already."""

    def __init__(self, name: str) -> None:
        super().__init__(f"tool {name!r} is registered already; remove it first, or register under another name")
        self.name = name


class ModelFailed(AgentError):
    """The stream of a model finished with an error; ``failure`` is its shape in the log (FORMAT §5)."""

    def __init__(self, failure: Mapping[str, Any]) -> None:
        super().__init__(str(failure["message"]))
        self.failure = failure


class CheckpointFailed(AgentError):
    """A log could not be made durable, so what depends on it was not done."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(reason)
        self.place = place


class MessagePending(AgentError):
    """A message waits in the inbox; a second one of its id may not."""

    def __init__(self, message_id: str) -> None:
        super().__init__(f"message {message_id!r} waits already; wait until a step has taken it, or use another id")
        self.message_id = message_id


class PromptCanceled(AgentError):
    """A prompt was cancelled while it waited for its turn; the model never saw it."""

    def __init__(self) -> None:
        super().__init__("the prompt was cancelled before its turn began; prompt again if it still matters")


class AgentStopped(AgentError):
    """An agent was stopped, and takes no turns any more."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"the agent of session {session_id!r} was stopped; resume the session to go on with it")
        self.session_id = session_id


class ScriptInvalid(AgentError):
    """A model script that is no list of replies."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"model script {where}: {reason}")
        self.where = where
        self.reason = reason


class NotConfigured(AgentError):
    """An operation needs a service that nobody provides."""


class ForkInvalid(AgentError):
    """A session has no event where it should be forked; nothing was made."""

    def __init__(self, session_id: str, *, at: int, events: int) -> None:
        what = f"it has {events} events, 0 to {events - 1}" if events else "it has no events"
        super().__init__(f"session {session_id} cannot be forked at event {at}: {what}")
        self.session_id = session_id
        self.at = at
        self.events = events


class DelegationTooDeep(AgentError):
    """A session may not delegate any further; nothing was made."""

    def __init__(self, depth: int, *, max_depth: int) -> None:
        super().__init__(f"subagent depth {depth} exceeds maxDepth {max_depth}")
        self.depth = depth
        self.max_depth = max_depth


class JobError(AgentError):
    """The root of what can be wrong with background jobs."""


class JobRefused(JobError):
    """A job may not be started; nothing was."""


class JobUnknown(JobError):
    """No job that the caller may see has that id."""

    def __init__(self, job_id: str, *, is_foreign: bool) -> None:
        """``is_foreign`` tells an id of another session from one that is nobody's."""
        super().__init__(f"job {job_id} belongs to another session" if is_foreign else f"unknown job {job_id}")
        self.job_id = job_id
        self.is_foreign = is_foreign


class WaitInvalid(JobError):
    """A time to wait that is no positive finite number."""

    def __init__(self, timeout_ms: float) -> None:
        super().__init__(f"invalid wait timeout: expected a positive number of milliseconds, got {timeout_ms}")
        self.timeout_ms = timeout_ms
