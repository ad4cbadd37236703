"""What later events may refer to: the part of a log's state that only its rules read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ._header import SessionHeader
from .errors import EventRefused


@dataclass(slots=True, kw_only=True)
class Compaction:
    """A compaction that has started and not ended."""

    id: str
    command: object
    """The ``sourceCommandId``, or MISSING."""
    turn: int | None
    summarized: bool = False


@dataclass(slots=True, kw_only=True)
class Dispatch:
    """A tool call that another tool made."""

    root: str
    started: tuple[Any, ...]
    """What its end must repeat."""
    settled: bool = False


@dataclass(slots=True)
class Facts:
    """Facts of a log by subject. Whole messages are never kept: a log may be far larger than memory."""

    header: SessionHeader | None
    provider: object = None
    """That of the request header in force."""
    offered: dict[int, frozenset[str]] = field(default_factory=dict[int, frozenset[str]])
    """By the seq of each request header, the names of the tools it defines completely and once."""
    humans: set[int] = field(default_factory=set[int])
    """Seqs of what the human said."""
    results: dict[int, bytes] = field(default_factory=dict[int, bytes])
    """By the seq of each result on the surface, a digest of all but its content."""
    images: dict[int, set[int]] = field(default_factory=dict[int, set[int]])
    """By the seq of a message on the surface, which of its images are still inside."""
    dispatches: dict[str, Dispatch] = field(default_factory=dict[str, Dispatch])
    chains: dict[tuple[object, ...], tuple[str, int]] = field(default_factory=dict[tuple[object, ...], tuple[str, int]])
    """The last retry of each chain: its id and number."""
    retries: dict[tuple[str, int], tuple[object, object]] = field(
        default_factory=dict[tuple[str, int], tuple[object, object]]
    )
    """By id and number of each scheduled retry, its turn and step."""
    retry_ids: set[str] = field(default_factory=set[str])
    started_retries: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    commands: set[str] = field(default_factory=set[str])
    command_seqs: set[int] = field(default_factory=set[int])
    waiting: dict[str, int] = field(default_factory=dict[str, int])
    """How many messages wait in each queue of the inbox."""
    compaction: Compaction | None = None
    children: set[str] = field(default_factory=set[str])
    """Ids in the session's own catalog."""
    marked: bool = False
    """Whether a marker has closed an inherited part."""
    settled: bool = False
    """Whether the stored log has ended; from then on nothing that follows can excuse what came before."""
    own: EventRefused | None = None
    """What is wrong unless a later marker shows it to be inherited."""
    crossing: EventRefused | None = None
    """What is wrong unless a later ``session/end-seed`` shows that its compaction was abandoned."""

    def refuse_own(self, error: EventRefused) -> None:
        """Raise ``error``, or keep it while the event may still turn out to be inherited."""
        if self.settled or (self.header is not None and not self.header.is_seeded):
            raise error
        self.own = self.own or error

    def settle(self) -> None:
        """Raise what nothing has excused."""
        for error in (self.own, self.crossing):
            if error is not None:
                raise error
        if self.header is not None and self.header.is_seeded and not self.marked:
            raise EventRefused("session/end-seed", "the header says that the log is seeded, and no mark ends the seed")
        self.settled = True
