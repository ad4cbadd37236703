"""The surface: which events are the conversation, in which order (FORMAT §6, GENERATIONS §4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ._event import Replace, SessionEvent
from .errors import EventRefused


class Surface:
    """The list of nodes that appends and replacements leave behind; a node is the seq of a surface event.

    Order is position, not seq: a replacement stands where the nodes it replaced stood.
    """

    def __init__(self) -> None:
        self.nodes: list[int] = []
        self._position: dict[int, int] = {}
        self._types: dict[int, str] = {}
        self._has_head = False

    def take(self, event: SessionEvent, *, head: bool = False) -> None:
        """Apply the event's surface operation. Raises ``EventRefused`` before anything changes.

        ``head`` says that the event is a system message: the first node, if it is one, is protected, and only a
        system message that covers exactly it may take its place (GENERATIONS §4.1).
        """
        if isinstance(event.surface_op, Replace):
            self._replace(event, event.surface_op, head=head)
            return
        if head and self.nodes and not self._has_head:
            raise EventRefused(
                event.type, "the first surface node is no system message, so none may follow", seq=event.seq
            )
        if not self.nodes:
            self._has_head = head
        self._position[event.seq] = len(self.nodes)
        self._types[event.seq] = event.type
        self.nodes.append(event.seq)

    def _replace(self, event: SessionEvent, op: Replace, *, head: bool) -> None:
        start, end = self._position.get(op.start_seq), self._position.get(op.end_seq)
        if start is None or end is None or start > end:
            raise EventRefused(
                event.type, f"seqs {op.start_seq} to {op.end_seq} are no span of the surface", seq=event.seq
            )
        if self._has_head and start == 0 and not (head and end == 0):
            raise EventRefused(event.type, "only a system message may replace the first one, and alone", seq=event.seq)
        shadowed = self.nodes[start : end + 1]
        if not set(shadowed) <= set(event.source_event_seqs or ()):
            raise EventRefused(event.type, "it does not cite every node it replaces", seq=event.seq)
        if event.type == "tool/result" and [self._types[seq] for seq in shadowed] != ["tool/result"]:
            raise EventRefused(event.type, "a result replaces exactly one result", seq=event.seq)
        self.nodes[start : end + 1] = [event.seq]
        for seq in shadowed:
            del self._position[seq], self._types[seq]
        self._types[event.seq] = event.type
        for position in range(start, len(self.nodes)):
            self._position[self.nodes[position]] = position

    def messages(self, data_of: Callable[[int], tuple[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Yield the conversation, as a model may receive it: verbatim, nothing merged, empty messages left out.

        ``data_of(seq)`` gives the type and the decoded data of a surface event.
        """
        for seq in self.nodes:
            type, data = data_of(seq)
            message = data if type == "user/message" else data["message"]
            if message["content"] or type in ("user/message", "tool/result"):
                yield message
