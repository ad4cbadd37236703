"""Listing many sessions, against reading the first line of files whose paths are known."""

from __future__ import annotations

import json
from collections.abc import Iterable

from .contest import Arena, Figure, clock, require
from .logs import Logs


def sessions(arena: Arena, logs: Logs) -> Iterable[Figure]:
    """Measure `list()`: it finds the sessions, and reads a compressed header of each."""
    count = len(logs.raw_sessions)
    samples = arena.hold(
        "listing",
        {"known paths": lambda: clock(lambda: _first_lines(logs)), "list": lambda: clock(lambda: _list(logs, count))},
        rounds=9,
        warm_up=True,
    )
    each = samples.median("known paths") / count * 1e6
    base = f"open + readline + json.loads of raw files at known paths, {each:.1f} µs each"
    yield Figure(
        what=f"list() of {count:,}", value=samples.ratio("list", "known paths"), unit="x", against=base, most=2.5
    )
    yield Figure(what="list(), each", value=samples.median("list") / count * 1e6, unit="µs")


def _first_lines(logs: Logs) -> None:
    for path in logs.raw_sessions:
        with open(path, "rb") as file:
            require("session", json.loads(file.readline())["type"], "first line")


def _list(logs: Logs, count: int) -> None:
    found = sum(1 for session in logs.sessions.list() if session.header is not None)
    require(count, found, "sessions listed")
