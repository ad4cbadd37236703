"""Records beside the conversation: titles, commands, the catalog of children, deliveries, marks (GENERATIONS §5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import generations
from ._event import SessionEvent
from ._rules_check import count, earlier, is_record, items, members, record, refuse, text
from ._rules_content import check_carried, check_content
from .errors import EventRefused

if TYPE_CHECKING:
    from ._log_state import LogState


def title(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """A title cites what the human said; exactly one that the user gave cites nothing."""
    cited = _cited(state, event, data)
    by_user = record(event, data.get("source"), "source").get("kind") == "user"
    if by_user == bool(cited):
        refuse(event, "its messageSeqs are empty exactly when the user gave it")


def title_request(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """A request for a title cites what the human said, and asks with one user message of one text block."""
    check_carried(event, data)
    cited, messages = _cited(state, event, data), items(event, data.get("messages"), "messages")
    message: dict[str, Any] = messages[0] if len(messages) == 1 else {}
    content = members(message.get("content"))
    if (
        not cited
        or message.get("role") != "user"
        or message["source"]["kind"] != "dsh-session-title-llm"
        or [block.get("type") if is_record(block) else None for block in content] != ["text"]
    ):
        refuse(event, "its messages are no title request over its messageSeqs")


def _cited(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> list[int]:
    seqs = [earlier(event, seq, "messageSeqs") for seq in items(event, data.get("messageSeqs"), "messageSeqs")]
    if len(set(seqs)) != len(seqs) or not state.facts.humans.issuperset(seqs):
        refuse(event, "its messageSeqs are not distinct earlier messages of the human")
    return seqs


def command_run(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """Commands have ids of their own."""
    id = text(event, data.get("commandId"), "commandId")
    if id in state.facts.commands:
        refuse(event, f"command {id!r} ran before")
    state.facts.commands.add(id)
    state.facts.command_seqs.add(event.seq)


def command_done(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """What is done has run; a successful one may name the event it caused, which is no command."""
    id = text(event, data.get("commandId"), "commandId")
    if id not in state.facts.commands:
        refuse(event, f"no command {id!r} has run")
    if "sourceEventSeq" in data:
        seq = earlier(event, data["sourceEventSeq"], "sourceEventSeq")
        if data.get("kind") != "success" or seq in state.facts.command_seqs:
            refuse(event, "its sourceEventSeq is that of a command, or it did not succeed")
    state.facts.command_seqs.add(event.seq)


def catalog(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """A session's own catalog names each child once; an inherited part is another session's."""
    facts = state.facts
    try:
        child = _check_child(event, data)
        if child in facts.children:
            refuse(event, f"child {child!r} is in the catalog already")
    except EventRefused as error:
        facts.refuse_own(error)
    else:
        facts.children.add(child)


def _check_child(event: SessionEvent, data: Mapping[str, Any]) -> str:
    version, mode, label = data.get("version"), data.get("mode"), data.get("label")
    modes = {
        0: ("one-shot", "continuable"),
        1: ("one-shot", "continuable", "unknown"),
        2: ("external",),
    }
    if isinstance(version, bool) or version not in modes or mode not in modes[version]:
        refuse(event, f"version {version!r} of the catalog knows no mode {mode!r}")
    if not isinstance(label, str) and (mode == "continuable" or "label" in data):
        refuse(event, f"its label is {label!r}, not a string")
    if not isinstance(data.get("childId"), str):
        refuse(event, "its childId is no string")
    count(event, data.get("childCreatedAt"), "childCreatedAt")
    child: str = data["childId"]
    return child


def delivery(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """A delivery of this generation covers earlier events of this session; a child inherits its parent's."""
    if count(event, data.get("sessionFormatVersion", 0), "sessionFormatVersion") != generations.CURRENT:
        return
    earlier(event, data.get("throughSeq"), "throughSeq")
    id, header = text(event, data.get("sessionId"), "sessionId"), state.header
    if header is None or id == header.id:
        return
    error = EventRefused(event.type, f"it delivers session {id!r}, not this one", seq=event.seq)
    if header.parent_session is None:
        raise error
    state.facts.refuse_own(error)


def team_message(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:  # noqa: ARG001
    """A message to a team holds no wrapped tool results."""
    message = data.get("message")
    if is_record(message):
        check_content(event, message.get("content"))


def end_seed(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """A mark ends what came before: a compaction under way was abandoned; a tagged one closes the inherited part."""
    facts = state.facts
    tagged = data.get("inherited") is True
    if tagged and state.header is not None and not state.header.is_seeded:
        refuse(event, "it marks an inherited part, and the header says that nothing was inherited")
    facts.compaction = facts.crossing = None
    if tagged:
        facts.marked = True
        facts.waiting.clear()  # what waited in the parent waits there
        facts.own = None
        facts.children.clear()
