"""What a turn works with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dsh_session import Session

from ._approval import Approval
from ._cancellation import Cancellation
from ._checkpoint import Checkpoint, CheckpointPlace
from ._decisions import Remark
from ._extensions import Extensions
from ._inbox import Inbox, Message
from ._model import ModelAdapter
from ._retry import RetryPolicy
from ._tools import Tools
from .errors import CheckpointFailed

if TYPE_CHECKING:
    from ._agent import Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnContext:
    """The services and settings of one turn, as they stood when it began."""

    agent: Agent
    session: Session
    inbox: Inbox
    cancellation: Cancellation
    model: ModelAdapter | None
    tools: Tools
    extensions: Extensions
    approval: Approval | None
    checkpoint: Checkpoint | None
    retries: RetryPolicy
    max_parallel_tool_calls: int
    new_id: Callable[[], str]
    report: Callable[[Exception], Awaitable[None]]
    """Announces what failed in the turn."""

    async def reach_checkpoint(self, place: CheckpointPlace) -> None:
        """Wait until the log is durable, where somebody cares. Raises ``CheckpointFailed``."""
        if self.checkpoint is not None:
            try:
                await self.checkpoint.reach(self.session, place)
            except Exception as error:
                raise CheckpointFailed(place, str(error)) from error
        self.cancellation.check()

    def said_by(self, remark: Remark) -> Message:
        """Return what an extension adds as a message."""
        return user_message(remark.texts, remark.source, self.new_id)


def user_message(texts: Sequence[str], source: Mapping[str, Any], new_id: Callable[[], str]) -> Message:
    """Return a user message of one block for each text."""
    content = [{"type": "text", "text": text} for text in texts]
    return {"content": content, "source": source, "role": "user", "id": new_id()}
