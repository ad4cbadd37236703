"""What the five tools share: a call crosses into a thread once, with the session's workspace open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dsh_agent import ToolExecution, ToolResult

from ._stop import Stop, in_thread
from ._workspace import Workspace
from .errors import ArgumentRefused

Work = Callable[[Workspace, Mapping[str, Any], Stop], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTool:
    """One tool over files. Implements ``dsh_agent.Tool``."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    is_read_only: bool
    work: Work
    """Does it, in a thread: the workspace, the arguments, and whether to go on; returns what the model sees."""

    def is_concurrency_safe(self, arguments: Mapping[str, Any]) -> bool:  # noqa: ARG002  # the seam's signature
        """Answer yes for a tool that changes nothing."""
        return self.is_read_only

    async def execute(self, execution: ToolExecution) -> ToolResult:
        """Do it in the directory of the caller's session. Raises ``FilesError``, which is a ``ToolError``."""
        root = None if execution.agent is None else execution.agent.session.header.cwd

        def work(stop: Stop) -> str:
            stop.check()
            with Workspace(root) as workspace:
                return self.work(workspace, execution.arguments, stop)

        return ToolResult.of_text(await in_thread(work))


def number_of(arguments: Mapping[str, Any], name: str, default: int, *, least: int) -> int:
    """Return an argument that is a whole number. Raises ``ArgumentRefused`` below ``least``."""
    value: int = arguments.get(name, default)
    if value < least:
        raise ArgumentRefused("", f"invalid {name}: expected a whole number from {least} on, got {value}")
    return value


def with_notices(text: str, notices: list[str]) -> str:
    """Return ``text`` and, on lines of their own, what there is to say about it."""
    if not notices:
        return text
    separator = "" if not text or text.endswith("\n") else "\n"
    return text + separator + "\n".join(f"[{notice}]" for notice in notices)
