"""Session logs in a database, SQLite or PostgreSQL, through SQLAlchemy Core.

One invariant: every row is chained to the one before it, so what is read is what was written, or an error.
"""

from ._sqlite_file import Journal
from ._store import SqlLogStore
from ._writer import SqlLogWriter

__all__ = ["Journal", "SqlLogStore", "SqlLogWriter"]
