"""Session logs as files, exactly as ``dsh`` writes them: JSONL, in zstd frames or raw.

One invariant: a file of ours is one that the real ``dsh`` reads, continues, and could have written.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ._layout import Encoding
from ._store import JsonlLogStore
from ._writer import JsonlLogWriter

if TYPE_CHECKING:
    from ._branches import Branch
    from ._examine import examine
    from ._findings import RULES, Finding, Severity
    from ._numbering import Invalid
    from ._plan import planned_repair
    from ._rebuild import Kept, Lost
    from ._salvage import SalvageReport, SessionForked, salvage
    from ._survey import Hole

__all__ = [
    "RULES",
    "Branch",
    "Encoding",
    "Finding",
    "Hole",
    "Invalid",
    "JsonlLogStore",
    "JsonlLogWriter",
    "Kept",
    "Lost",
    "SalvageReport",
    "SessionForked",
    "Severity",
    "examine",
    "planned_repair",
    "salvage",
]

# What only a damaged log needs is loaded when somebody asks for it; everybody pays for an import.
_ON_DEMAND = {
    "RULES": "_findings",
    "Branch": "_branches",
    "Finding": "_findings",
    "Hole": "_survey",
    "Invalid": "_numbering",
    "Kept": "_rebuild",
    "Lost": "_rebuild",
    "SalvageReport": "_salvage",
    "SessionForked": "_salvage",
    "Severity": "_findings",
    "examine": "_examine",
    "planned_repair": "_plan",
    "salvage": "_salvage",
}


def __getattr__(name: str) -> object:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_ON_DEMAND[name]}", __name__), name)
