"""Messages that are not tool results, and images taken out of them (FORMAT §6, GENERATIONS §4, §5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._event import Replace, SessionEvent
from ._messages import add_offloads
from ._rules_check import count, earlier, is_count, is_record, items, record, refuse
from ._rules_compaction import open_compaction
from ._rules_content import check_message, check_stream, check_system_content
from ._rules_place import place
from ._rules_tools import announced
from ._rules_turns import in_step

if TYPE_CHECKING:
    from ._log_state import LogState


def system_message(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """The system prompt lies in the step it names; the first surface node, if it is one, is protected."""
    in_step(state, event, data)
    _, content = check_message(event, data.get("message"), role="system", source="system-prompt")
    check_system_content(event, content)
    place(state, event)


def developer_message(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """A developer message lies in the step it names; tools it adds are defined in the request header it names."""
    in_step(state, event, data)
    _, content = check_message(event, data.get("message"), role="developer")
    added = [block["toolName"] for block in content if is_record(block) and block.get("type") == "tool-addition"]
    if not added and "headerSeq" in data:
        refuse(event, "it adds no tool; leave headerSeq out")
    if added:
        seq = earlier(event, data.get("headerSeq"), "headerSeq")
        offered = state.facts.offered.get(seq)
        if offered is None:
            refuse(event, f"its headerSeq is {seq}, which is no request/header")
        for name in added:
            if name not in offered:
                refuse(event, f"tool {name!r} is not defined exactly once in the request/header at {seq}")
    place(state, event)


def user_message(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """A user message may stand anywhere; a compaction's checkpoint replaces only while that compaction is open."""
    message, content = check_message(event, data, role="user")
    kind = message["source"]["kind"]
    if isinstance(event.surface_op, Replace) and kind == "compact-checkpoint":
        open_compaction(state, event, message["source"])
    place(state, event, content)
    if kind == "user":
        state.facts.humans.add(event.seq)


def assistant_message(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """A reply lies in the step it names, keeps its stream, and announces each of its tool calls once."""
    in_step(state, event, data)
    if event.source_event_seqs is not None:
        refuse(event, "it cites sources; its stream replaces them")
    _, content = check_message(event, data.get("message"), role="assistant", source="model")
    check_stream(event, data.get("stream"))
    calls = announced(state, event, data, content)
    place(state, event)
    state.calls.update(calls)


def attempt(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """An attempt that brought no message lies in the step it names and keeps its stream."""
    in_step(state, event, data)
    check_stream(event, data.get("stream"))


def image_offload(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """Images leave messages on the surface, each once."""
    targets = items(event, data.get("targets"), "targets")
    if not targets or len(data) != 1:
        refuse(event, "its data is a list of targets and nothing else")
    taken: dict[int, set[int]] = {}
    for value in targets:
        target = record(event, value, "target")
        if set(target) != {"seq", "imageIndexes"}:
            refuse(event, "each target has a seq and imageIndexes, and nothing else")
        seq = count(event, target["seq"], "target's seq")
        indexes = items(event, target["imageIndexes"], "imageIndexes")
        if seq in taken or not indexes:
            refuse(event, f"it names message {seq} twice or without an image")
        if not all(map(is_count, indexes)) or sorted(set(indexes)) != indexes:
            refuse(event, "its imageIndexes do not increase")
        if not state.facts.images.get(seq, set()).issuperset(indexes):
            refuse(event, f"the message at {seq} does not hold all the images {indexes}")
        taken[seq] = set(indexes)
    for seq, gone in taken.items():
        state.facts.images[seq] -= gone
    add_offloads(state.offloads, data)
