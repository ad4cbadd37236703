"""A PostgreSQL server for the tests of one process, and a place of its own in it for each test."""

from __future__ import annotations

import atexit
import importlib
import os
import secrets
from functools import cache
from typing import Any

import pytest

from .postgres import Server, Unavailable, find_programs


def postgres_driver() -> Any:
    """Return psycopg; skip the module without it, unless ``DSH_REQUIRE_POSTGRES`` is 1."""
    if os.environ.get("DSH_REQUIRE_POSTGRES") == "1":
        return importlib.import_module("psycopg")
    return pytest.importorskip("psycopg", reason="PostgreSQL needs the extra [postgres]")


def postgres_server() -> Server:
    """Return the server of this process; skip where none can be had, unless ``DSH_REQUIRE_POSTGRES`` is 1."""
    try:
        find_programs()
    except Unavailable as error:
        if os.environ.get("DSH_REQUIRE_POSTGRES") == "1":
            raise
        pytest.skip(str(error))
    return _running()


def fresh_schema(server: Server, *, port: int | None = None) -> str:
    """Make an empty schema and return its URL, through the ``port`` of a ``Between`` if one is given."""
    psycopg = postgres_driver()
    name = f"t{secrets.token_hex(6)}"
    with psycopg.connect(server.url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    plain = {} if port is None else {"sslmode": "disable", "gssencmode": "disable"}
    return server.url_of("postgres", port=port, options=f"-csearch_path%3D{name}", **plain)


@cache
def _running() -> Server:
    server = Server()
    atexit.register(server.close)
    return server
