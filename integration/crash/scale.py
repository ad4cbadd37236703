"""How much is tried: the quick set belongs to every run of the tests, the full set to `nox -s crash`."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The sizes of one set."""

    states: tuple[str, ...]
    """What the workload whose every state is replayed is asked for."""
    database: tuple[str, ...]
    """The same for a database, which makes many more calls."""
    database_limit: int
    """The most states of one recording of a database, in each model; a tenth of that where it is one of many."""
    database_share: int
    """Which part of the other sizes is for a database: its runs and its images take so many times longer."""
    small: tuple[str, ...]
    """The same where it is run many times over."""
    sync_step: int
    """Every which sync is made to fail."""
    nested: int
    """In how many states recovery itself is crashed."""
    nested_limit: int
    """The most states of each such crash."""
    faults: int | None
    """How many faults are drawn of all that there are; None for all."""
    kills: int
    """Rounds of SIGKILL on one folder."""
    power_cuts: int
    open_step: int
    """Every how many flips the log is opened for writing as well."""
    contenders: int
    """Processes that contend for one session, eight at a time."""


FULL = os.environ.get("DSH_CRASH") == "full"
SCALE = (
    Scale(
        states=("--sessions=2", "--batches=6"),
        database=("--sessions=2", "--batches=2"),
        database_limit=1_000,
        database_share=10,
        small=("--sessions=1", "--batches=3"),
        sync_step=1,
        nested=40,
        nested_limit=300,
        faults=None,
        kills=250,
        power_cuts=80,
        open_step=1,
        contenders=400,
    )
    if FULL
    else Scale(
        states=("--sessions=1", "--batches=4"),
        database=("--sessions=1", "--batches=1"),
        database_limit=400,
        database_share=1,
        small=("--sessions=1", "--batches=3"),
        sync_step=4,
        nested=3,
        nested_limit=60,
        faults=20,
        kills=10,
        power_cuts=0,
        open_step=64,
        contenders=40,
    )
)
