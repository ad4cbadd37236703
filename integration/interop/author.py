"""Conversations written event by event through ``Session``, without a model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dsh_persistence import LogStore, SessionPersistence
from dsh_session import Replace, Session, SessionEvent

MODEL = {"kind": "model", "provider": "deepseek-official", "model": "deepseek-v4-flash"}


def text(*parts: str) -> list[dict[str, Any]]:
    """Return text blocks."""
    return [{"type": "text", "text": part} for part in parts]


@dataclass(slots=True)
class Author:
    """Appends what a harness would have appended."""

    session: Session
    step: int = field(default=0, init=False)

    def open(self, prompt: str = "Hello.", *, system: str = "Be brief.") -> Author:
        """Open a turn and its first step; a log begins with its system message."""
        self._append("turn/start", turn=self.session.state.last_turn + 1)
        self.step = 1
        self._append("step/start", **self._place)
        if not len(self.session.state.surface.nodes):
            self.system(system)
        self.user(prompt)
        if self.session.state.request_header_seq is None:
            config = {"provider": MODEL["provider"], "model": MODEL["model"]}
            self._append("request/header", header={"config": config}, reason="initial")
        return self

    def next_step(self) -> Author:
        """Close the step and open the next one."""
        self._append("step/end", **self._place)
        self.step += 1
        self._append("step/start", **self._place)
        return self

    def close(self, kind: str = "completed") -> Author:
        """Close the step and the turn."""
        self._append("step/end", **self._place)
        self._append("turn/end", turn=self.session.state.turn, reason={"kind": kind})
        return self

    def turn(self, prompt: str = "Hello.", answer: str = "Hello to you.") -> Author:
        """Write one whole turn of text."""
        self.open(prompt).say(answer)
        return self.close()

    def system(self, words: str, *, op: Replace | None = None) -> SessionEvent:
        message = self._message("system", {"kind": "system-prompt"}, text(words))
        return self._surface("system/message", {**self._place, "message": message}, op)

    def user(self, words: str, *, op: Replace | None = None, source: dict[str, Any] | None = None) -> SessionEvent:
        return self._surface("user/message", self._message("user", source or {"kind": "user"}, text(words)), op)

    def say(self, words: str, *calls: tuple[str, str], stream: Sequence[dict[str, Any]] = ()) -> SessionEvent:
        """Append an assistant message with calls of ``bash``, each an id and its arguments."""
        blocks = [
            *(text(words) if words else []),
            *({"type": "tool-call", "id": id, "name": "bash", "arguments": arguments} for id, arguments in calls),
        ]
        message = self._message("assistant", MODEL, blocks)
        return self._surface("assistant/message", {**self._place, "message": message, "stream": list(stream)})

    def start(self, id: str, arguments: str) -> SessionEvent:
        """Append the start of a call."""
        return self._append("tool/call", **self._place, callId=id, name="bash", arguments=arguments)

    def result(self, id: str, words: str, *, op: Replace | None = None, failed: bool = False) -> SessionEvent:
        """Append, or replace, the result of a call."""
        message = self._message("tool", {"kind": "tool", "callId": id}, text(words)) | {"toolCallId": id}
        if failed:
            message["isError"] = True
        return self._surface("tool/result", {**self._place, "message": message}, op)

    def shell(self, id: str, output: str, *, arguments: str = '{"command":"true","description":"d"}') -> Author:
        """Write a step in which the model calls the shell once."""
        self.say("I will look.", (id, arguments))
        self.start(id, arguments)
        self.result(id, output)
        return self

    def note(self, type: str, **data: Any) -> SessionEvent:
        """Append an event that is no part of the conversation."""
        return self._append(type, **data)

    @property
    def _place(self) -> dict[str, Any]:
        return {"turn": self.session.state.turn, "step": self.step}

    def _message(self, role: str, source: dict[str, Any], content: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "role": role,
            "content": content,
            "source": source,
            "id": f"m-{self.session.id}-{self.session.next_seq}",
        }

    def _append(self, type: str, **data: Any) -> SessionEvent:
        return self.session.append(type, data)

    def _surface(self, type: str, data: dict[str, Any], op: Replace | None = None) -> SessionEvent:
        cited = None
        if op is not None:
            nodes = self.session.state.surface.nodes
            cited = nodes[nodes.index(op.start_seq) : nodes.index(op.end_seq) + 1]
        return self.session.append(type, data, surface_op=op or "append", source_event_seqs=cited)


def keep(store: LogStore, *sessions: Session) -> None:
    """Make sessions durable in a store."""

    async def run() -> None:
        async with SessionPersistence(store) as persistence:
            for session in sessions:
                persistence.attach(session)
            await persistence.flush()

    asyncio.run(run())


def go_on(store: LogStore, session_id: str) -> None:
    """Resume a stored session and add one turn."""

    async def run() -> None:
        async with SessionPersistence(store) as persistence:
            session = await persistence.resume(session_id)
            Author(session).turn("And now?", "Now we have gone on.")
            await persistence.detach(session)

    asyncio.run(run())
