"""Skills as folders: SKILL.md files below the harness home and the project, a catalog and a tool.

One invariant: every answer is what lies on disk at that moment, and nothing that lies there spoils the rest.
"""

from ._local import LocalSkills
from ._plugin import SKILLS, SkillsLocalConfig, skills_local
from ._render import catalog_entries, catalog_text, skill_text
from ._skill import LoadedSkill, Skill, SkillCatalog, SkillProblem, SkillSource
from ._tool import SkillTool
from .errors import SkillInvalid, SkillsLocalError, SkillUnknown

__all__ = [
    "SKILLS",
    "LoadedSkill",
    "LocalSkills",
    "Skill",
    "SkillCatalog",
    "SkillInvalid",
    "SkillProblem",
    "SkillSource",
    "SkillTool",
    "SkillUnknown",
    "SkillsLocalConfig",
    "SkillsLocalError",
    "catalog_entries",
    "catalog_text",
    "skill_text",
    "skills_local",
]
