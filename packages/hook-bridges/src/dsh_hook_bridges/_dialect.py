"""What the two dialects have in common, and where they part: names of tools, fields of payloads, limits."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dsh_agent import ToolUsed

from ._kinds import LONE_SURROGATE
from ._values import DialectName, HookPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where a hook runs: what every payload says."""

    session_id: str
    transcript_path: str | None
    """None when there is no file."""
    cwd: str
    model: str
    permission_mode: str
    turn: int | None = None
    parent_session_id: str | None = None
    """The session that delegated to this one, or that it was forked from."""
    agent_id: str | None = None
    """The session itself, where it is a child of one that lives."""
    agent_type: str | None = None


class Dialect(ABC):
    """How one harness speaks to its hooks."""

    name: ClassVar[DialectName]
    source_kind: ClassVar[str]
    """The source of what its hooks add to a conversation, as ``dsh`` names it."""
    reference_points: ClassVar[frozenset[HookPoint]]
    """Those at which ``dsh`` runs its hooks."""
    ending: ClassVar[str]
    """What follows the JSON of a payload."""
    drops_twins: ClassVar[bool]
    """Whether a command that stands in several files runs once."""

    @abstractmethod
    def tool_names(self, name: str) -> Sequence[str]:
        """Return what a tool of ours is called there, the name in payloads first."""

    @abstractmethod
    def tool_input(self, name: str, arguments: Mapping[str, Any], cwd: str) -> Mapping[str, Any]:
        """Return a call's arguments as its hooks know them."""

    @abstractmethod
    def own_input(
        self, name: str, arguments: Mapping[str, Any], updated: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Return our arguments for those that a hook wants instead, None where they cannot be translated."""

    @abstractmethod
    def tool_response(self, used: ToolUsed, cwd: str) -> Any:
        """Return what a call came to as its hooks know it."""

    @abstractmethod
    def fields(self, point: HookPoint, scene: Scene, body: Mapping[str, Any], *, is_real: bool) -> Mapping[str, Any]:
        """Return the fields of a payload in order."""

    @abstractmethod
    def timeout_s(self, point: HookPoint, asked_s: float | None) -> float:
        """Return how long a hook may take, in seconds."""

    @abstractmethod
    def env(self, project: str) -> Mapping[str, str]:
        """Return the variables that its hooks expect."""

    def payload(self, point: HookPoint, scene: Scene, body: Mapping[str, Any], *, is_real: bool = True) -> str:
        """Return what a hook reads on standard input: one JSON object (BEHAVIOUR §7.3)."""
        fields = self.fields(point, scene, body, is_real=is_real)
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
        return LONE_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + self.ending


def text_response(used: ToolUsed) -> str:
    """Return what the model is told of a call."""
    return used.result.text
