"""The hooks of every live session, read once for each."""

from __future__ import annotations

import asyncio
import os
from weakref import WeakKeyDictionary

from dsh_agent import Agent, find_project
from dsh_bash import Bash, BashError, BashExecRequest

from ._config import HookBridgesConfig
from ._layers import HookSet, load_hooks
from ._notice import HookNotice, Notices
from ._trust import TrustStore
from ._values import DialectName


class HookLibrary:
    """Knows what hooks a session has. They are read once for each agent, so an edit counts from the next one on."""

    def __init__(self, config: HookBridgesConfig, bash: Bash, notices: Notices) -> None:
        self._config = config
        self._bash = bash
        self._notices = notices
        self._trust = TrustStore(trust_path(config.home))
        self._sets: WeakKeyDictionary[Agent, HookSet] = WeakKeyDictionary()
        self._told: set[str] = set()

    async def of(self, agent: Agent) -> HookSet:
        """Return the hooks of an agent's session; what is wrong with their files is told once."""
        found = self._sets.get(agent)
        if found is None:
            found = await asyncio.to_thread(self._load, find_project(self.directory(agent)))
            self._sets[agent] = found
            await self._tell(agent, found)
        return found

    def directory(self, agent: Agent) -> str:
        """Return where a session works: its own directory, else the executor's."""
        if agent.session.header.cwd is not None:
            return agent.session.header.cwd
        try:
            return self._bash.resolve(BashExecRequest(command="true")).workdir
        except BashError:  # the process's directory is gone; whoever runs a command there is told
            return os.sep

    def project(self, agent: Agent) -> str:
        """Return the folder whose hooks a session has."""
        found = self._sets.get(agent)
        return find_project(self.directory(agent)) if found is None else found.project

    def _load(self, project: str) -> HookSet:
        config = self._config
        return load_hooks(project, user_home=config.user_home, trust=self._trust, dialects=config.dialects)

    async def _tell(self, agent: Agent, found: HookSet) -> None:
        for problem in found.problems:
            dialect: DialectName = next(f.file.dialect for f in found.files if f.file.path == problem.path)
            await self._tell_once(
                HookNotice(kind="config", text=str(problem), dialect=dialect, agent=agent, path=problem.path)
            )
        if found.trust_problem is not None:
            text = f"{found.trust_problem}; no project's hooks run"
            await self._tell_once(HookNotice(kind="config", text=text, dialect=self._config.dialects[0], agent=agent))
        for each in found.files:
            count = len(each.file.handlers)
            if each.state not in ("untrusted", "changed") or not count:
                continue
            why = "have changed since they were trusted" if each.state == "changed" else "are not trusted"
            hooks = "1 hook was" if count == 1 else f"{count} hooks were"
            text = (
                f"{each.file.path}: the hooks of {found.project} {why}, so {hooks} not run; "
                f"read them, then: dshpy hooks trust {found.project}"
            )
            await self._tell_once(
                HookNotice(kind="untrusted", text=text, dialect=each.file.dialect, agent=agent, path=each.file.path)
            )

    async def _tell_once(self, notice: HookNotice) -> None:
        if notice.text not in self._told:
            self._told.add(notice.text)
            await self._notices.tell(notice)


def trust_path(home: str) -> str:
    """Return the file of trusted projects below a harness home."""
    return os.path.join(home, "hooks", "trusted.json")


def cache_path(home: str) -> str:
    """Return the folder of what hooks leave behind: whole texts, plain logs."""
    return os.path.join(home, "cache", "hooks")
