"""What a log means so far: open turn and step, unsettled calls, the surface (FORMAT §5, §6; GENERATIONS §5).

Each rule checks first and applies afterwards, so a refused event leaves the state as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from . import generations
from ._event import Replace, SessionEvent
from ._surface import Surface
from .errors import EventRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCall:
    """A tool call that an assistant message announced and no result has settled."""

    call_id: str
    name: str
    arguments: str
    """The model's own text, which need not be valid JSON."""
    turn: int
    step: int
    started_seq: int | None = None
    """The seq of its ``tool/call``; None while it has not been started."""


class LogState:
    """The fold of a log, event by event.

    ``feed`` is how a stored log and a live session both arrive at it. The rules are those that make a harness refuse
    the whole log; what is merely unusual passes.
    """

    def __init__(self, first_seq: int = 0) -> None:
        self.next_seq = first_seq
        self.turn: int | None = None
        """The open turn."""
        self.last_turn = 0
        self.step: int | None = None
        """The open step of the open turn."""
        self.last_step = 0
        self.calls: dict[str, PendingCall] = {}
        """Unsettled calls by id, in the order their message announced them."""
        self.surface = Surface()
        self.last_type: str | None = None
        self.last_time = 0
        self.request_header_seq: int | None = None
        """The seq of the request header in force."""
        self.request_context_seq: int | None = None
        """The seq of the last request context."""

    def feed_all(self, events: Iterable[SessionEvent]) -> None:
        """Feed events in order. Raises ``EventRefused`` at the first that breaks a rule."""
        for event in events:
            # Data that no rule reads stays bytes: it may be nested deeper than Python decodes.
            try:
                data = event.data if event.type in self._rules else None
            except ValueError as error:
                raise EventRefused(event.type, f"its data is no JSON: {error}", seq=event.seq) from None
            self.feed(event, data)

    def feed(self, event: SessionEvent, data: Any) -> None:
        """Check ``event``, whose decoded data is ``data``, against all rules, then take it in.

        Raises ``EventRefused``.
        """
        if event.seq != self.next_seq:
            raise EventRefused(event.type, f"the log goes on with seq {self.next_seq}", seq=event.seq)
        _check_envelope(event)
        if rule := self._rules.get(event.type):
            if not isinstance(data, Mapping):
                raise EventRefused(event.type, "its data is no object", seq=event.seq)
            try:
                rule(self, event, cast("Mapping[str, Any]", data))
            except (AttributeError, KeyError, TypeError) as error:
                raise EventRefused(event.type, f"its data lacks or distorts {error}", seq=event.seq) from None
        self.next_seq += 1
        self.last_type = event.type
        self.last_time = event.time

    # Rules, one per type. Each raises before it changes anything.

    def _turn_start(self, event: SessionEvent, data: Mapping[str, Any]) -> None:
        if self.turn is not None:
            raise EventRefused(event.type, f"turn {self.turn} is still open", seq=event.seq)
        _expect(event, "turn", data["turn"], self.last_turn + 1)
        self.turn = self.last_turn = data["turn"]
        self.last_step = 0

    def _turn_end(self, event: SessionEvent, data: Mapping[str, Any]) -> None:
        self._in_turn(event, data)
        if self.step is not None:
            raise EventRefused(event.type, f"step {self.step} is still open", seq=event.seq)
        if not isinstance(data["reason"].get("kind"), str):
            raise EventRefused(event.type, "its reason has no kind", seq=event.seq)
        self.turn = None

    def _step_start(self, event: SessionEvent, data: Mapping[str, Any]) -> None:
        self._in_turn(event, data)
        if self.step is not None:
            raise EventRefused(event.type, f"step {self.step} is still open", seq=event.seq)
        _expect(event, "step", data["step"], self.last_step + 1)
        self.step = self.last_step = data["step"]

    def _step_end(self, event: SessionEvent, data: Mapping[str, Any]) -> None:
        self._in_step(event, data)
        if self.calls:
            raise EventRefused(event.type, f"calls {', '.join(self.calls)} have no result", seq=event.seq)
        self.step = None

    def _request(self, event: SessionEvent, data: Mapping[str, Any]) -> None:
        if self.turn is None:
            raise EventRefused(event.type, "no turn is open", seq=event.seq)
        if event.type == "request/header":
            header = data["header"]
            if "system" in header:
                raise EventRefused(event.type, "its header holds a system prompt; that is a message now", seq=event.seq)
            if header.get("tools") == []:
                raise EventRefused(event.type, "its tools are empty; leave them out", seq=event.seq)
            for key in ("provider", "model"):
                if not header["config"][key]:
                    raise EventRefused(event.type, f"its config names no {key}", seq=event.seq)
            self.request_header_seq = event.seq
        else:
            self.request_context_seq = event.seq

    def _attempt(self, event: SessionEvent, data: Mapping[str, Any]) -> None:
        self._in_step(event, data)
        if not isinstance(data["stream"], list):
            raise EventRefused(event.type, "its stream is no list", seq=event.seq)

    def _system_message(self, event: SessionEvent, data: Mapping[str, Any]) -> None:
        self._in_step(event, data)
        _check_message(event, data["message"], role="system", sources={"system-prompt"})
        self.surface.take(event, head=True)

    def _developer_message(self, event: SessionEvent, data: Mapping[str, Any]) -> None:
        self._in_step(event, data)
        _check_message(event, data["message"], role="developer")
        self.surface.take(event)

    def _user_message(self, event: SessionEvent, data: Mapping[str, Any]) -> None:
        _check_message(event, data, role="user")
        self.surface.take(event)

    def _assistant_message(self, event: SessionEvent, data: Mapping[str, Any]) -> None:
        self._attempt(event, data)
        if event.source_event_seqs is not None:
            raise EventRefused(event.type, "it cites sources; its stream replaces them", seq=event.seq)
        message = data["message"]
        _check_message(event, message, role="assistant", sources={"model"})
        calls: dict[str, PendingCall] = {}
        for block in message["content"]:
            if block["type"] == "tool-call":
                call_id = block["id"]
                if call_id in calls or call_id in self.calls:
                    raise EventRefused(event.type, f"it announces call {call_id!r} twice", seq=event.seq)
                calls[call_id] = PendingCall(
                    call_id=call_id,
                    name=block["name"],
                    arguments=block["arguments"],
                    turn=data["turn"],
                    step=data["step"],
                )
        self.surface.take(event)
        self.calls.update(calls)

    def _tool_call(self, event: SessionEvent, data: Mapping[str, Any]) -> None:
        self._in_step(event, data)
        call = self.calls.get(data["callId"])
        if call is None:
            raise EventRefused(event.type, f"no message of this step announces {data['callId']!r}", seq=event.seq)
        if call.started_seq is not None:
            raise EventRefused(
                event.type, f"call {call.call_id!r} started before, at {call.started_seq}", seq=event.seq
            )
        if (data["name"], data["arguments"]) != (call.name, call.arguments):
            raise EventRefused(event.type, f"call {call.call_id!r} differs from its announcement", seq=event.seq)
        self.calls[call.call_id] = PendingCall(
            call_id=call.call_id,
            name=call.name,
            arguments=call.arguments,
            turn=call.turn,
            step=call.step,
            started_seq=event.seq,
        )

    def _tool_result(self, event: SessionEvent, data: Mapping[str, Any]) -> None:
        message = data["message"]
        _check_message(event, message, role="tool", sources={"tool"})
        call_id = message["toolCallId"]
        if message["source"]["callId"] != call_id:
            raise EventRefused(event.type, "its source and its message name different calls", seq=event.seq)
        if "error" in data and message.get("isError") is not True:
            raise EventRefused(event.type, "it carries an error without isError", seq=event.seq)
        if isinstance(event.surface_op, Replace):
            self.surface.take(event)
            return
        self._in_step(event, data)
        call = self.calls.get(call_id)
        if call is None:
            raise EventRefused(event.type, f"no call {call_id!r} waits for a result", seq=event.seq)
        error: Mapping[str, Any] = data.get("error") or {}
        if call.started_seq is None and error.get("code") != "TOOL_NOT_STARTED":
            raise EventRefused(event.type, f"call {call_id!r} has not started", seq=event.seq)
        self.surface.take(event)
        del self.calls[call_id]

    def _in_turn(self, event: SessionEvent, data: Mapping[str, Any]) -> None:
        if self.turn is None:
            raise EventRefused(event.type, "no turn is open", seq=event.seq)
        _expect(event, "turn", data["turn"], self.turn)

    def _in_step(self, event: SessionEvent, data: Mapping[str, Any]) -> None:
        self._in_turn(event, data)
        if self.step is None:
            raise EventRefused(event.type, "no step is open", seq=event.seq)
        _expect(event, "step", data["step"], self.step)

    _rules: ClassVar[dict[str, Callable[[LogState, SessionEvent, Mapping[str, Any]], None]]] = {
        "turn/start": _turn_start,
        "turn/end": _turn_end,
        "step/start": _step_start,
        "step/end": _step_end,
        "request/header": _request,
        "request/context": _request,
        "assistant/attempt": _attempt,
        "system/message": _system_message,
        "developer/message": _developer_message,
        "user/message": _user_message,
        "assistant/message": _assistant_message,
        "tool/call": _tool_call,
        "tool/result": _tool_result,
    }


