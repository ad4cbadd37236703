"""From the text that names a place of sessions to the store that keeps them."""

from __future__ import annotations

import os
import re
import stat
from urllib.parse import quote

from dsh_persistence import LogStore, StoreUnusable
from dsh_persistence_jsonl import Encoding, JsonlLogStore

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_DATABASE_SUFFIXES = (".db", ".sqlite", ".sqlite3")


def open_store(root: str, *, encoding: Encoding | None = None) -> LogStore:
    """Return the store that ``root`` names; nothing is made before its first write.

    A database URL (``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``postgresql://…``) is that database, a file
    that exists is a SQLite database, and anything else a folder of JSONL logs. ``encoding`` is that of new JSONL logs;
    None means what the folder holds, and zstd when it holds nothing.

    Raises ``StoreUnusable`` for a place that is none.
    """
    if _URL.match(root) or _is_file(root):
        # SQLAlchemy takes longer to import than all the rest, and folders need none of it.
        from dsh_persistence_sqlite import SqlLogStore  # noqa: PLC0415  # as said

        return SqlLogStore(root if _URL.match(root) else _url_of(root))
    if root.endswith(_DATABASE_SUFFIXES) and not os.path.lexists(root):
        raise StoreUnusable(root, f"does not exist; a new database is named by its URL, {_url_of(root)}")
    return JsonlLogStore(root, encoding=encoding)


def _is_file(root: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(root).st_mode)  # noqa: PTH116  # no Path for a single question
    except (OSError, ValueError):  # which the store of a folder explains
        return False


def _url_of(path: str) -> str:
    absolute = os.path.abspath(path)  # noqa: PTH100  # resolve() would follow links
    return f"sqlite:///{quote(os.fsencode(absolute))}"
