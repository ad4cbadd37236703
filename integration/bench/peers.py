"""What others keep sessions in, and what anybody would write with the driver alone; each of them syncs every commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from agents.extensions.memory import SQLAlchemySession
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from .contest import require

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

Row = tuple[str, int, str, int, bytes]
"""A session's id, and of an event its seq, type, time and data."""


class Raw:
    """Rows of a plain table, each batch in a transaction of its own, by `sqlite3`."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute(
            "CREATE TABLE events (session TEXT, seq INTEGER, type TEXT, time INTEGER, data BLOB,"
            " PRIMARY KEY (session, seq))"
        )

    def append(self, rows: Sequence[Row]) -> None:
        """Commit rows."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows)
        self._connection.execute("COMMIT")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class RawPostgres:
    """The same by `psycopg`."""

    def __init__(self, url: str) -> None:
        """``url`` as libpq takes it."""
        import psycopg  # only where a server can be had

        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute(
            "CREATE TABLE raw (session TEXT, seq BIGINT, type TEXT, time BIGINT, data BYTEA,"
            " PRIMARY KEY (session, seq))"
        )

    def append(self, rows: Sequence[Row]) -> None:
        """Commit rows."""
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.executemany("INSERT INTO raw VALUES (%s, %s, %s, %s, %s)", rows)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Peer(Protocol):
    """One session in the store of another harness."""

    name: str

    async def append(self, *, seq: int, note: str) -> None:
        """Store one more message durably."""
        ...

    async def close(self) -> None:
        """Close the store."""
        ...


class OpenAIAgents:
    """`SQLAlchemySession` of `openai-agents`, over `aiosqlite`."""

    name = "SQLAlchemySession.add_items"

    def __init__(self, path: Path) -> None:
        self._engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        self._session = SQLAlchemySession("session", engine=self._engine, create_tables=True)

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Return one whose file is there, and durable."""
        one = cls(path)
        await one.append(seq=0, note="first")
        await _require_durable(one._engine, journal="wal")
        return one

    async def append(self, *, seq: int, note: str) -> None:
        """Add an item."""
        item: TResponseInputItem = {"role": "user", "content": note}
        await self._session.add_items([item])

    async def close(self) -> None:
        """Close the connections."""
        await self._engine.dispose()


class GoogleADK:
    """`DatabaseSessionService` of `google-adk`, over `aiosqlite`."""

    name = "DatabaseSessionService.append_event"

    def __init__(self, service: Any, session: Any) -> None:
        self._service = service
        self._session = session

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Return one with an empty session. Raises ``ImportError`` where `google-adk` is not installed."""
        from google.adk.sessions.database_session_service import DatabaseSessionService

        service = DatabaseSessionService(f"sqlite+aiosqlite:///{path}")
        session = await service.create_session(app_name="bench", user_id="somebody", session_id="session")
        await _require_durable(service.db_engine, journal="delete")
        return cls(service, session)

    async def append(self, *, seq: int, note: str) -> None:
        """Append an event."""
        from google.adk.events import Event
        from google.genai import types

        event = Event(author="user", content=types.Content(role="user", parts=[types.Part(text=note)]))
        await self._service.append_event(self._session, event)

    async def close(self) -> None:
        """Close the connections."""
        await self._service.close()


async def _require_durable(engine: AsyncEngine, *, journal: str) -> None:
    """Refuse a peer that does not sync what it commits: 2 is FULL, in either journal mode."""
    async with engine.connect() as connection:
        for name, value in (("journal_mode", journal), ("synchronous", 2)):
            found = (await connection.execute(text(f"PRAGMA {name}"))).scalar_one()
            require(value, found, f"PRAGMA {name} of {engine.url.database}")
