"""Asking somebody before a tool runs (BEHAVIOUR §6.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ._agent import Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """One call that shall not run unasked."""

    agent: Agent
    call_id: str
    name: str
    arguments: Mapping[str, Any]
    reason: str
    """Why it is asked; may be empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAnswer:
    """What came of asking."""

    is_allowed: bool
    """For this one call; nothing is remembered."""
    reason: str = ""
    """What the model is told of a refusal."""


class Approval(Protocol):
    """Somebody who can be asked, such as a person at a terminal."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Return the answer, however long it takes; cancelled with the turn. Raising refuses the call."""
        ...
