"""What a hook is given when it is only tried: an invented moment of each point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ._dialect import Dialect, Scene
from ._matcher import matches
from ._values import Handler, HookPoint

SAMPLE_SESSION: Final = "session-00000000-0000-4000-8000-000000000000"
_CALL: Final = {"tool_use_id": "call_sample"}
_COMMAND: Final = {"command": "echo hello", "description": "Say hello"}
_BODIES: Final[Mapping[HookPoint, Mapping[str, Any]]] = {
    "SessionStart": {"source": "startup"},
    "UserPromptSubmit": {"prompt": "Say hello."},
    "Stop": {"stop_hook_active": False, "last_assistant_message": "Hello."},
    "SubagentStart": {"agent_id": SAMPLE_SESSION, "agent_type": "sample"},
    "SubagentStop": {
        "stop_hook_active": False,
        "agent_id": SAMPLE_SESSION,
        "agent_type": "sample",
        "agent_transcript_path": "",
        "last_assistant_message": "Hello.",
    },
    "SessionEnd": {"reason": "other"},
    "Notification": {"message": "dsh needs your permission to use Bash", "notification_type": "permission_prompt"},
}


def sample_payload(dialect: Dialect, handler: Handler, *, cwd: str) -> str:
    """Return a payload as the handler's point has it; a call is one of a tool that its matcher takes."""
    scene = Scene(
        session_id=SAMPLE_SESSION, transcript_path=None, cwd=cwd, model="sample", permission_mode="default", turn=1
    )
    return dialect.payload(handler.point, scene, _body(dialect, handler, cwd))


def _body(dialect: Dialect, handler: Handler, cwd: str) -> Mapping[str, Any]:
    if handler.point not in ("PreToolUse", "PostToolUse"):
        return _BODIES[handler.point]
    name, arguments, response = _call_for(dialect, handler)
    body = {"tool_name": dialect.tool_names(name)[0], "tool_input": dialect.tool_input(name, arguments, cwd)}
    if handler.point == "PostToolUse":
        body["tool_response"] = response
    return {**body, **_CALL}


def _call_for(dialect: Dialect, handler: Handler) -> tuple[str, Mapping[str, Any], Any]:
    calls: Mapping[str, tuple[Mapping[str, Any], Any]] = {
        "bash": (_COMMAND, {"stdout": "hello\n", "stderr": "", "interrupted": False, "isImage": False, "exitCode": 0}),
        "edit": (
            {"file_path": "sample.txt", "old_string": "hello", "new_string": "goodbye"},
            {"filePath": "sample.txt", "success": True},
        ),
        "write": ({"file_path": "sample.txt", "content": "hello\n"}, {"filePath": "sample.txt", "success": True}),
        "read": ({"file_path": "sample.txt"}, "hello\n"),
        "glob": ({"pattern": "*.txt"}, "sample.txt\n"),
        "grep": ({"pattern": "hello"}, "sample.txt:1:hello\n"),
    }
    for name, (arguments, response) in calls.items():
        names = (*dialect.tool_names(name), name)
        if matches(handler.matcher, names, dialect=dialect.name):
            return name, arguments, response if dialect.name == "claude-code" else "hello\n"
    return "bash", _COMMAND, "hello\n"
