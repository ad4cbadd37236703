"""Statements of Core in the form the driver takes, which for a short one is most of what it costs to run it."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal, Self, cast

from sqlalchemy import ClauseElement, Connection, CursorResult
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.engine.interfaces import DBAPICursor, DBAPIModule
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler

_PARAMSTYLES: dict[str, Literal["qmark", "format"]] = {"sqlite": "qmark", "postgresql": "format"}


class Prepared:
    """A statement that is compiled once for each dialect, and then takes its values in order.

    Only for statements whose values and results need nothing done to them, as bytes and whole numbers.
    """

    def __init__(self, statement: ClauseElement) -> None:
        self._statement = statement
        self._compiled: dict[str, tuple[str, Sequence[str]]] = {}

    def __call__(self, connection: Connection, values: Mapping[str, Any], **options: Any) -> CursorResult[Any]:
        """Run it with values by name; ``options`` are those of the execution."""
        sql, order = self._for(connection)
        return connection.exec_driver_sql(sql, tuple(map(values.__getitem__, order)), options)

    @contextmanager
    def reading(self, connection: Connection, values: Mapping[str, Any]) -> Generator[DBAPICursor]:
        """Run it with values by name and give the driver's cursor: for few rows, as their description takes longer."""
        sql, order = self._for(connection)
        with Cursor(connection) as cursor:
            cursor.sql = sql
            cursor.driver.execute(sql, tuple(map(values.__getitem__, order)))
            yield cursor.driver

    def for_each(self, cursor: Cursor, values: Sequence[Mapping[str, Any]]) -> int:
        """Run it for each of several sets of values by name, and return how many rows that changed."""
        cursor.sql, order = self._for(cursor.connection)
        cursor.driver.executemany(cursor.sql, [tuple(map(one.__getitem__, order)) for one in values])
        return cursor.driver.rowcount

    def for_rows(self, cursor: Cursor, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run an insert for each of several rows."""
        cursor.sql, _ = self._for(cursor.connection)
        cursor.driver.executemany(cursor.sql, rows)

    def _for(self, connection: Connection) -> tuple[str, Sequence[str]]:
        found = self._compiled.get(connection.dialect.name)
        if found is None:
            kind = cast("type[DefaultDialect]", type(connection.dialect))
            dialect = kind(paramstyle=_PARAMSTYLES[connection.dialect.name])
            compiled = cast("SQLCompiler", self._statement.compile(dialect=dialect))
            found = self._compiled[connection.dialect.name] = (str(compiled), compiled.positiontup or ())
        return found


class Cursor:
    """The driver's own cursor in the transaction of a connection: SQLAlchemy's way there takes longer than a row.

    The driver's errors become SQLAlchemy's.
    """

    __slots__ = ("connection", "driver", "sql")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.driver = connection.connection.cursor()
        self.sql = ""
        """What runs, for an error to name."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.driver.close()
        base = cast("DBAPIModule", self.connection.dialect.dbapi).Error
        if isinstance(error, base):
            raise DBAPIError.instance(self.sql, None, error, base, hide_parameters=True) from error
