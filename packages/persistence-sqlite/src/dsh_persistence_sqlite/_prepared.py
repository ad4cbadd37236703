"""Statements of Core in the form the driver takes, which for a short one is most of what it costs to run it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, cast

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
        with _cursor(connection, sql) as cursor:
            cursor.execute(sql, tuple(map(values.__getitem__, order)))
            yield cursor

    def for_each(self, connection: Connection, values: Sequence[Mapping[str, Any]]) -> int:
        """Run it for each of several sets of values by name, and return how many rows that changed."""
        sql, order = self._for(connection)
        return _write(connection, sql, [tuple(map(one.__getitem__, order)) for one in values])

    def for_rows(self, connection: Connection, rows: Iterable[tuple[Any, ...]]) -> None:
        """Run an insert for each of several rows."""
        _write(connection, self._for(connection)[0], rows)

    def _for(self, connection: Connection) -> tuple[str, Sequence[str]]:
        found = self._compiled.get(connection.dialect.name)
        if found is None:
            kind = cast("type[DefaultDialect]", type(connection.dialect))
            dialect = kind(paramstyle=_PARAMSTYLES[connection.dialect.name])
            compiled = cast("SQLCompiler", self._statement.compile(dialect=dialect))
            found = self._compiled[connection.dialect.name] = (str(compiled), compiled.positiontup or ())
        return found


def _write(connection: Connection, sql: str, rows: Iterable[tuple[Any, ...]]) -> int:
    """Give rows to the driver: SQLAlchemy's own way there takes longer than storing a row."""
    with _cursor(connection, sql) as cursor:
        cursor.executemany(sql, cast("Sequence[Sequence[Any]]", rows))  # any iterable will do for both drivers
        return cursor.rowcount


@contextmanager
def _cursor(connection: Connection, sql: str) -> Generator[DBAPICursor]:
    """Give a cursor of the driver, in the transaction of the connection; its errors become SQLAlchemy's."""
    if not connection.in_transaction():
        connection.begin()  # or a commit would have nothing to commit
    base = cast("DBAPIModule", connection.dialect.dbapi).Error
    cursor = connection.connection.cursor()
    try:
        yield cursor
    except base as error:
        raise DBAPIError.instance(sql, None, error, base, hide_parameters=True) from error
    finally:
        cursor.close()
