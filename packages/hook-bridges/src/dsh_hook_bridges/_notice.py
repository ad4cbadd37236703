"""What people are told of hooks, beside the log."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dsh_agent import Agent

from ._values import DialectName, HookPoint

logger = logging.getLogger(__name__)

NoticeKind: TypeAlias = Literal["failure", "message", "ignored", "stopped", "cap", "config", "untrusted"]
"""A hook failed; it has a message for the user; something it said has no effect; it ended the turn; hooks may not let
the turn go on any longer; a file has a problem; a project's hooks do not run since nobody trusts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookNotice:
    """Something that the user should see. An event of the context in which the bridges run."""

    kind: NoticeKind
    text: str
    dialect: DialectName
    agent: Agent | None = None
    point: HookPoint | None = None
    path: str = ""
    """The configuration file that it is about."""


class Notices:
    """Tells of hooks: as an event, and in the log of the process."""

    def __init__(self, emit: Callable[[object], Awaitable[None]]) -> None:
        self._emit = emit

    async def tell(self, notice: HookNotice) -> None:
        """Announce it; a listener that fails changes nothing."""
        logger.log(logging.INFO if notice.kind == "message" else logging.WARNING, "%s", notice.text)
        try:
            await self._emit(notice)
        except ExceptionGroup:
            logger.exception("a listener could not be told of a hook")
