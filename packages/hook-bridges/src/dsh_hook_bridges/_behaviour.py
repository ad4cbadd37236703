"""Where the reference and the harnesses that hooks were written for differ, whose way it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Compat: TypeAlias = Literal["dsh"]
"""Do as the real ``dsh`` does (BEHAVIOUR §7) where it differs from Claude Code and Codex."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What is done as the harness of the dialect does it; off, as ``dsh`` does."""

    is_real: bool
    """Names, payloads and answers are those of the dialect's own harness: tools have its names, a script's JSON is read
    as there, what only ``dsh`` leaves out is filled in, and ``continue: false`` ends the turn."""
    stop_cap: int | None
    """How often in a row hooks may make a turn go on until a human says something; None: always."""


STOP_CAP: Final = 8

REAL: Final = Behaviour(is_real=True, stop_cap=STOP_CAP)
REFERENCE: Final = Behaviour(is_real=False, stop_cap=None)


def behaviour_of(compat: Compat | None) -> Behaviour:
    """Return what ``compat`` asks for."""
    return REFERENCE if compat == "dsh" else REAL
