"""What ``dshpy run`` tells while it runs, and how programs read it: lines of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from dsh_agent import ModelAdapter, ModelRequest
from dsh_session import SessionEvent, StreamChunk, encode_event

from ._text import say


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """The session is there."""

    session_id: str
    cwd: str | None
    origin: Mapping[str, Any]
    """Where it comes from, when it is not new."""
    from_seq: int
    """The seq of the first event that is told."""
    events: Sequence[SessionEvent]
    """Those from there on that have been appended already, such as what closes a fork's history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something beside the log."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The turn of the task has ended."""

    reason: Mapping[str, Any]
    feedback: str = ""
    """Why the task was kept from the model, where it was."""


Told: TypeAlias = Began | SessionEvent | StreamChunk | Notice | Ended
"""A chunk is part of a message whose event follows."""


class Report:
    """Passes on what happens, until that cannot be written any more."""

    def __init__(self, tell: Callable[[Told], None], on_failure: Callable[[], None]) -> None:
        self.failure: OSError | None = None
        self._tell = tell
        self._on_failure = on_failure

    def __call__(self, told: Told) -> None:
        """Tell it; ``on_failure`` is called once, when that fails."""
        if self.failure is not None:
            return
        try:
            self._tell(told)
        except OSError as error:
            self.failure = error
            self._on_failure()


class OverheardModel:
    """A model whose chunks are told as they come."""

    def __init__(self, model: ModelAdapter, hear: Callable[[StreamChunk], None]) -> None:
        self._model = model
        self._hear = hear

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamChunk]:
        """Yield what the model yields."""
        async for chunk in self._model.stream(request):
            self._hear(chunk)
            yield chunk


def tell_as_json(told: Told) -> None:
    """Write a line of JSON, at once: who the session is, each event as ``cat`` prints it, how the turn ended."""
    match told:
        case SessionEvent():
            line = encode_event(told)
        case Began():
            facts = {"session_id": told.session_id, "cwd": told.cwd, **told.origin, "from_seq": told.from_seq}
            line = _json_line(facts) + b"".join(map(encode_event, told.events))
        case Ended():
            line = _json_line({"end": dict(told.reason)} | ({"feedback": told.feedback} if told.feedback else {}))
        case Notice():
            say(told.text)
            return
        case _:
            return
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def _json_line(value: Mapping[str, Any]) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace") + b"\n"
