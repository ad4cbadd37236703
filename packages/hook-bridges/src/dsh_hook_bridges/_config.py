"""How hooks are bridged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ._behaviour import Compat
from ._values import DialectName


@dataclass(frozen=True, slots=True, kw_only=True)
class HookBridgesConfig:
    """Whose hooks run, and what they are told."""

    home: str = ""
    """Absolute path of the harness home, which whoever composes the harness fills in. ``hooks/trusted.json`` in it says
    which projects are trusted; ``cache/hooks`` holds what is too long for a conversation."""
    user_home: str | None = None
    """The folder with the user's ``.claude`` and ``.codex``; None: no hooks of the user's own."""
    dialects: tuple[DialectName, ...] = ("claude-code", "codex")
    compat: Compat | None = None
    """``dsh``: as the real ``dsh`` runs hooks, where that differs from Claude Code and Codex."""
    permission_mode: str = "default"
    """What hooks are told about asking: ``bypassPermissions`` where nobody is asked."""
    mirror: bool = False
    """Whether ``transcript_path`` is a copy of the log in plain lines, below ``cache/hooks``, unless the log is one."""
    parent_env: Mapping[str, str] | None = field(default=None, repr=False)
    """What the executor's commands inherit from, filled in likewise; None is the process's environment. ``passEnv``
    takes from it."""
    start_wait_s: float = 30.0
    """How long the first request waits for the hooks of a session's start; what they add later enters a later step."""
    drain_s: float = 5.0
    """How long the end of a session waits for hooks that run beside it."""
