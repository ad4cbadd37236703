"""A run as people read it: on a terminal text appears as the model says it, elsewhere message by message."""

from __future__ import annotations

from typing import Any

from dsh_session import Finish, ReasoningDelta, SessionEvent, StreamChunk, TextDelta

from ._approval import UNASKED
from ._flow import Flow
from ._run_report import Began, Ended, Notice, Told
from ._show import GUTTER, LABEL_WIDTH, Line, call_line, conversation_lines, print_line
from ._text import console, first_rows, say

_TOLD = ("error", "timeout", "spawn-failed", "cancelled")
"""Decisions of hooks of which a notice says more."""
_RESULT_ROWS = 10
"""So much of a result is shown; the log has all of it."""


class Conversation:
    """Shows to a person what a run tells."""

    def __init__(self, *, asks_here: bool) -> None:
        """``asks_here`` says that whoever reads this is also asked about calls, and sees them then."""
        self._out = console()
        self._asks_here = asks_here
        self._flow: tuple[type[StreamChunk], int, Flow] | None = None
        """The kind and block of the text that is being shown."""
        self._has_streamed = False
        """Whether the text of the message that comes next has been shown."""

    def __call__(self, told: Told) -> None:
        """Show it."""
        match told:
            case TextDelta() | ReasoningDelta():
                self._stream(told)
            case SessionEvent():
                self._end_flow()
                self._show(told)
            case Notice():
                self._end_flow()
                say(told.text)
            case Began():
                print_line(self._out, Line("session", _head(told), "dim"))
            case Finish():
                self._end_flow()
            case Ended(feedback=feedback) if feedback:
                print_line(self._out, Line("blocked", feedback, "red"))
            case _:
                pass

    def _stream(self, chunk: TextDelta | ReasoningDelta) -> None:
        if not self._out.is_terminal or not chunk.text:
            return
        kind = type(chunk)
        if self._flow is None or self._flow[:2] != (kind, chunk.index):
            self._end_flow()
            label, style = ("thinks", "dim") if kind is ReasoningDelta else ("assistant", "")
            flow = Flow(self._out, f"{label:>{LABEL_WIDTH}}", gutter=GUTTER, style=style)
            self._flow = kind, chunk.index, flow
        self._flow[2].add(chunk.text)
        self._has_streamed = True

    def _end_flow(self) -> None:
        if self._flow is not None:
            self._flow[2].end()
            self._flow = None

    def _show(self, event: SessionEvent) -> None:
        for line in self._lines(event.type, event.data):
            print_line(self._out, line)

    def _lines(self, type: str, data: Any) -> list[Line]:
        match type:
            case "assistant/message" | "assistant/attempt":
                lines = [] if self._has_streamed else _spoken(type, data)
                self._has_streamed = False
            case "tool/call":
                is_seen = self._asks_here and data["name"] not in UNASKED
                lines = [] if is_seen else [call_line(data["name"], data["arguments"])]
            case "tool/result":
                whole = conversation_lines(type, data)
                lines = [line._replace(text=first_rows(line.text, _RESULT_ROWS)) for line in whole]
            case "hook/result" if data["decision"] in _TOLD:
                lines = []
            case "llm/retry":
                when = f"{data['retry']} of {data['maxRetries']} in {data['delayMs'] / 1000:.1f} s"
                lines = [Line("retry", f"{when}: {data['failure']['message']}", "yellow")]
            case _:
                lines = conversation_lines(type, data)
        return lines


def _head(began: Began) -> str:
    """Return who the session is; the history it comes with is not shown again."""
    place = "" if began.cwd is None else f" in {began.cwd}"
    forked = began.origin.get("forked")
    origin = f", forked from {forked['session_id']} at {forked['seq']}" if forked else ""
    return f"{began.session_id}{place}{origin}"


def _spoken(type: str, data: Any) -> list[Line]:
    """Return what a message says; each call is shown when its turn comes."""
    content: list[dict[str, Any]] = data["message"]["content"] if type == "assistant/message" else []
    said = [block for block in content if block["type"] != "tool-call"]
    return conversation_lines("assistant/message", {"message": {"content": said}})
