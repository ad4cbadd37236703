"""Claude Code's hooks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from dsh_agent import ToolUsed

from ._dialect import Dialect, Scene, text_response
from ._kinds import is_object
from ._values import DialectName, HookPoint

_TOOLS: Final[Mapping[str, tuple[str, ...]]] = {
    "bash": ("Bash",),
    "read": ("Read",),
    "write": ("Write",),
    "edit": ("Edit",),
    "glob": ("Glob",),
    "grep": ("Grep",),
    "skill": ("Skill",),
    "job_output": ("TaskOutput", "BashOutput"),
    "job_kill": ("TaskStop", "KillShell"),
}
_FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    "bash": {"timeoutMs": "timeout"},
    "grep": {"include": "glob"},
}
"""Arguments whose name is another one there."""
_WITH_MODE: Final = frozenset({"UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SubagentStop"})
_DEFAULT_S: Final = 600.0
_PROMPT_S: Final = 30.0
_END_S: Final = 1.5
_MAX_END_S: Final = 60.0


class Claude(Dialect):
    """Tools with capital names, strings where nothing is known, a newline after the payload."""

    name: ClassVar[DialectName] = "claude-code"
    source_kind: ClassVar[str] = "hooks-claude-code"
    reference_points: ClassVar[frozenset[HookPoint]] = frozenset(
        ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SubagentStart", "SubagentStop")
    )
    ending: ClassVar[str] = "\n"
    drops_twins: ClassVar[bool] = True

    def tool_names(self, name: str) -> Sequence[str]:
        """Return what a tool of ours is called there, the name in payloads first."""
        return _TOOLS.get(name, (name,))

    def tool_input(self, name: str, arguments: Mapping[str, Any], cwd: str) -> Mapping[str, Any]:
        """Return a call's arguments under their names there; paths of files are absolute."""
        renamed = _FIELDS.get(name, {})
        fields = {renamed.get(key, key): value for key, value in arguments.items()}
        path = fields.get("file_path")
        if name in ("read", "write", "edit") and isinstance(path, str):
            fields["file_path"] = os.path.normpath(os.path.join(cwd, path))
        return fields

    def own_input(
        self, name: str, arguments: Mapping[str, Any], updated: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Return the whole input that a hook wants, under our names; what a tool of ours must have stays."""
        ours = {theirs: own for own, theirs in _FIELDS.get(name, {}).items()}
        fields = {ours.get(key, key): value for key, value in updated.items()}
        if name == "bash" and "description" in arguments:
            fields.setdefault("description", arguments["description"])  # optional there
        return fields

    def tool_response(self, used: ToolUsed, cwd: str) -> Any:
        """Return an object for commands and changed files, as scripts pick it apart; else what the model is told."""
        value, arguments = used.result.value, used.arguments
        if used.name == "bash" and is_object(value) and value.get("kind") == "foreground":
            return {
                "stdout": value["stdout"]["text"],
                "stderr": value["stderr"]["text"],
                "interrupted": value["aborted"] or value["timedOut"],
                "isImage": False,
                "exitCode": value["exitCode"],
            }
        if used.name in ("write", "edit") and not used.result.is_error:
            path = self.tool_input(used.name, arguments, cwd)["file_path"]
            return {"filePath": path, "success": True}
        return text_response(used)

    def fields(self, point: HookPoint, scene: Scene, body: Mapping[str, Any], *, is_real: bool) -> Mapping[str, Any]:
        """Return the fields of a payload in order; an unavailable transcript is the empty string."""
        fields: dict[str, Any] = {
            "session_id": scene.session_id,
            "transcript_path": scene.transcript_path or "",
            "cwd": scene.cwd,
            "hook_event_name": point,
        }
        if not is_real:
            return {**fields, **body}
        if point in _WITH_MODE:
            fields["permission_mode"] = scene.permission_mode
        if scene.agent_id is not None:
            fields |= {"agent_id": scene.agent_id, "agent_type": scene.agent_type}
        fields |= body
        if point == "SessionStart":
            fields["model"] = scene.model
        if scene.parent_session_id is not None:
            fields["parent_session_id"] = scene.parent_session_id
        return fields

    def timeout_s(self, point: HookPoint, asked_s: float | None) -> float:
        """Return how long a hook may take; the end of a session does not wait long unless it is told to."""
        match point:
            case "SessionEnd":
                return min(asked_s or _END_S, _MAX_END_S)
            case "UserPromptSubmit":
                return asked_s or _PROMPT_S
            case _:
                return asked_s or _DEFAULT_S

    def env(self, project: str) -> Mapping[str, str]:
        """Return where the project is."""
        return {"CLAUDE_PROJECT_DIR": project}
