"""The seeded content of the logs: whole turns that `EventLog.validate` and a harness accept."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from dsh_session import SessionEvent, encode_data

TURN_EVENTS = 400
TURN_SURFACE_EVENTS = 4
"""A prompt, a reply with a tool call, its result, a reply; the first turn has a system prompt instead of the call."""
BEGUN_AT = 1_760_000_000_000

_LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
_LENGTHS = (1, 2, 3, 4, 5, 6, 7, 9)


class Story:
    """Turns of two steps: a prompt, attempts and progress records, a tool call, more records, a reply."""

    def __init__(self, *, seed: int) -> None:
        self._random = random.Random(seed)
        weights = range(len(_LETTERS), 0, -1)
        words = ["".join(self._random.choices(_LETTERS, weights, k=size)) for size in _LENGTHS * 500]
        self._pieces = [" ".join(self._random.choices(words, k=6)) + " " for _ in range(20_000)]
        self._time = BEGUN_AT
        self._next_seq = 0

    def events(self, count: int, *, turn_events: int = TURN_EVENTS) -> Iterator[SessionEvent]:
        """Yield ``count`` events, a whole number of turns."""
        for turn in range(1, count // turn_events + 1):
            yield from self._turn(turn, turn_events)

    def _turn(self, turn: int, size: int) -> Iterator[SessionEvent]:
        first = turn == 1
        records = size - (10 if first else 11)
        place = {"turn": turn, "step": 1}
        yield self._event("turn/start", {"turn": turn})
        yield self._event("step/start", place)
        if first:
            prompt = self._message("system", {"kind": "system-prompt"}, pieces=40)
            yield self._event("system/message", {**place, "message": prompt}, surface=True)
        yield self._event("user/message", self._message("user", {"kind": "user"}), surface=True)
        yield from self._records(place, records // 2)
        if first:
            yield self._reply(place)
        else:
            yield from self._call(place)
        yield self._event("step/end", place)
        place = {"turn": turn, "step": 2}
        yield self._event("step/start", place)
        yield from self._records(place, records - records // 2)
        yield self._reply(place)
        yield self._event("step/end", place)
        yield self._event("turn/end", {"turn": turn, "reason": {"kind": "completed"}})

    def _records(self, place: dict[str, int], count: int) -> Iterator[SessionEvent]:
        """Yield what a log holds most of, none of it conversation: attempts, and the records of a plugin."""
        for number in range(count):
            if number % 5 < 3:
                yield self._event("assistant/attempt", {**place, "stream": [self._stream()]})
            else:
                data = {**place, "done": number, "of": count, "note": self._text(self._random.randint(4, 11))}
                yield self._event("plugin:bench/progress", data)

    def _call(self, place: dict[str, int]) -> Iterator[SessionEvent]:
        call_id = f"call_{self._next_seq}"
        call = {"name": "bash", "arguments": '{"command":"make check"}'}
        block = {"type": "tool-call", "id": call_id, **call}
        yield self._reply(place, block)
        started = self._event("tool/call", {**place, "callId": call_id, **call})
        yield started
        message = {**self._message("tool", {"kind": "tool", "callId": call_id}, pieces=30), "toolCallId": call_id}
        yield self._event("tool/result", {**place, "message": message}, surface=True, sources=(started.seq,))

    def _reply(self, place: dict[str, int], *blocks: dict[str, Any]) -> SessionEvent:
        message = self._message("assistant", {"kind": "model", "provider": "bench", "model": "bench"})
        message["content"] += blocks
        return self._event("assistant/message", {**place, "message": message, "stream": [self._stream()]}, surface=True)

    def _message(self, role: str, source: dict[str, Any], *, pieces: int = 8) -> dict[str, Any]:
        content = [{"type": "text", "text": self._text(pieces)}]
        return {"role": role, "content": content, "source": source, "id": f"{role}-{self._next_seq}"}

    def _stream(self) -> dict[str, Any]:
        count = self._random.randint(4, 7)
        gaps = [self._random.randint(3, 80) for _ in range(count - 1)]
        texts = self._random.choices(self._pieces, k=count)
        return {"type": "text-chunks", "time0": self._time, "index": 0, "dt": gaps, "texts": texts}

    def _text(self, pieces: int) -> str:
        return "".join(self._random.choices(self._pieces, k=pieces))

    def _event(
        self, type: str, data: dict[str, Any], *, surface: bool = False, sources: tuple[int, ...] | None = None
    ) -> SessionEvent:
        self._time += self._random.randint(1, 400)
        event = SessionEvent(
            type=type,
            seq=self._next_seq,
            time=self._time,
            encoded=encode_data(type, data),
            source_event_seqs=sources,
            surface_op="append" if surface else None,
            ignorable=type.startswith("plugin:"),
        )
        self._next_seq += 1
        return event
