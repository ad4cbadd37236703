"""The events of a stored log, decoded when they are asked for."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from threading import Lock

from dsh_persistence import SessionCorrupt
from dsh_session import SessionEvent, StoredLog, generations

from ._layout import LogFile
from ._rows import RowInvalid, decode_row, decode_rows
from ._stretches import Decoder

CACHE_BYTES = 8 << 20
"""How much decoded text of stretches a log keeps at hand."""
_ESCAPES = (b"\\/", b"\\u00")
"""Ways to spell a plain type other than letter by letter; text with one of them is decoded rather than searched."""
_PLAIN_TYPE = re.compile(r"[ !#-\[\]-~]*")
"""A type that needs no escapes; text with any escape may hold one that does."""
_CONVERSATION = generations.SURFACE_TYPES | {"image/offload"}
"""What messages derive from."""
_IN_CONVERSATION = re.compile(rb'/(?:message|result|offload)"')
"""How the types of the conversation end; one search for all of them is what makes messages cheap."""


class Blocks:
    """The stored bytes of a log's events, and where in them each stretch and its events lie."""

    def __init__(self, log: LogFile, content: bytes, *, base: int) -> None:
        """``content`` is a part of the file that begins at offset ``base``."""
        self.log = log
        self._content = content
        self._base = base
        self.begins = array("Q")
        self.ends = array("Q")
        self.first_seqs = array("Q")

    def __len__(self) -> int:
        return len(self.ends)

    def add(self, begin: int, end: int, first_seq: int) -> None:
        """Add a stretch, by file offsets, whose first event is ``first_seq``."""
        self.begins.append(begin)
        self.ends.append(end)
        self.first_seqs.append(first_seq)

    def stored(self, block: int) -> bytes:
        """Return the stored bytes of a stretch."""
        return self._content[self.begins[block] - self._base : self.ends[block] - self._base]

    def holding(self, seq: int) -> int:
        """Return the stretch that holds an event."""
        return bisect_right(self.first_seqs, seq) - 1


