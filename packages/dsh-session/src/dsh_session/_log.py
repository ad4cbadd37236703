"""A log as events that can be read: what every store returns and a session holds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, overload

import msgspec

from . import generations
from ._event import SessionEvent
from ._log_state import LogState
from ._messages import derive_messages, fold_surface
from .errors import EventRefused, LogIncomplete

if TYPE_CHECKING:
    from ._header import SessionHeader


class RequestHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What a log says of its model requests besides the messages (FORMAT §7)."""

    seq: int
    """The ``request/header`` event it comes from."""
    config: Mapping[str, Any]
    """The call's configuration: provider, model, and what was set of reasoning effort, temperature, limits."""
    tools: Sequence[Mapping[str, Any]]
    """The tools' definitions: name, description and parameters; empty where none are offered."""
    adapter_defaults: Mapping[str, Any]
    """Which values of ``config`` the adapter filled in."""


class RebuiltRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The next model request as the log alone describes it."""

    header: RequestHeader
    messages: Sequence[Mapping[str, Any]]
    """The conversation with its system prompt, developer messages and tool results in place."""


class EventLog(Sequence[SessionEvent]):
    """A read-only run of events with consecutive seqs; what a store returns and a session holds.

    ``log[i]`` is the event at position ``i``, whose seq is ``first_seq + i``. All questions below go through
    ``of_type``, so a backend that answers it without decoding every event makes them all cheap.
    """

    @property
    @abstractmethod
    def first_seq(self) -> int:
        """The seq of the first event; that of the next one to come while the log is empty."""

    def of_type(self, *types: str) -> Iterator[SessionEvent]:
        """Iterate over the events of these types in log order."""
        wanted = frozenset(types)
        return (event for event in self if event.type in wanted)

    def surface(self) -> list[SessionEvent]:
        """Return the events that are the conversation, in position order (FORMAT §6).

        Raises ``LogIncomplete`` for a suffix and ``EventRefused`` for a surface operation that does not fit.
        """
        self._require_beginning("its surface")
        return fold_surface(self.of_type(*generations.SURFACE_TYPES))[0]

    def messages(self) -> Iterator[Mapping[str, Any]]:
        """Iterate over the conversation as a model may receive it (FORMAT §6, GENERATIONS §7).

        Messages come verbatim, nothing is merged; offloaded images are marked; empty prompts and replies are left out.
        Raises as ``surface``, when it is called; a node without a message raises when its turn comes.
        """
        self._require_beginning("its messages")
        return derive_messages(*fold_surface(self.of_type(*generations.SURFACE_TYPES, "image/offload")))

    def human_messages(self) -> Iterator[Mapping[str, Any]]:
        """Iterate over what the human said, in log order, also what was replaced later.

        These are the ``user/message`` events whose source kind is ``user``; harnesses inject others.
        """
        for event in self.of_type("user/message"):
            data = event.data
            if is_human(data):
                yield data

    def request_header(self) -> RequestHeader | None:
        """Return the request header in force at the end of the log, None before the first one (FORMAT §7).

        Raises ``LogIncomplete`` for a suffix that holds none.
        """
        latest = None
        for event in self.of_type("request/header"):
            latest = event
        if latest is None:
            self._require_beginning("its request header")
            return None
        try:
            header: Mapping[str, Any] = latest.data["header"]
            return RequestHeader(
                seq=latest.seq,
                config=header["config"],
                tools=header.get("tools", ()),
                adapter_defaults=header.get("adapterDefaults", {}),
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise EventRefused(latest.type, f"its data lacks or distorts {error}", seq=latest.seq) from None

    def model_request(self) -> RebuiltRequest | None:
        """Return what a model would be asked next: the header in force and the messages; None without a header.

        For the request of an earlier moment ask ``EventRun(log[:seq])``. Raises as ``messages``.
        """
        header = self.request_header()
        return None if header is None else RebuiltRequest(header=header, messages=list(self.messages()))

    def validate(self, header: SessionHeader | None = None) -> LogState:
        """Feed every event and return what the log means.

        Raises ``EventRefused`` at the first that would make a harness refuse the log. With the session's ``header``
        the rules that tie events to it are checked too. Raises ``LogIncomplete`` for a suffix.
        """
        self._require_beginning("what it means")
        state = LogState(header=header)
        state.feed_all(self)
        state.settle()
        return state

    def _require_beginning(self, what: str) -> None:
        if self.first_seq != 0:
            raise LogIncomplete(self.first_seq, what)


class StoredLog(EventLog):
    """A log whose events a store fetches when somebody asks for them; the store says how, between two seqs."""

    @abstractmethod
    def _between(self, start: int, stop: int) -> Iterator[SessionEvent]:
        """Yield the events from seq ``start`` to before ``stop``, all of which are in the log."""

    @overload
    def __getitem__(self, index: int) -> SessionEvent: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[SessionEvent]: ...
    def __getitem__(self, index: int | slice) -> SessionEvent | Sequence[SessionEvent]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return tuple(self._between(self.first_seq + start, self.first_seq + stop))
            return tuple(self[position] for position in range(start, stop, step))
        position = index if index >= 0 else index + len(self)
        if not 0 <= position < len(self):
            raise IndexError(index)
        seq = self.first_seq + position
        return next(self._between(seq, seq + 1))


class EventRun(EventLog):
    """Events held in memory, all of them decoded to their envelopes."""

    def __init__(self, events: Iterable[SessionEvent] = (), *, first_seq: int = 0) -> None:
        """``first_seq`` counts only while there are no events."""
        self._events = tuple(events)
        self._first_seq = self._events[0].seq if self._events else first_seq

    @property
    def first_seq(self) -> int:  # as in EventLog
        return self._first_seq

    def __len__(self) -> int:
        return len(self._events)

    @overload
    def __getitem__(self, index: int) -> SessionEvent: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[SessionEvent]: ...
    def __getitem__(self, index: int | slice) -> SessionEvent | Sequence[SessionEvent]:
        return self._events[index]

    def __iter__(self) -> Iterator[SessionEvent]:
        return iter(self._events)


def is_human(message: object) -> bool:
    """Tell whether a user message came from the human and not from a harness (source kind ``user``)."""
    if not isinstance(message, dict):
        return False
    source = cast("dict[str, Any]", message).get("source")
    return isinstance(source, dict) and cast("dict[str, Any]", source).get("kind") == "user"
