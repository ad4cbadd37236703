"""Tool calls, their results, and calls that tools make (FORMAT §5, GENERATIONS §5, §8)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ._event import Replace, SessionEvent
from ._facts import Dispatch
from ._json import MAX_INTEGER
from ._pending import NOT_STARTED_TEXT, PendingCall
from ._rules_check import get, is_record, record, refuse, same, text
from ._rules_content import check_content, check_message
from ._rules_place import place
from ._rules_turns import in_step, require_turn

if TYPE_CHECKING:
    from ._log_state import LogState

_SEQ = re.compile(r"0|[1-9][0-9]*")


def announced(
    state: LogState, event: SessionEvent, data: Mapping[str, Any], content: list[Any]
) -> dict[str, PendingCall]:
    """Return the calls that a reply announces, by id."""
    calls: dict[str, PendingCall] = {}
    for value in content:
        block = record(event, value, "content block")
        if block.get("type") != "tool-call":
            continue
        call_id = text(event, block.get("id"), "tool call's id")
        if call_id in calls or call_id in state.calls:
            refuse(event, f"it announces call {call_id!r} twice")
        name, arguments = block.get("name"), block.get("arguments")
        if name is None or arguments is None:
            refuse(event, f"call {call_id!r} lacks its name or its arguments, and no harness survives that")
        calls[call_id] = PendingCall(
            call_id=call_id,
            name=name,
            arguments=arguments,
            turn=data["turn"],
            step=data["step"],
        )
    return calls


def tool_call(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """A call starts once, in the step that announced it, with the announced name and arguments."""
    in_step(state, event, data)
    call = state.calls.get(text(event, data.get("callId"), "callId"))
    if call is None:
        refuse(event, f"no message of this step announces {data['callId']!r}")
    if call.started_seq is not None:
        refuse(event, f"call {call.call_id!r} started before, at {call.started_seq}")
    if not same(get(data, "name"), call.name) or not same(get(data, "arguments"), call.arguments):
        refuse(event, f"call {call.call_id!r} differs from its announcement")
    state.calls[call.call_id] = msgspec.structs.replace(call, started_seq=event.seq)


def tool_result(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """A result settles one started call of the open step, or says exactly that it never started."""
    message, _ = check_message(event, data.get("message"), role="tool", source="tool")
    call_id = text(event, message.get("toolCallId"), "toolCallId")
    if message["source"].get("callId") != call_id:
        refuse(event, "its source and its message name different calls")
    if not isinstance(message.get("isError", False), bool):
        refuse(event, "its isError is not true or false")
    if "error" in data and message.get("isError") is not True:
        refuse(event, "it carries an error without isError")
    _check_forked(event, data, message, call_id)
    rest = _digest_rest(data, message)
    if isinstance(event.surface_op, Replace):
        _check_rewrite(state, event, rest)
    else:
        in_step(state, event, data)
        call = state.calls.get(call_id)
        if call is None:
            refuse(event, f"no call {call_id!r} waits for a result")
        if call.started_seq is None and not _says_not_started(event, data, message, call_id):
            refuse(event, f"call {call_id!r} has not started")
    place(state, event, message["content"])
    state.facts.results[event.seq] = rest
    if not isinstance(event.surface_op, Replace):
        del state.calls[call_id]


def _check_rewrite(state: LogState, event: SessionEvent, rest: bytes) -> None:
    """A replacing result needs an open turn and differs from the one result it replaces in content only."""
    require_turn(state, event)
    covered = state.surface.check(event)
    if len(covered) != 1 or covered[0] not in state.facts.results:
        refuse(event, "a result replaces exactly one result")
    if state.facts.results[covered[0]] != rest:
        refuse(event, f"it differs from the result at {covered[0]} in more than its content")


def _digest_rest(data: Mapping[str, Any], message: Mapping[str, Any]) -> bytes:
    rest = {**data, "message": {**message, "content": None}}
    try:
        encoded = msgspec.json.encode(rest, order="sorted")
    except UnicodeEncodeError:
        encoded = json.dumps(rest, sort_keys=True).encode()
    return hashlib.blake2b(encoded, digest_size=16).digest()


def _says_not_started(event: SessionEvent, data: Mapping[str, Any], message: Mapping[str, Any], call_id: str) -> bool:
    """Tell whether a result is the one that stands for a call that never started."""
    error = data.get("error")
    if not is_record(error) or event.source_event_seqs is not None:
        return False
    if error.get("name") != "ToolNotStartedError" or error.get("code") != "TOOL_NOT_STARTED":
        return False
    id: str = message["id"]
    if id.startswith(f"forked-tool-result-{call_id}-"):
        return True
    prefix, content = f"interrupted-tool-result-{call_id}-", message["content"]
    return (
        id.startswith(prefix)
        and _is_seq(id.removeprefix(prefix))
        and len(content) == 1
        and is_record(content[0])
        and (content[0].get("type"), content[0].get("text")) == ("text", NOT_STARTED_TEXT)
    )


def _check_forked(event: SessionEvent, data: Mapping[str, Any], message: Mapping[str, Any], call_id: str) -> None:
    """Check the result with which a fork stands in for a call that never started: its id names its own seq.

    One that replaces it keeps the id, and cites that seq alone.
    """
    error, id = data.get("error"), message["id"]
    if not is_record(error) or error.get("code") != "TOOL_NOT_STARTED" or not id.startswith("forked-tool-result-"):
        return
    prefix, content = f"forked-tool-result-{call_id}-", message["content"]
    suffix = id.removeprefix(prefix)
    whole = id.startswith(prefix) and _is_seq(suffix) and error.get("name") == "ToolNotStartedError"
    if whole and isinstance(event.surface_op, Replace):
        whole = int(suffix) < event.seq and event.source_event_seqs == (int(suffix),)
    elif whole:
        whole = int(suffix) == event.seq and event.source_event_seqs is None
    block = content[0] if len(content) == 1 else None
    if not whole or not is_record(block) or block.get("type") != "text" or not isinstance(block.get("text"), str):
        refuse(event, "it is no well-formed result of a call that had not started where the fork was made")


def _is_seq(text: str) -> bool:
    return _SEQ.fullmatch(text) is not None and int(text) <= MAX_INTEGER


def dispatch_start(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """A tool's own call starts in a turn, once, below the call it names as its parent."""
    id, root = _dispatch_place(state, event, data)
    if id in state.facts.dispatches:
        refuse(event, f"call {id!r} started before")
    started = (root, data["parentCallId"], get(data, "name"), get(data, "arguments"))
    state.facts.dispatches[id] = Dispatch(root=root, started=started)


def dispatch(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """A tool's own call ends once, as it started."""
    id, root = _dispatch_place(state, event, data)
    check_content(event, data.get("content"))
    known = state.facts.dispatches.get(id)
    if known is None or known.settled:
        refuse(event, f"no call {id!r} of a tool is under way")
    if known.started != (root, data["parentCallId"], get(data, "name"), get(data, "arguments")):
        refuse(event, f"call {id!r} differs from its start")
    known.settled = True


def _dispatch_place(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> tuple[str, str]:
    require_turn(state, event)
    id, root, parent = (text(event, data.get(key), key) for key in ("subCallId", "rootCallId", "parentCallId"))
    known, above = state.facts.dispatches.get(id), state.facts.dispatches.get(parent)
    if known is not None and known.root != root:
        refuse(event, f"call {id!r} belongs to {known.root!r}")
    if parent != root and (above is None or above.root != root):
        refuse(event, f"its parent {parent!r} does not belong to {root!r}")
    return id, root
