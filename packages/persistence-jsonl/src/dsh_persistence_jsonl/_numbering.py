"""Which seq each row of a damaged or forked log stands for."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from enum import Enum
from typing import NamedTuple, TypeAlias

import msgspec

from dsh_session import SessionEvent

from ._rows import Row, RowInvalid, event_of, parse_row
from ._survey import Hole, Line

LOST_SEQS = 100_000
"""The longest run of lost seqs that is believed; a row that is further ahead has a wrong number."""


class Turn(Enum):
    """How a row's number goes with those before it."""

    DUE = "due"
    AHEAD = "ahead"
    """Seqs before it are missing."""
    BACK = "back"
    """It begins another branch: a second writer went on from an earlier event."""
    WRONG = "wrong"
    """It stands where another number is due, and the next row goes on as if it had that."""


class Numbered(NamedTuple):
    """A row, and what its number says."""

    line: Line
    row: Row
    turn: Turn
    due: int
    """The seq that was due."""

    @property
    def seq(self) -> int:
        """The seq the row stands for."""
        return self.due if self.turn is Turn.WRONG else self.row.seq

    def event(self) -> SessionEvent:
        """Return the event, under the seq it stands for. Raises ``RowInvalid``."""
        return event_of(msgspec.structs.replace(self.row, seq=self.seq) if self.turn is Turn.WRONG else self.row)


class Invalid(NamedTuple):
    """An intact line that is no event."""

    line: Line
    reason: str


Part: TypeAlias = Numbered | Invalid | Hole


def numbered(parts: Iterable[Line | Hole]) -> Iterator[Part]:
    """Yield the parts of a log behind its header with each row's number judged by the rows around it."""
    due = 0
    held: list[Part] = []
    """A row that is out of turn, which the next row explains, and what came after it."""
    for part in map(_parsed, parts):
        if not isinstance(part, Numbered):
            if held:
                held.append(part)
            else:
                yield part
            continue
        if held:
            carries_on = len(held) == 1 and part.row.seq == due + 1
            due = yield from _settle(held, due, wrong=carries_on)
            held = []
        if part.row.seq == due:
            yield part._replace(due=due)
            due += 1
        else:
            held = [part]
    if held:
        yield from _settle(held, due, wrong=False)


def _settle(held: list[Part], due: int, *, wrong: bool) -> Generator[Part, None, int]:
    """Yield what was held, and return the seq that is due behind it."""
    first = held[0]
    assert isinstance(first, Numbered)  # noqa: S101 - as it was put there
    seq = first.row.seq
    turn = Turn.WRONG if wrong or not 0 <= seq <= due + LOST_SEQS else Turn.AHEAD if seq > due else Turn.BACK
    settled = first._replace(turn=turn, due=due)
    yield settled
    yield from held[1:]
    return settled.seq + 1


def _parsed(part: Line | Hole) -> Part:
    if isinstance(part, Hole):
        return part
    try:
        return Numbered(part, parse_row(part.text), Turn.DUE, 0)
    except RowInvalid as error:
        return Invalid(part, str(error))
