"""A session: its header, its log so far, and the one way to make it longer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from . import generations
from ._event import EVENT_BYTES, EncodedBatch, SessionEvent, SurfaceOp
from ._header import SessionHeader, now_ms
from ._json import encode_data
from ._log import EventLog
from ._log_state import LogState, data_for_rules
from ._messages import derive_messages
from .errors import EventRefused, EventTooLarge

logger = logging.getLogger(__name__)

Listener = Callable[[SessionEvent], None]

Guard = Callable[[int], None]
"""Is asked with the size in bytes of what is about to be added, and raises when there is no room for it."""

Redactor = Callable[[str, Any], Any]
"""Gives the data to append in place of the data of an event of a type, such as one without secrets."""


class Session:
    """One conversation's append-only log in memory.

    Not safe for use from several threads; all appends happen on the thread, or event loop, that owns it. A bare
    ``Session(header)`` belongs to no store and is persisted by nobody.
    """

    def __init__(
        self,
        header: SessionHeader,
        *,
        stored: Sequence[SessionEvent] = (),
        clock: Callable[[], int] = now_ms,
        redactor: Redactor | None = None,
    ) -> None:
        """``stored`` is the log as a backend holds it, from seq 0; it is checked, and not copied.

        Without it, a session that is seeded by its header begins with one ``extend`` by its whole seed.
        ``clock`` gives Unix epoch milliseconds. ``redactor(type, data)`` returns what to append instead of the data
        that a caller gave; it must not change that data in place. Raises ``EventRefused`` when ``stored`` breaks a
        rule of the format.
        """
        self.header = header
        self._log = _ChainedLog(stored)
        self.state = self._folded()
        self.clock = clock
        self._redactor = redactor
        self._listeners: list[Listener] = []
        self._guards: list[Guard] = []

    @property
    def id(self) -> str:
        """The session's id, as in its header."""
        return self.header.id

    @property
    def events(self) -> EventLog:
        """The whole log, as a live view."""
        return self._log

    @property
    def next_seq(self) -> int:
        """The seq the next event will have; the number of events."""
        return self.state.next_seq

    def append(
        self,
        type: str,
        data: Any,
        *,
        surface_op: SurfaceOp | None = None,
        source_event_seqs: Sequence[int] | None = None,
        ignorable: bool = False,
    ) -> SessionEvent:
        """Add one event and tell the listeners.

        The data becomes bytes here, after the redactor has seen it; later changes cannot reach the log. Types
        ``plugin:<ns>/<name>`` are ignorable by themselves. Raises ``DataNotLossless``, ``EventTooLarge`` or another
        ``EventRefused``, or what a guard raises, and then nothing has changed.
        """
        if self._redactor is not None:
            data = self._redactor(type, data)
        event = SessionEvent(
            type=type,
            seq=self.next_seq,
            time=self.clock(),
            encoded=encode_data(type, data),
            source_event_seqs=None if source_event_seqs is None else tuple(source_event_seqs),
            surface_op=surface_op,
            ignorable=ignorable or type.startswith(generations.PLUGIN_PREFIX),
        )
        self._take((event,), (data,))
        return event

    def extend(self, events: Sequence[SessionEvent]) -> None:
        """Add events that exist already, such as crash closers, as they are: all of them, or none.

        Raises ``EventRefused`` or what a guard raises, and then nothing has changed.
        """
        if events:
            self._take(events, map(data_for_rules, events))

    def mark_resumed(self) -> SessionEvent | None:
        """Append the mark that a resume leaves, ``session/end-seed``, unless the log ends in one (GENERATIONS §9).

        Closers of an interrupted turn come before it.
        """
        return None if self.state.last_type == "session/end-seed" else self.append("session/end-seed", {})

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with each event right after it was added, until the returned function is called."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def guard(self, guard: Guard) -> Callable[[], None]:
        """Ask ``guard`` before anything is added, until the returned function is called.

        It is asked with the size of the event, or of all events that are added together, and what it raises is what
        ``append`` and ``extend`` raise.
        """
        self._guards.append(guard)

        def unguard() -> None:
            if guard in self._guards:
                self._guards.remove(guard)

        return unguard

    def batch(self, from_seq: int) -> EncodedBatch:
        """Return all events from ``from_seq`` on, to be written together."""
        return EncodedBatch(first_seq=from_seq, events=tuple(self.events[from_seq:]))

    def messages(self) -> list[Mapping[str, Any]]:
        """Return the conversation as a model may receive it (FORMAT §6)."""
        return list(derive_messages((self._log[seq] for seq in self.state.surface), self.state.offloads))

    def _folded(self) -> LogState:
        state = LogState(header=self.header)
        state.feed_all(self._log.stored)
        if self._log.stored or not self.header.is_seeded:
            state.settle()
        state.feed_all(self._log.live)
        return state

    def _take(self, events: Sequence[SessionEvent], data: Iterable[Any]) -> None:
        """Add all events, whose decoded data ``data`` yields, or none of them."""
        size = sum(map(_size_of, events))
        for guard in self._guards:
            guard(size)
        begin = self.next_seq
        try:
            for event, decoded in zip(events, data, strict=True):
                self._feed(event, decoded)
            if begin == 0:  # what a seeded log begins with is its whole seed
                self.state.settle()
        except EventRefused:
            if self.next_seq != begin:
                self.state = self._folded()
            raise
        for event in events:
            self._log.append(event)
        for event in events:
            self._tell(event)

    def _feed(self, event: SessionEvent, data: Any) -> None:
        if not self.state.surface and event.surface_op is not None and event.type != "system/message":
            # A harness resumes such a log once, adds its own system message, and then refuses it for good.
            raise EventRefused(event.type, "a system/message must be the first message of a log", seq=event.seq)
        self.state.feed(event, data)

    def _tell(self, event: SessionEvent) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                logger.exception("a listener of session %s failed at seq %d", self.id, event.seq)


