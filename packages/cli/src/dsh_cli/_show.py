"""``dshpy show``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from dsh_persistence import StoredPrefix
from dsh_session import SessionEvent, decode_json

from ._exit import ExitCode
from ._selectors import select
from ._text import console, event_json, header_json, local_time, print_json, print_labelled, printable, text_of

if TYPE_CHECKING:
    from rich.console import Console


LABEL_WIDTH = 9
GUTTER = " │ "


class Line(NamedTuple):
    """Something of a conversation, for people."""

    label: str
    text: str
    style: str


def show_session(selector: str, root: str | None, *, as_json: bool) -> ExitCode:
    """Print the header and the conversation of one session as it is stored; nothing is changed."""
    stored = select(selector, root).read()
    if as_json:
        print_json({"header": header_json(stored.header), "events": [event_json(event) for event in stored.events]})
        return ExitCode.OK
    out = console()
    _print_head(out, stored)
    print_conversation(out, stored.events)
    return ExitCode.OK


def _print_head(out: Console, stored: StoredPrefix) -> None:
    header = stored.header
    out.print(printable(header.id), style="bold")
    torn = stored.torn
    facts = {
        "directory": header.cwd,
        "created": local_time(header.created_at),
        "parent": header.parent_session,
        "inherited": f"{stored.cut} events" if stored.cut else None,
        "log": stored.source,
        "events": str(len(stored.events)),
        "torn": f"{torn.size_bytes} bytes from {torn.offset} on, not acknowledged" if torn else None,
    }
    for name, value in facts.items():
        if value is not None:
            print_labelled(out, f"  {name:<10}", value)
    out.print()


def print_conversation(out: Console, events: Iterable[SessionEvent]) -> None:
    """Print what was said and done, in the order of the log."""
    for event in events:
        for line in conversation_lines(event.type, event.data):
            print_line(out, line)


def print_line(out: Console, line: Line) -> None:
    """Print one line of a conversation, however many rows it takes."""
    print_labelled(out, f"{line.label:>{LABEL_WIDTH}}", line.text, gutter=GUTTER, style=line.style)


def conversation_lines(type: str, data: Any) -> list[Line]:
    """Return what a person wants to see of an event."""
    lines: list[Line] = []
    match type:
        case "turn/start":
            lines = [Line(f"turn {data['turn']}", "", "dim")]
        case "user/message" if data["source"]["kind"] == "user":
            lines = [Line("user", text_of(data["content"]), "bold")]
        case "assistant/message":
            lines = [_assistant_line(block) for block in data["message"]["content"]]
        case "tool/result":
            failed = data["message"].get("isError")
            style = "red" if failed else "dim"
            lines = [Line("failed" if failed else "result", text_of(data["message"]["content"]), style)]
        case "hook/result" if data["decision"] != "pass":
            lines = [_hook_line(data)]
        case "turn/end":
            reason = data["reason"]
            lines = [Line("end", _end(reason), "dim" if reason["kind"] == "completed" else "red")]
        case _:
            pass
    return lines


def _assistant_line(block: dict[str, Any]) -> Line:
    if block["type"] == "tool-call":
        return call_line(block["name"], block["arguments"])
    return Line("thinks" if block["type"] == "reasoning" else "assistant", text_of([block]), "")


def call_line(name: str, arguments: str) -> Line:
    """Return what a model calls, with the arguments it wrote."""
    return Line(name, _call(arguments), "cyan")


def _call(arguments: str) -> str:
    """A command reads better as itself; any other arguments are shown as the model wrote them."""
    try:
        command = decode_json(arguments.encode())["command"]
    except (ValueError, TypeError, KeyError, UnicodeEncodeError):
        return arguments
    return command if isinstance(command, str) else arguments


def _hook_line(data: Any) -> Line:
    """Return what a hook did; why, its standard error says, or the result that it kept from happening."""
    word, said = data["decision"], data.get("stderrSummary")
    text = f"{data['point']}: {word}" if said is None else f"{data['point']}: {word}: {said}"
    return Line("hook", text, "dim" if word in ("allow", "approve") else "yellow")


def _end(reason: dict[str, Any]) -> str:
    """Return how a turn ended, and why, where a failure or a hook has ended it."""
    cause: dict[str, Any] = reason.get("error") or reason.get("reason") or {}
    message = cause.get("message") or cause.get("reason")
    return reason["kind"] if message is None else f"{reason['kind']}: {message}"
