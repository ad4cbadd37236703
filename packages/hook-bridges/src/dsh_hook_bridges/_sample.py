"""What a hook is given when it is only tried: an invented moment of each point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ._dialect import Dialect, Scene
from ._matcher import matches
from ._values import Handler, HookPoint

SAMPLE_SESSION: Final = "session-00000000-0000-4000-8000-000000000000"
"""The session of every sample."""

_Moment: TypeAlias = tuple[Sequence[str], Mapping[str, Any]]
"""What a matcher is held against, and the fields of the payload."""

_KIND: Final = "sample"
_BODIES: Final[Mapping[HookPoint, Mapping[str, Any]]] = {
    "UserPromptSubmit": {"prompt": "Say hello."},
    "Stop": {"stop_hook_active": False, "last_assistant_message": "Hello."},
    "SubagentStart": {"agent_id": SAMPLE_SESSION, "agent_type": _KIND},
    "SubagentStop": {
        "stop_hook_active": False,
        "agent_id": SAMPLE_SESSION,
        "agent_type": _KIND,
        "agent_transcript_path": "",
        "last_assistant_message": "Hello.",
    },
}
_CALLS: Final[Mapping[str, Mapping[str, Any]]] = {
    "bash": {"command": "echo hello", "description": "Say hello"},
    "edit": {"file_path": "sample.txt", "old_string": "hello", "new_string": "goodbye"},
    "write": {"file_path": "sample.txt", "content": "hello\n"},
    "read": {"file_path": "sample.txt"},
    "glob": {"pattern": "*.txt"},
    "grep": {"pattern": "hello"},
    "skill": {"name": "sample"},
    "job_output": {"job_id": "sample"},
    "job_list": {},
    "job_kill": {"job_id": "sample"},
}
"""A call of every tool that a harness brings."""


def sample_payload(dialect: Dialect, handler: Handler, *, cwd: str) -> str:
    """Return a payload as the handler's point has it; what its matcher is for decides about which tool or source."""
    scene = Scene(
        session_id=SAMPLE_SESSION, transcript_path=None, cwd=cwd, model="sample", permission_mode="default", turn=1
    )
    moments = list(_moments(dialect, handler.point, cwd))
    body = next((body for subjects, body in moments if _takes(handler, subjects)), moments[0][1])
    return dialect.payload(handler.point, scene, body)


def is_reachable(dialect: Dialect, handler: Handler) -> bool:
    """Tell whether a handler's matcher takes anything that happens in a harness: one of its tools, a source.

    One for tools of other plugins, or for kinds of children, may take what is not known here.
    """
    if handler.point in ("SubagentStart", "SubagentStop"):
        return True
    return any(_takes(handler, subjects) for subjects, _ in _moments(dialect, handler.point, ""))


def _takes(handler: Handler, subjects: Sequence[str]) -> bool:
    return not subjects or matches(handler.matcher, subjects, dialect=handler.dialect)


def _moments(dialect: Dialect, point: HookPoint, cwd: str) -> Iterable[_Moment]:
    """Yield the different moments of a point."""
    match point:
        case "SessionStart":
            yield from (((source,), {"source": source}) for source in ("startup", "resume", "fork"))
        case "SessionEnd":
            yield ("other",), {"reason": "other"}
        case "Notification":
            kind = "permission_prompt"
            yield (kind,), {"message": "dsh needs your permission to use Bash", "notification_type": kind}
        case "SubagentStart" | "SubagentStop":
            yield (_KIND,), _BODIES[point]
        case "UserPromptSubmit" | "Stop":
            yield (), _BODIES[point]
        case "PreToolUse" | "PostToolUse":
            for name in _CALLS:
                yield _call(dialect, point, name, cwd)


def _call(dialect: Dialect, point: HookPoint, name: str, cwd: str) -> _Moment:
    theirs = dialect.tool_names(name)
    tool_input = dialect.tool_input(name, _CALLS[name], cwd)
    body: dict[str, Any] = {"tool_name": theirs[0], "tool_input": tool_input}
    if point == "PostToolUse":
        body["tool_response"] = _response(dialect, name, tool_input)
    return theirs if name in theirs else (*theirs, name), {**body, "tool_use_id": "call_sample"}


def _response(dialect: Dialect, name: str, tool_input: Mapping[str, Any]) -> Any:
    if dialect.name == "claude-code" and name == "bash":
        return {"stdout": "hello\n", "stderr": "", "interrupted": False, "isImage": False, "exitCode": 0}
    if dialect.name == "claude-code" and name in ("edit", "write"):
        return {"filePath": tool_input["file_path"], "success": True}
    return "hello\n"