def _expect(event: SessionEvent, name: str, found: object, expected: int) -> None:
    if found != expected or isinstance(found, bool):
        raise EventRefused(event.type, f"{name} {expected} is due, it names {found!r}", seq=event.seq)


def _check_envelope(event: SessionEvent) -> None:
    """FORMAT §1.1: who may carry a surface operation, sources and the ignorable mark."""
    known = event.type in generations.KNOWN_TYPES
    if not known and not _is_text(event.type):
        raise EventRefused(event.type, "the type holds half a surrogate pair, which no log can", seq=event.seq)
    if not known and not event.ignorable:
        raise EventRefused(event.type, "the type is unknown; own types are named plugin:<ns>/<name>", seq=event.seq)
    if event.type in generations.SURFACE_TYPES:
        if event.surface_op is None:
            raise EventRefused(event.type, "it needs a surface operation, 'append' or a replacement", seq=event.seq)
    elif known and event.surface_op is not None:
        raise EventRefused(event.type, "a surface operation is only for messages and tool results", seq=event.seq)
    if event.source_event_seqs is not None and known:
        _check_sources(event, event.source_event_seqs)


def _is_text(type: str) -> bool:
    try:
        type.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_sources(event: SessionEvent, sources: tuple[int, ...]) -> None:
    if event.type not in generations.SURFACE_TYPES:
        raise EventRefused(event.type, "sources are only for messages and tool results", seq=event.seq)
    if not sources:
        raise EventRefused(event.type, "its sources are empty; leave them out", seq=event.seq)
    if len(set(sources)) != len(sources) or not all(0 <= seq < event.seq for seq in sources):
        raise EventRefused(event.type, "its sources are not distinct earlier seqs", seq=event.seq)


def _check_message(
    event: SessionEvent, message: Mapping[str, Any], *, role: str, sources: set[str] | None = None
) -> None:
    """FORMAT §4.4 and GENERATIONS §5: the shape without which the whole log is refused."""
    if message["role"] != role:
        raise EventRefused(event.type, f"its role is {message['role']!r}, not {role!r}", seq=event.seq)
    if not message["id"] or not isinstance(message["id"], str):
        raise EventRefused(event.type, "its message has no id", seq=event.seq)
    if not isinstance(message["content"], list):
        raise EventRefused(event.type, "its content is no list of blocks", seq=event.seq)
    kind = message["source"]["kind"]
    if not kind or not isinstance(kind, str) or kind == "plugin":
        raise EventRefused(event.type, f"its source kind is {kind!r}", seq=event.seq)
    if sources is not None and kind not in sources:
        raise EventRefused(event.type, f"its source kind is {kind!r}, not {', '.join(sources)}", seq=event.seq)
    if kind == "model" and not (message["source"]["provider"] and message["source"]["model"]):
        raise EventRefused(event.type, "its source names no provider and model", seq=event.seq)
