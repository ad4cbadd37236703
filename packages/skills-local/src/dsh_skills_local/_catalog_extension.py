"""Telling each agent which skills there are, and telling it again when they have changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from dsh_agent import Agent, Extension, PromptDecision, PromptSubmit

from ._local import LocalSkills
from ._render import catalog_entries, catalog_text
from ._skill import SkillProblem

logger = logging.getLogger(__name__)

_OF_DSH = "skill-catalog"


class CatalogExtension(Extension):
    """Keeps the list that an agent's model sees true.

    The disk is looked at before each step that messages enter, and a list enters with them when the conversation holds
    none, or another one: so a resumed session and a fork get none twice, and one that a compaction took away comes
    again. The list that ``dsh`` itself wrote into a session counts.
    """

    name = "plugin:skills-local"

    def __init__(self, skills: LocalSkills) -> None:
        self._skills = skills
        self._problems: WeakKeyDictionary[Agent, Sequence[SkillProblem]] = WeakKeyDictionary()

    async def prompt_submit(self, event: PromptSubmit) -> PromptDecision | None:
        """Add the present list, unless the model knows it."""
        catalog = await asyncio.to_thread(self._skills.catalog, event.agent.session.header.cwd)
        self._warn(event.agent, catalog.problems)
        entries = catalog_entries(catalog.skills)
        known = _known_list(event.agent, self.name)
        if (known is None and not entries) or (known is not None and _says(known, entries)):
            return None
        return PromptDecision(context=[catalog_text(entries, is_update=known is not None)])

    def _warn(self, agent: Agent, problems: Sequence[SkillProblem]) -> None:
        known = self._problems.get(agent, ())
        self._problems[agent] = problems
        for problem in problems:
            if problem not in known:
                logger.warning("session %s: a skill is left out: %s %s", agent.session.id, problem.path, problem.reason)


def _known_list(agent: Agent, kind: str) -> Mapping[str, Any] | None:
    """Return the newest message of the conversation that lists skills, None when it holds none."""
    kinds = (kind, _OF_DSH)
    return next((said for said in reversed(agent.session.messages()) if said["source"]["kind"] in kinds), None)


def _says(message: Mapping[str, Any], entries: Sequence[Mapping[str, str]]) -> bool:
    """Tell whether a list is that of ``entries``: ours by its text, and that of ``dsh`` by what its source records."""
    if message["source"]["kind"] == _OF_DSH:
        return bool(message["source"].get("entries") == entries)
    text = "".join(block["text"] for block in message["content"] if block["type"] == "text")
    return text in {catalog_text(entries), catalog_text(entries, is_update=True)}
