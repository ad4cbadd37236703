"""The branches of a forked log: two writers went on from one event, each as if it were alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from ._numbering import Numbered, Part, Turn


class Branch(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One way through a log: what a branch shares with the one before it, and then what is its own."""

    number: int
    """1 for what was written first."""
    offset: int
    """Where in the file its own part begins; of a compressed log, where the frame does."""
    first_seq: int
    """The seq of its first own event."""
    next_seq: int
    """The seq that follows its last event."""
    events: int
    """How many intact events it holds, shared ones included."""
    last_type: str
    last_time: int
    """Unix epoch milliseconds."""


class Branches:
    """Collects the branches of a log from its parts; each place where the seqs go back begins another one."""

    def __init__(self) -> None:
        self.found: list[Branch] = []
        self.first_time = 0
        """The time of the log's first intact event."""
        self._held: list[range] = []
        """The seqs that the branch under way holds, as runs."""

    def add(self, part: Numbered) -> None:
        """Take in the next row of the log."""
        if not self.found or part.turn is Turn.BACK:
            self.first_time = self.first_time if self.found else part.row.time
            self._cut(part.seq)
            self.found.append(
                Branch(
                    number=len(self.found) + 1,
                    offset=part.line.offset,
                    first_seq=part.seq,
                    next_seq=0,
                    events=0,
                    last_type="",
                    last_time=0,
                )
            )
        self._hold(part.seq)
        self.found[-1] = msgspec.structs.replace(
            self.found[-1],
            next_seq=part.seq + 1,
            events=sum(map(len, self._held)),
            last_type=part.row.type,
            last_time=part.row.time,
        )

    def _hold(self, seq: int) -> None:
        if self._held and self._held[-1].stop == seq:
            self._held[-1] = range(self._held[-1].start, seq + 1)
        else:
            self._held.append(range(seq, seq + 1))

    def _cut(self, seq: int) -> None:
        while self._held and self._held[-1].start >= seq:
            self._held.pop()
        if self._held:
            self._held[-1] = range(self._held[-1].start, min(seq, self._held[-1].stop))


def of_branch(parts: Iterable[Part], branches: Sequence[Branch], number: int) -> Iterator[Part]:
    """Yield the parts of one branch, in order, with everything that is no row."""
    at = 0
    for part in parts:
        if isinstance(part, Numbered):
            at += part.turn is Turn.BACK
            if at >= number:
                return
            if part.seq >= min((later.first_seq for later in branches[at + 1 : number]), default=part.seq + 1):
                continue
        yield part
