"""What waits to be said to an agent: two queues that live in the log (BEHAVIOUR §6.1, FORMAT §8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from dsh_session import Session, SessionEvent

from .errors import MessagePending

Message: TypeAlias = Mapping[str, Any]

Target: TypeAlias = Literal["next-turn", "next-step"]

_SPLICED = "agent/inbox/spliced"


class Inbox:
    """The messages that wait for a turn of their own, and those that enter with the next step, whosever it is.

    Each change is in the log before it is here, so what waits survives whatever ends the process.
    """

    def __init__(self, session: Session) -> None:
        """Take in what the log of ``session`` says; what waited in a fork's parent waits there."""
        self._session = session
        self._queues: dict[Target, list[Message]] = {"next-turn": [], "next-step": []}
        self._taken: dict[str, tuple[Target, Message]] = {}
        """What the last turn claimed, by id, if it was interrupted and nobody has put it back."""
        for event in session.events.of_type(_SPLICED, "turn/start", "turn/end", "session/end-seed"):
            self._recall(event)

    def recover(self) -> None:
        """Let what an interrupted turn had claimed and not yet said wait again, in front.

        A claim becomes durable before its messages enter, so a crash in between would lose what was safe before.
        """
        if not self._taken:
            return
        last = max(event.seq for event in self._session.events.of_type("turn/start"))
        entered = {event.data["id"] for event in self._session.events[last:] if event.type == "user/message"}
        for target in self._queues:
            lost = [message for at, message in self._taken.values() if at == target and message["id"] not in entered]
            if lost:
                self._splice(target, inserted=lost)
        self._taken.clear()

    def waiting(self, target: Target) -> Sequence[Message]:
        """Return what waits there, first in first."""
        return tuple(self._queues[target])

    def __bool__(self) -> bool:
        """Tell whether anything waits."""
        return any(self._queues.values())

    def insert(self, target: Target, *messages: Message, in_front: bool = False) -> None:
        """Let messages wait, behind or before those that do.

        Raises ``MessagePending``, and what ``Session.append`` raises.
        """
        known = {message["id"] for queue in self._queues.values() for message in queue}
        for message in messages:
            if message["id"] in known:
                raise MessagePending(message["id"])
            known.add(message["id"])
        self._splice(target, start=0 if in_front else len(self._queues[target]), inserted=messages)

    def claim(self, *, opens_turn: bool) -> list[Message]:
        """Take out what enters the step that is about to begin: all for a step and, where a turn opens, one for it."""
        claimed: list[Message] = list(self._queues["next-step"])
        if claimed:
            self._splice("next-step", removed=len(claimed))
        if opens_turn and self._queues["next-turn"]:
            claimed.append(self._queues["next-turn"][0])
            self._splice("next-turn", removed=1)
        return claimed

    def withdraw(self, message_id: str) -> bool:
        """Cancel one message; False when it does not wait any more."""
        for target, queue in self._queues.items():
            for position, message in enumerate(queue):
                if message["id"] == message_id:
                    self._splice(target, start=position, removed=1, canceled=True)
                    return True
        return False

    def clear(self) -> list[Message]:
        """Cancel everything and return it."""
        canceled: list[Message] = []
        targets: tuple[Target, ...] = ("next-step", "next-turn")
        for target in targets:
            if queue := list(self._queues[target]):
                self._splice(target, removed=len(queue), canceled=True)
                canceled += queue
        return canceled

    def _splice(
        self,
        target: Target,
        *,
        start: int = 0,
        removed: int = 0,
        inserted: Sequence[Message] = (),
        canceled: bool = False,
    ) -> None:
        data: dict[str, Any] = {"target": target, "start": start}
        if removed:
            data["removedCount"] = removed
        data["inserted"] = list(inserted)
        if canceled:
            data["outcome"] = "canceled"
        self._apply(self._session.append(_SPLICED, data))

    def _recall(self, event: SessionEvent) -> None:
        """Take in an event that was there before."""
        match event.type:
            case "agent/inbox/spliced":
                target: Target = event.data["target"]
                removed = self._apply(event)
                if "outcome" not in event.data:
                    self._taken |= {message["id"]: (target, message) for message in removed}
                for message in event.data["inserted"]:
                    self._taken.pop(message["id"], None)
            case "turn/start":
                self._taken.clear()
            case "turn/end" if event.data["reason"]["kind"] != "interrupted":
                self._taken.clear()
            case "session/end-seed" if event.data.get("inherited") is True:
                self._taken.clear()
                for queue in self._queues.values():
                    queue.clear()
            case _:
                pass

    def _apply(self, event: SessionEvent) -> list[Message]:
        """Change the queue as a splice says, and return what it takes out."""
        data = event.data
        queue, start = self._queues[data["target"]], data["start"]
        place = slice(start, start + data.get("removedCount", 0))
        removed, queue[place] = queue[place], data["inserted"]
        return removed
