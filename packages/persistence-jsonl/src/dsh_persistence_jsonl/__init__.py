"""Session logs as files, exactly as ``dsh`` writes them: JSONL, in zstd frames or raw.

One invariant: a file of ours is one that the real ``dsh`` reads, continues, and could have written.
"""

from ._layout import Encoding
from ._store import JsonlLogStore
from ._writer import JsonlLogWriter

__all__ = ["Encoding", "JsonlLogStore", "JsonlLogWriter"]
