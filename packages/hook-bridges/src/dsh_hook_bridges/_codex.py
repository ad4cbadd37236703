"""Codex's hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from dsh_agent import ToolUsed

from ._dialect import Dialect, Scene, text_response
from ._patch import patch_of
from ._values import DialectName, HookPoint

_TOOLS: Final[Mapping[str, tuple[str, ...]]] = {
    "bash": ("Bash",),
    "write": ("apply_patch", "Write", "Edit"),
    "edit": ("apply_patch", "Write", "Edit"),
}
_WITHOUT_MODE: Final = frozenset({"SessionEnd"})
_WITHOUT_TURN: Final = frozenset({"SessionStart", "SessionEnd"})
_DEFAULT_S: Final = 600.0
_LEAST_S: Final = 1.0
_MAX_END_S: Final = 3.0


class Codex(Dialect):
    """A shell that only has a command, edits as patches, null where nothing is known, nothing after the payload."""

    name: ClassVar[DialectName] = "codex"
    source_kind: ClassVar[str] = "hooks-codex"
    reference_points: ClassVar[frozenset[HookPoint]] = frozenset(
        ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop")
    )
    ending: ClassVar[str] = ""
    drops_twins: ClassVar[bool] = False

    def tool_names(self, name: str) -> Sequence[str]:
        """Return what a tool of ours is called there, the name in payloads first."""
        return _TOOLS.get(name, (name,))

    def tool_input(self, name: str, arguments: Mapping[str, Any], cwd: str) -> Mapping[str, Any]:  # noqa: ARG002  # a patch names files as the model does
        """Return a command, a patch, or the whole arguments of any other tool."""
        match name:
            case "bash":
                return {"command": arguments.get("command", "")}
            case "write" | "edit":
                return {"command": patch_of(name, arguments)}
            case _:
                return arguments

    def own_input(
        self, name: str, arguments: Mapping[str, Any], updated: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Return the arguments with another command; a patch cannot be turned back into an edit."""
        match name:
            case "bash":
                return {**arguments, "command": updated.get("command")}
            case "write" | "edit":
                return None
            case _:
                return updated

    def tool_response(self, used: ToolUsed, cwd: str) -> Any:  # noqa: ARG002  # a text needs no folder
        """Return what the model is told."""
        return text_response(used)

    def fields(self, point: HookPoint, scene: Scene, body: Mapping[str, Any], *, is_real: bool) -> Mapping[str, Any]:
        """Return the fields of a payload in order; an unavailable transcript is null."""
        fields: dict[str, Any] = {
            "session_id": scene.session_id,
            "transcript_path": scene.transcript_path,
            "cwd": scene.cwd,
            "hook_event_name": point,
            "model": scene.model,
        }
        if not is_real or point not in _WITHOUT_MODE:
            fields["permission_mode"] = scene.permission_mode if is_real else "default"
        if point not in _WITHOUT_TURN:
            fields["turn_id"] = str(scene.turn or 0)
        if is_real and scene.agent_id is not None:
            fields |= {"agent_id": scene.agent_id, "agent_type": scene.agent_type}
        fields |= body
        if is_real and scene.parent_session_id is not None:
            fields["parent_session_id"] = scene.parent_session_id
        return fields

    def timeout_s(self, point: HookPoint, asked_s: float | None) -> float:
        """Return how long a hook may take, at least a second; at the end of a session at most three."""
        if point == "SessionEnd":
            return min(max(asked_s or _LEAST_S, _LEAST_S), _MAX_END_S)
        return max(asked_s or _DEFAULT_S, _LEAST_S)

    def env(self, project: str) -> Mapping[str, str]:  # noqa: ARG002  # its hooks get none
        """Return nothing."""
        return {}
