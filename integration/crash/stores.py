"""The stores under proof, each by a word, over a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from dsh_persistence import LogStore, LogWriter, Receipt
from dsh_persistence_jsonl import JsonlLogStore
from dsh_session import EncodedBatch

DATABASE = "sessions.db"
FILES = ("zstd", "raw")
JOURNALS: Mapping[str, str] = {"sqlite": "wal", "sqlite-delete": "delete"}
KINDS = (*FILES, *JOURNALS)


class Store(LogStore, Protocol):
    """Every store here commits groups."""

    def append_group(self, items: Sequence[tuple[LogWriter, EncodedBatch]]) -> Sequence[Receipt | Exception]:
        """Append to several logs."""
        ...


def open_store(kind: str, root: Path) -> Store:
    """Open a store of that kind over a folder."""
    if kind == "zstd":
        return JsonlLogStore(root, encoding="zstd")
    if kind == "raw":
        return JsonlLogStore(root, encoding="raw")
    return open_database(root, journal=kind)


def open_database(root: Path, *, journal: str | None = None) -> Store:
    """Open the database in a folder; without a kind of it, with the journal that it has."""
    from dsh_persistence_sqlite import SqlLogStore

    url = f"sqlite:///{root / DATABASE}"
    if journal is None:
        return SqlLogStore(url)
    return SqlLogStore(url, journal="wal" if JOURNALS[journal] == "wal" else "delete")


def holds_database(root: Path) -> bool:
    """Tell whether a database was at least begun in a folder."""
    return any(DATABASE in path.name for path in root.iterdir())
