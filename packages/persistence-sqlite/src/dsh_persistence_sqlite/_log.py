"""A stored log that fetches its events when somebody asks for them."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import attrgetter
from threading import Lock

from dsh_session import SessionEvent, StoredLog

from ._database import Database
from ._pages import Page, Place, of_type, page

CACHE_BYTES = 8 << 20
"""How much of its events' data a log keeps at hand."""
_TYPE = attrgetter("type")
_EVENT_BYTES = 256
"""What an event takes besides its data."""


class SqlEventLog(StoredLog):
    """A copy of a stored log: what each page is chained to, and a few pages at hand. Any thread may use it.

    Raises ``SessionCorrupt`` when rows are no longer what they were when the log was read, and what reading raises.
    """

    def __init__(self, database: Database, place: Place, found: Iterable[Page], *, first_seq: int, base: bytes) -> None:
        """``found`` are its pages, in order; ``base`` is what event 0 is chained to."""
        self._database = database
        self._place = place
        self._base = base
        self._first_seq = first_seq
        self._firsts = array("Q")
        self._chains: list[bytes] = []
        self._types = Counter[str]()
        self._cache: OrderedDict[int, Page] = OrderedDict()
        self._cached_bytes = 0
        self._lock = Lock()
        self._next_seq = first_seq
        for number, one in enumerate(found):
            self._firsts.append(self._next_seq)
            self._chains.append(one.chain)
            self._types.update(map(_TYPE, one.events))
            self._keep(number, one)
            self._next_seq += len(one.events)

    @property
    def first_seq(self) -> int:  # as in EventLog
        return self._first_seq

    def __len__(self) -> int:
        return self._next_seq - self._first_seq

    def __iter__(self) -> Iterator[SessionEvent]:
        return self._between(self._first_seq, self._next_seq)

    def of_type(self, *types: str) -> Iterator[SessionEvent]:
        """Yield the events of these types, which the database selects unless all events are at hand."""
        if len(self._cache) == len(self._firsts):
            yield from super().of_type(*types)
            return
        left = sum(self._types[type] for type in set(types))
        seq = self._first_seq
        while left:
            with self._database.reading() as connection:
                found = of_type(connection, self._place, range(seq, self._next_seq), types, base=self._base)
            if not found or len(found) > left:  # a changed type is not found, or found where there was none
                raise self._place.damaged(f"{left} events of {', '.join(types)} are not where they were")
            yield from found
            left -= len(found)
            seq = found[-1].seq + 1

    def _between(self, start: int, stop: int) -> Iterator[SessionEvent]:
        """Yield the events from seq ``start`` to before ``stop``."""
        if start >= stop:
            return
        first = bisect_right(self._firsts, start) - 1
        numbers = range(first, bisect_right(self._firsts, stop - 1))
        skipped = start - self._firsts[first]
        found = chain.from_iterable(map(self._page, numbers))
        yield from islice(found, skipped, skipped + stop - start)

    def _page(self, number: int) -> Sequence[SessionEvent]:
        with self._lock:
            if number in self._cache:
                self._cache.move_to_end(number)
                return self._cache[number].events
        begin = self._firsts[number]
        end = self._firsts[number + 1] if number + 1 < len(self._firsts) else self._next_seq
        with self._database.reading() as connection:
            found = page(connection, self._place, begin, end, self._chains[number])
        with self._lock:
            self._keep(number, found)
        return found.events

    def _keep(self, number: int, found: Page) -> None:
        """Remember a page, and forget those that nobody asked for in the longest time."""
        if number not in self._cache:
            self._cache[number] = found
            self._cached_bytes += _size(found)
        while self._cached_bytes > CACHE_BYTES and len(self._cache) > 1:
            _, dropped = self._cache.popitem(last=False)
            self._cached_bytes -= _size(dropped)


def _size(found: Page) -> int:
    return found.size_bytes + _EVENT_BYTES * len(found.events)
