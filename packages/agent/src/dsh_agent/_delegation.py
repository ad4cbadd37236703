"""What a session hands down to one that is forked from it or delegated by it (BEHAVIOUR §6.6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dsh_session import EventLog, Session, SessionHeader, SessionMeta

from .errors import DelegationTooDeep

MAX_DEPTH = 3
"""How deep delegations go unless somebody says otherwise; 0 forbids them."""

Inherit = Literal["nothing", "turns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn:
    """How a session is delegated."""

    label: str
    """What it is for, in a few words; people see it in a list."""
    inherit: Inherit = "nothing"
    """``turns`` gives it what was said up to the last turn that has ended; the turn that delegates is never in it."""
    continuable: bool = False
    """Whether it may be prompted again after its first answer."""
    max_depth: int = MAX_DEPTH


def fork_meta(header: SessionHeader) -> SessionMeta:
    """Return what a fork of a session takes over: its place and its preset. Who forks works at the top again."""
    return SessionMeta(cwd=header.cwd, parent_session=header.id, agent_preset=header.agent_preset)


def spawn_meta(parent: Session, spawn: Spawn) -> SessionMeta:
    """Return what a delegated session takes over: also the modes that are in force, and one level more.

    The level is in its header, so the budget outlives the process. Raises ``DelegationTooDeep``.
    """
    header = parent.header
    depth = header.delegation_depth + 1
    if depth > spawn.max_depth:
        raise DelegationTooDeep(depth, max_depth=spawn.max_depth)
    return SessionMeta(
        cwd=header.cwd,
        parent_session=header.id,
        origin="subagent",
        delegation_depth=depth,
        agent_preset=header.agent_preset,
        sandbox_mode=_in_force(parent, "sandbox/mode", "mode", header.sandbox_mode),
        approval_policy=_in_force(parent, "approval/policy", "policy", header.approval_policy),
    )


def ended_turns(events: EventLog) -> int:
    """Return how many events there are up to the end of the last turn that has ended; 0 before the first one has."""
    last = max((event.seq for event in events.of_type("turn/end")), default=-1)
    return last + 1


def descriptor(spawn: Spawn) -> Mapping[str, Any]:
    """Return the data of the event that says what a delegated session is."""
    return {
        "version": 3,
        "mode": "continuable" if spawn.continuable else "one-shot",
        "provider": "spawn" if spawn.inherit == "nothing" else "fork",
        "label": spawn.label,
    }


def _in_force(session: Session, type: str, key: str, baseline: str | None) -> str | None:
    mode = baseline
    for event in session.events.of_type(type):
        mode = event.data[key]
    return mode