class JsonlLog(StoredLog):
    """A copy of a stored log: compressed as it was, with an index, and a few decoded stretches at hand.

    Any thread may use it. Raises ``SessionCorrupt`` for a row that proves damaged when it is reached.
    """

    def __init__(self, blocks: Blocks, *, first_seq: int, blocks_end_seq: int, extra: Sequence[SessionEvent]) -> None:
        """``extra`` are whole rows that lie beyond the intact part of the file, at ``blocks_end_seq`` and after."""
        self._blocks = blocks
        self._first_seq = first_seq
        self._blocks_end_seq = blocks_end_seq
        self._extra = tuple(extra)
        self._decoder = Decoder(blocks.log)
        self._cache: OrderedDict[int, tuple[int, tuple[SessionEvent, ...]]] = OrderedDict()
        self._cached_bytes = 0
        self._conversation: bytearray | None = None
        self._lock = Lock()

    @property
    def first_seq(self) -> int:  # as in EventLog
        return self._first_seq

    @property
    def next_seq(self) -> int:
        """The seq that follows the last event."""
        return self._blocks_end_seq + len(self._extra)

    def suffix(self, seq: int) -> JsonlLog:
        """Return the same log from ``seq`` on, over the same bytes."""
        first = min(max(seq, self._first_seq), self.next_seq)
        return JsonlLog(self._blocks, first_seq=first, blocks_end_seq=self._blocks_end_seq, extra=self._extra)

    def __len__(self) -> int:
        return self.next_seq - self._first_seq

    def __iter__(self) -> Iterator[SessionEvent]:
        return self._between(self._first_seq, self.next_seq, keep=False)

    def of_type(self, *types: str) -> Iterator[SessionEvent]:
        """Yield the events of these types, touching only stretches that may hold one."""
        wanted = frozenset(types)
        if self._first_seq < self._blocks_end_seq:
            holds = self._holds(wanted)
            for block in range(self._blocks.holding(self._first_seq), len(self._blocks)):
                if holds(block):
                    for event in self._events(block, keep=False):
                        if event.type in wanted and event.seq >= self._first_seq:
                            yield event
        for event in self._extra:
            if event.type in wanted and event.seq >= self._first_seq:
                yield event

    def _between(self, start: int, stop: int, *, keep: bool = True) -> Iterator[SessionEvent]:
        """Yield the events from seq ``start`` to before ``stop``."""
        end = min(stop, self._blocks_end_seq)
        if start < end:
            first = self._blocks.holding(start)
            blocks = (self._events(block, keep=keep) for block in range(first, self._blocks.holding(end - 1) + 1))
            skipped = start - self._blocks.first_seqs[first]
            yield from islice(chain.from_iterable(blocks), skipped, skipped + end - start)
        yield from self._extra[max(0, start - self._blocks_end_seq) : max(0, stop - self._blocks_end_seq)]

    def _events(self, block: int, *, keep: bool) -> Iterator[SessionEvent]:
        """Return the events of a stretch: from the cache, decoded in one go, or, when it is large, row by row."""
        with self._lock:
            if block in self._cache:
                self._cache.move_to_end(block)
                return iter(self._cache[block][1])
            text = self._decoder.text(self._blocks.stored(block))
        if text is None:
            return self._streamed(block)
        first_seq = self._blocks.first_seqs[block]
        events = decode_rows(text, first_seq)
        if events is None:
            return self._streamed(block)
        if keep:
            self._keep(block, len(text), events)
        return iter(events)

    def _streamed(self, block: int) -> Iterator[SessionEvent]:
        begin, seq = self._blocks.begins[block], self._blocks.first_seqs[block]
        decoder = Decoder(self._blocks.log)  # its own context: this generator may be left half-way
        for offset, line in decoder.lines(begin, self._blocks.stored(block)):
            try:
                event = decode_row(line, due=seq)
            except RowInvalid as error:
                raise self._damage(offset, seq, str(error)) from None
            yield event
            seq += 1

    def _damage(self, offset: int, seq: int, reason: str) -> SessionCorrupt:
        # The header is line 1 and every event is one line, so event n is line n + 2.
        return SessionCorrupt(self._blocks.log.path, reason, offset=offset, line=seq + 2)

    def _keep(self, block: int, size_bytes: int, events: tuple[SessionEvent, ...]) -> None:
        with self._lock:
            if block not in self._cache:
                self._cache[block] = (size_bytes, events)
                self._cached_bytes += size_bytes
            while self._cached_bytes > CACHE_BYTES:
                _, (dropped, _) = self._cache.popitem(last=False)
                self._cached_bytes -= dropped

    def _holds(self, wanted: frozenset[str]) -> Callable[[int], bool]:
        """Return what tells of a stretch whether it may hold an event of these types."""
        if not wanted <= _CONVERSATION:
            needles = [f'"{type}"'.encode("utf-8", "surrogatepass") for type in wanted]
            escapes = _ESCAPES if all(map(_PLAIN_TYPE.fullmatch, wanted)) else (b"\\",)
            return lambda block: self._search(block, lambda text: any(needle in text for needle in needles), escapes)
        if self._conversation is None:
            # Asked for at every request to a model, so it is kept: a flag for each stretch.
            search = _IN_CONVERSATION.search
            every = range(len(self._blocks))
            self._conversation = bytearray(self._search(block, search, _ESCAPES) for block in every)
        flags = self._conversation
        return lambda block: bool(flags[block])

    def _search(self, block: int, found: Callable[[bytes], object], escapes: Sequence[bytes]) -> bool:
        """Tell whether a stretch fits; a large one, or one that may spell a type with escapes, may hold anything."""
        with self._lock:
            text = self._decoder.text(self._blocks.stored(block))
        return text is None or bool(found(text)) or (b"\\" in text and any(escape in text for escape in escapes))
