"""Handlers and outcomes as tests need them: everything that does not matter there is filled in."""

from __future__ import annotations

from typing import Any

from dsh_hook_bridges import Answer, Handler, HookOutcome


def handler(command: str = "true", **fields: Any) -> Handler:
    facts = {
        "dialect": "claude-code",
        "layer": "user",
        "path": "/c",
        "place": "",
        "point": "PreToolUse",
        "matcher": None,
    }
    return Handler(**{**facts, "command": command, **fields})


def outcome(kind: str = "pass", reason: str = "", *, by: Handler | None = None, **fields: Any) -> HookOutcome:
    """Return what a hook came to that answered so."""
    answer: dict[str, Any] = {"kind": kind, "word": kind, "reason": reason, **fields}
    return HookOutcome(handler=by or handler(), answer=Answer(**answer))
