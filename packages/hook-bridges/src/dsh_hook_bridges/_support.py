"""What of each dialect works here: the one table that the parser, ``dshpy hooks check`` and the documentation read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ._values import DialectName

Support: TypeAlias = Literal["supported", "partial", "ignored"]
FeatureKind: TypeAlias = Literal["event", "handler", "handler field", "output field", "variable", "file"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One thing that a dialect documents, and what becomes of it here."""

    dialect: DialectName
    kind: FeatureKind
    name: str
    support: Support
    note: str = ""
    """What is different, or why it is ignored."""


_NO_SUCH_MOMENT = "the loop has no such moment"
_NO_COMPACTION = "the loop does not compact"
_OTHER_HANDLER = "only commands run; the handler is left out and named in a warning"
_WITHOUT_FAILURES = "for results that are no failures, whatever a command's exit code"
_WITHOUT_ABORTED = "a child's turn that was aborted or failed tells nothing"
_SOURCES = "its sources are startup, resume and fork"
_SECONDS = "seconds; capped by the executor's maximum"
_PASSED = "of dsh-py: names that the scrub would drop"
_ON_FAILURE = "of dsh-py: open, or closed where a failure shall block"
_TRUSTED = "once its project is trusted"
WARNED = "named in a warning"
"""The note of an output field whose use the user is told of."""

_OUTPUT = """
    continue, stopReason, systemMessage, decision, reason, hookSpecificOutput.hookEventName,
    hookSpecificOutput.permissionDecisionReason, hookSpecificOutput.updatedInput, hookSpecificOutput.additionalContext
"""

_CLAUDE: Final[Mapping[FeatureKind, Sequence[tuple[Support, str, str]]]] = {
    "event": (
        ("supported", "", "UserPromptSubmit, PreToolUse, Stop, SubagentStart"),
        ("partial", _SOURCES, "SessionStart"),
        ("partial", _WITHOUT_FAILURES, "PostToolUse"),
        ("partial", _WITHOUT_ABORTED, "SubagentStop"),
        ("partial", "its reason is always other", "SessionEnd"),
        ("partial", "permission_prompt only, as soon as somebody is asked", "Notification"),
        ("ignored", _NO_COMPACTION, "PreCompact, PostCompact"),
        ("ignored", "use PreToolUse: its decision spares the question", "PermissionRequest"),
        ("ignored", "a failed call fires no hook after it", "PostToolUseFailure"),
        (
            "ignored",
            _NO_SUCH_MOMENT,
            """
            Setup, InstructionsLoaded, UserPromptExpansion, MessageDisplay, PermissionDenied, PostToolBatch,
            TaskCreated, TaskCompleted, StopFailure, TeammateIdle, ConfigChange, CwdChanged, FileChanged,
            DirectoryAdded, WorktreeCreate, WorktreeRemove, PreModelSwitch, PostModelSwitch, Elicitation,
            ElicitationResult
            """,
        ),
    ),
    "handler": (
        ("supported", "", "command"),
        ("ignored", _OTHER_HANDLER, "http, mcp_tool, prompt, agent"),
    ),
    "handler field": (
        ("supported", "", "type, command, args, async"),
        ("supported", _SECONDS, "timeout"),
        ("partial", "bash only; a handler with another shell is left out", "shell"),
        ("ignored", "a handler with a condition is left out", "if"),
        ("ignored", "the handler runs as async", "asyncRewake"),
        ("ignored", "", "once, statusMessage"),
        ("supported", _PASSED, "passEnv"),
        ("supported", _ON_FAILURE, "onFailure"),
    ),
    "output field": (
        ("supported", "", _OUTPUT),
        ("partial", "allow, ask and deny; defer is an error", "hookSpecificOutput.permissionDecision"),
        ("ignored", "it has no effect there either", "suppressOutput"),
        (
            "ignored",
            WARNED,
            """
            terminalSequence, hookSpecificOutput.updatedToolOutput, hookSpecificOutput.updatedMCPToolOutput,
            hookSpecificOutput.classifierContext, hookSpecificOutput.sessionTitle,
            hookSpecificOutput.suppressOriginalPrompt, hookSpecificOutput.initialUserMessage,
            hookSpecificOutput.watchPaths, hookSpecificOutput.reloadSkills
            """,
        ),
    ),
    "variable": (
        ("supported", "the session's project", "CLAUDE_PROJECT_DIR"),
        ("ignored", "there are no plugins", "CLAUDE_PLUGIN_ROOT, CLAUDE_PLUGIN_DATA"),
        ("ignored", "nothing is set for later commands", "CLAUDE_ENV_FILE"),
    ),
    "file": (
        ("supported", "", "~/.claude/settings.json"),
        ("supported", _TRUSTED, ".claude/settings.json, .claude/settings.local.json"),
        ("ignored", "", "managed policy, plugins, front matter of skills and agents"),
    ),
}

_CODEX: Final[Mapping[FeatureKind, Sequence[tuple[Support, str, str]]]] = {
    "event": (
        ("supported", "", "UserPromptSubmit, PreToolUse, Stop, SubagentStart, SessionEnd"),
        ("partial", _SOURCES, "SessionStart"),
        ("partial", _WITHOUT_FAILURES, "PostToolUse"),
        ("partial", _WITHOUT_ABORTED, "SubagentStop"),
        ("ignored", _NO_COMPACTION, "PreCompact, PostCompact"),
        ("ignored", "use PreToolUse: its decision spares the question", "PermissionRequest"),
        ("ignored", _NO_SUCH_MOMENT, "Interrupt"),
    ),
    "handler": (
        ("supported", "", "command"),
        ("ignored", _OTHER_HANDLER, "mcp_tool, prompt, agent"),
    ),
    "handler field": (
        ("supported", "", "type, command, async"),
        ("supported", _SECONDS, "timeout, timeoutSec"),
        ("ignored", "", "commandWindows, command_windows, statusMessage, additionalContextLimit"),
        ("supported", _PASSED, "passEnv"),
        ("supported", _ON_FAILURE, "onFailure"),
    ),
    "output field": (
        ("supported", "", _OUTPUT),
        (
            "partial",
            "deny, and allow with updatedInput; anything else is an error, as there",
            "hookSpecificOutput.permissionDecision",
        ),
        ("ignored", "an error after a call, as there", "suppressOutput"),
    ),
    "variable": (),
    "file": (
        ("supported", "", "~/.codex/hooks.json, ~/.codex/config.toml"),
        ("supported", _TRUSTED, ".codex/hooks.json, .codex/config.toml"),
        ("ignored", "", "managed layers, plugins"),
    ),
}

_TABLES: Final[Mapping[DialectName, Mapping[FeatureKind, Sequence[tuple[Support, str, str]]]]] = {
    "claude-code": _CLAUDE,
    "codex": _CODEX,
}

FEATURES: Final[tuple[Feature, ...]] = tuple(
    Feature(dialect=dialect, kind=kind, name=name.strip(), support=support, note=note)
    for dialect, table in _TABLES.items()
    for kind, rows in table.items()
    for support, note, names in rows
    for name in names.split(",")
)
"""Every row; a name that stands in none is unknown."""

_BY_NAME: Final[Mapping[tuple[DialectName, FeatureKind], Mapping[str, Feature]]] = {
    (dialect, kind): {row.name: row for row in FEATURES if (row.dialect, row.kind) == (dialect, kind)}
    for dialect, table in _TABLES.items()
    for kind in table
}


def features(dialect: DialectName, kind: FeatureKind) -> Mapping[str, Feature]:
    """Return the rows of one kind by name."""
    return _BY_NAME[dialect, kind]
