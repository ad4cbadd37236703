"""The session that ``dshpy run`` works in: a new one, an old one, or a fork."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import click

from dsh_agent import Agent
from dsh_agent_core import Harness
from dsh_paths import resolve_dsh_home
from dsh_session import SessionMeta

from ._selectors import names_a_path, select

Source: TypeAlias = Literal["startup", "resume", "fork"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Where the session is and how it begins."""

    source: Source
    sessions_root: str | None
    """None: below the harness home."""
    cwd: str | None
    """None for a stored session that has none."""
    stored_id: str = ""
    """The session to go on with, or to fork."""
    at: int | None = None
    """The last event that a fork has in common; None: the last one there is."""

    async def open(self, running: Harness) -> Agent:
        """Return an agent over the session."""
        match self.source:
            case "resume":
                return await running.agents.resume(self.stored_id)
            case "fork":
                return await running.agents.fork(self.stored_id, at=self.at)
            case "startup":
                return await running.agents.create(meta=SessionMeta(cwd=self.cwd))


def new_session(cwd: str | None, root: str | None) -> Opening:
    """Return the opening of a new session, in this directory unless another is given."""
    return Opening(source="startup", sessions_root=root, cwd=cwd or str(Path.cwd()))


def stored_session(source: Source, selector: str, at: int | None, *, root: str | None, home: str | None) -> Opening:
    """Return the opening of a session that is stored. Raises as ``select`` does, and as reading it does."""
    looked_in = root
    if root is None and home is not None:
        looked_in = str(Path(resolve_dsh_home(home), "sessions"))
    selected = select(selector, looked_in)
    header = selected.read().header
    return Opening(
        source=source,
        # A database is named as it was given: what it is called for people lacks the password.
        sessions_root=selected.root.where if root is None else root,
        cwd=header.cwd,
        stored_id=header.id,
        at=at,
    )


def fork_point(text: str) -> tuple[str, int | None]:
    """Return the selector and the seq of ``SEL@SEQ``; a ``SEL`` that begins with an ``@`` has none before that."""
    selector, at, seq = text.rpartition("@")
    if not at or not selector or names_a_path(text):
        return text, None
    if not (seq.isascii() and seq.isdigit()):
        raise click.BadParameter(f"{seq!r} is no seq; SEL@SEQ ends in the number of an event.", param_hint="--fork")
    return selector, int(seq)
