"""The seam at which a loop waits until its log is durable (BEHAVIOUR §6.5)."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from dsh_session import Session

CheckpointPlace: TypeAlias = Literal["step", "model", "tool"]
"""Before a step is entered, before a model is asked, before a tool's body runs."""


class Checkpoint(Protocol):
    """Whoever makes sure that what has happened is durable before something new does."""

    async def reach(self, session: Session, place: CheckpointPlace) -> None:
        """Return when the loop may go on. Raising keeps it from doing so: the model or the tool is not called."""
        ...