def _size_of(event: SessionEvent) -> int:
    size = event.size_bytes
    if size > EVENT_BYTES:
        raise EventTooLarge(event.type, seq=event.seq, size_bytes=size, limit_bytes=EVENT_BYTES)
    return size


class _ChainedLog(EventLog):
    """The stored events, left where they are, and after them the live ones."""

    def __init__(self, stored: Sequence[SessionEvent]) -> None:
        self.stored = stored
        self.live: list[SessionEvent] = []

    @property
    def first_seq(self) -> int:
        return 0

    def append(self, event: SessionEvent) -> None:
        self.live.append(event)

    def __len__(self) -> int:
        return len(self.stored) + len(self.live)

    @overload
    def __getitem__(self, index: int) -> SessionEvent: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[SessionEvent]: ...
    def __getitem__(self, index: int | slice) -> SessionEvent | Sequence[SessionEvent]:
        split = len(self.stored)
        if isinstance(index, int):
            position = index if index >= 0 else index + len(self)
            if not 0 <= position < len(self):
                raise IndexError(index)
            return self.stored[position] if position < split else self.live[position - split]
        start, stop, step = index.indices(len(self))
        if start >= split and stop >= split and step > 0:
            return self.live[start - split : stop - split : step]
        return [self[position] for position in range(start, stop, step)]

    def __iter__(self) -> Iterator[SessionEvent]:
        yield from self.stored
        yield from self.live

    def of_type(self, *types: str) -> Iterator[SessionEvent]:
        """Ask the stored part first: a backend may answer without decoding every event."""
        wanted = frozenset(types)
        if isinstance(self.stored, EventLog):
            yield from self.stored.of_type(*types)
        else:
            yield from (event for event in self.stored if event.type in wanted)
        yield from (event for event in self.live if event.type in wanted)
