"""Contestants that take turns, and the figures that come of it."""

from __future__ import annotations

import gc
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Turn: TypeAlias = Callable[[], float]
"""Does a contestant's work once and returns what that took; only the work itself is on the clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table."""

    what: str
    value: float
    unit: Literal["x", "s", "ms", "µs", "MiB", ""]
    against: str = ""
    """What the value is relative to, or how it was taken."""
    least: float | None = None
    most: float | None = None
    """The target, where there is one."""

    @property
    def verdict(self) -> Literal["met", "missed", "reported"]:
        """Whether the target is met; without one the figure is only reported."""
        if self.least is None and self.most is None:
            return "reported"
        above = self.least is None or self.value >= self.least
        below = self.most is None or self.value <= self.most
        return "met" if above and below else "missed"


@dataclass(frozen=True, slots=True)
class Samples:
    """What each contestant took in each round."""

    taken: Mapping[str, list[float]]

    def median(self, name: str) -> float:
        """Return the median over the rounds."""
        return statistics.median(self.taken[name])

    def ratio(self, numerator: str, denominator: str) -> float:
        """Return the median of the ratios within each round."""
        pairs = zip(self.taken[numerator], self.taken[denominator], strict=True)
        return statistics.median(above / below for above, below in pairs)


class Arena:
    """Where contests are held: it shuffles every round and says on stderr how far it is."""

    def __init__(self, *, seed: int, rounds: int | None = None) -> None:
        """``rounds`` replaces every contest's own number of rounds."""
        self._random = random.Random(seed)
        self._rounds = rounds

    def hold(self, name: str, contestants: Mapping[str, Turn], *, rounds: int, warm_up: bool = False) -> Samples:
        """Let every contestant have one turn a round, in a fresh order each; a warm-up round counts for nothing."""
        rounds = self._rounds or rounds
        taken: dict[str, list[float]] = {one: [] for one in contestants}
        for number in range(0 if warm_up else 1, rounds + 1):
            order = list(contestants)
            self._random.shuffle(order)
            for one in order:
                say(f"{name}, round {number} of {rounds}: {one}")
                gc.collect()
                seconds = contestants[one]()
                if number:
                    taken[one].append(seconds)
        return Samples(taken)


def clock(work: Callable[[], object]) -> float:
    """Return how many seconds ``work`` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def require(expected: object, found: object, what: str) -> None:
    """Refuse a measurement of anything but the work it is meant to be."""
    if expected != found:
        raise AssertionError(f"{what}: expected {expected!r}, found {found!r}; this measures something else")


def say(line: str) -> None:
    """Tell whoever waits; a terminal shows one line, a file all of them."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()
    else:
        print(line, file=sys.stderr)
