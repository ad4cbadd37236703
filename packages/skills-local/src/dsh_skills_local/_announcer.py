"""Telling each agent which skills there are, and telling it again when they have changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dsh_agent import Agent

from ._local import LocalSkills
from ._render import catalog_entries, catalog_text
from ._skill import SkillProblem

logger = logging.getLogger(__name__)

_KIND = "skill-catalog"


class Announcer:
    """Keeps the list that an agent's model sees true.

    The list is a message of source ``skill-catalog`` that enters the agent's next turn, as ``dsh`` writes it. It is
    sent when the conversation holds no list, or another one: so a resumed session and a fork get none twice, and one
    that a compaction took away comes again.
    """

    def __init__(self, skills: LocalSkills) -> None:
        self._skills = skills
        self._waiting: dict[Agent, Callable[[], None]] = {}
        self._problems: dict[Agent, Sequence[SkillProblem]] = {}

    async def announce(self, agent: Agent) -> None:
        """Have the present list enter the agent's next turn, unless its model knows it."""
        catalog = await asyncio.to_thread(self._skills.catalog, agent.session.header.cwd)
        self._warn(agent, catalog.problems)
        self._take_back(agent)
        entries = catalog_entries(catalog.skills)
        known = _known_entries(agent)
        if entries == (known or []):
            return
        source: dict[str, Any] = {"kind": _KIND, "form": "catalog", "entries": entries}
        if known is not None:
            source["update"] = True
        self._waiting[agent] = agent.inject(catalog_text(entries, is_update=known is not None), source)

    def forget(self, agent: Agent) -> None:
        """Keep nothing of an agent; a list that has not entered a turn is taken back."""
        self._take_back(agent)
        self._problems.pop(agent, None)

    def close(self) -> None:
        """Take back every list that has not entered a turn."""
        for agent in list(self._waiting):
            self._take_back(agent)

    def _take_back(self, agent: Agent) -> None:
        take_back = self._waiting.pop(agent, None)
        if take_back is not None:
            take_back()

    def _warn(self, agent: Agent, problems: Sequence[SkillProblem]) -> None:
        known = self._problems.get(agent, ())
        self._problems[agent] = problems
        for problem in problems:
            if problem not in known:
                logger.warning("session %s: a skill is left out: %s %s", agent.session.id, problem.path, problem.reason)


def _known_entries(agent: Agent) -> Any:
    """Return the entries of the newest list in the conversation, None when it holds none."""
    for message in reversed(agent.session.messages()):
        source: Mapping[str, Any] = message["source"]
        if source["kind"] == _KIND:
            return source.get("entries")
    return None
