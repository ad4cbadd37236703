"""The header: what is fixed about a session before its first event (FORMAT §1.2, GENERATIONS §1.1)."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from pathlib import PureWindowsPath
from typing import Literal

from . import generations
from ._json import MAX_INTEGER
from .errors import HeaderInvalid

Origin = Literal["subagent"]


def now_ms() -> int:
    """Return the wall clock in Unix epoch milliseconds."""
    return time.time_ns() // 1_000_000


def new_session_id() -> str:
    """Return a fresh id of the usual shape, ``session-<uuid4>``."""
    return f"session-{uuid.uuid4()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMeta:
    """What a caller may say of a session to be created; the store of live sessions adds the rest."""

    cwd: str | None = None
    """Absolute working directory."""
    created_at: int | None = None
    """Unix epoch milliseconds; only when an existing session is rebuilt."""
    parent_session: str | None = None
    """The session this one was forked from or spawned by."""
    origin: Origin | None = None
    """``subagent`` for a delegated session; a hint for listings."""
    delegation_depth: int = 0
    """0 at the top, the parent's plus one below it."""
    agent_preset: str | None = None
    sandbox_mode: str | None = None
    """Baseline inherited from the delegating parent; becomes the opening ``sandbox/mode`` event."""
    approval_policy: str | None = None
    """Baseline inherited from the delegating parent; becomes the opening ``approval/policy`` event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHeader:
    """Immutable, validated metadata of one session, kept beside its log.

    Raises ``HeaderInvalid`` for anything a harness would refuse.
    """

    id: str
    created_at: int
    """Unix epoch milliseconds."""
    version: int = field(default=generations.CURRENT)
    """The generation of the log, always the current one in memory."""
    cwd: str | None = None
    parent_session: str | None = None
    is_seeded: bool = False
    """Whether the log begins with events inherited from the parent."""
    origin: Origin | None = None
    delegation_depth: int = 0
    agent_preset: str | None = None
    sandbox_mode: str | None = None
    """None in a listing of files, whose header lines do not carry it; reading the log fills it."""
    approval_policy: str | None = None
    seed_length: int | None = None
    """How many leading events were inherited; None where it is not known or nothing was."""

    def __post_init__(self) -> None:
        texts = {"id": self.id, "cwd": self.cwd, "parentSession": self.parent_session, "agentPreset": self.agent_preset}
        for name, value in texts.items():
            _require_text(name, value)
        if not self.id:
            raise HeaderInvalid("id", "is empty")
        _require_count("createdAt", self.created_at)
        _require_count("delegationDepth", self.delegation_depth)
        if self.seed_length is not None:
            _require_count("seedLength", self.seed_length)
        if self.cwd is not None and not is_absolute(self.cwd):
            raise HeaderInvalid("cwd", f"{self.cwd!r} is relative; give an absolute path")
        if self.origin not in (None, "subagent"):
            raise HeaderInvalid("origin", f"is {self.origin!r}; only 'subagent' is known")

    @classmethod
    def new(cls, *, cwd: str | None = None, session_id: str | None = None) -> SessionHeader:
        """Return the header of a fresh top-level session; ``session_id`` defaults to a new unique id."""
        return cls(id=new_session_id() if session_id is None else session_id, created_at=now_ms(), cwd=cwd)


def is_absolute(path: str) -> bool:
    """Tell whether ``path`` is absolute on any platform whose harness may have written it."""
    return path.startswith("/") or PureWindowsPath(path).is_absolute()


def _require_text(name: str, value: object) -> None:
    if value is not None and not isinstance(value, str):
        raise HeaderInvalid(name, f"is {value!r}, not a string")


def _require_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_INTEGER:
        raise HeaderInvalid(name, f"is {value!r}; it is a whole number from 0 to 2^53-1")
