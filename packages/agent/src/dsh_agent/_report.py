"""Telling of a failure that nobody else would hear of."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from ._services import AgentFailed
from .errors import ModelFailed

logger = logging.getLogger(__name__)


async def report_failure(emit: Callable[[object], Awaitable[None]], failed: AgentFailed, what: str) -> None:
    """Log a failure and announce it as an event; a listener that fails as well changes nothing.

    That a model fails is nothing out of the ordinary: its turn says so, and a trace would say nothing more.
    """
    if isinstance(failed.error, ModelFailed):
        logger.info("%s, session %s: %s", what, failed.agent.session.id, failed.error)
    else:
        logger.error("%s, session %s", what, failed.agent.session.id, exc_info=failed.error)
    try:
        await emit(failed)
    except ExceptionGroup:
        logger.exception("a listener could not be told of it")
