"""What can go wrong when a harness is composed; what its parts refuse they say themselves.

::

    AgentCoreError
    └── HomesDiffer    dsh_home, skills_dsh_home: one harness, two homes
"""

from __future__ import annotations


class AgentCoreError(Exception):
    """The root of this package's errors."""


class HomesDiffer(AgentCoreError):
    """The configuration names two homes; nothing has been mounted and nothing made."""

    def __init__(self, dsh_home: str, skills_dsh_home: str) -> None:
        super().__init__(
            "agent-core: dsh_home and skills.local.dsh_home must resolve to the same directory, and they are "
            f"{dsh_home} and {skills_dsh_home}; leave one of them out"
        )
        self.dsh_home = dsh_home
        self.skills_dsh_home = skills_dsh_home
