"""Asking the person at the terminal before a command runs or a file changes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from dsh_agent import ApprovalAnswer, ApprovalRequest, Extension, ToolDecision, ToolUse

from ._show import GUTTER, LABEL_WIDTH, Line, print_line
from ._text import console, first_rows, say

UNASKED = frozenset({"read", "glob", "grep", "skill", "job_output", "job_list", "job_kill"})
"""Tools that run and change nothing but what a call that was asked about has begun; all others are asked about."""

_SHOWN_SHORT = frozenset({"content", "old_string", "new_string"})
"""Arguments that hold text of files."""
_SHOWN_ROWS = 20
_REFUSED = "the user refused this call; do not try it in another way"


class AskFirst(Extension):
    """Lets every call be asked about that is not of a harmless tool, unless another extension decides about it."""

    name = "plugin:dshpy-run"

    async def pre_tool_use(self, event: ToolUse) -> ToolDecision | None:
        """Decide by the name of the tool."""
        return None if event.name in UNASKED else ToolDecision(verdict="ask", is_fallback=True)


class NobodyToAsk:
    """Refuses everything, where there is no terminal."""

    def __init__(self, advice: str) -> None:
        """``advice`` is what whoever reads stderr is told of it."""
        self._advice = advice
        self._has_said = False

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Tell the model, and once whoever reads stderr."""
        if not self._has_said:
            say(f"{request.name} was refused: there is no terminal to ask on; {self._advice}")
            self._has_said = True
        why = f" ({request.reason})" if request.reason else ""
        told = f"there is nobody to ask{why}; do without, and say what you would have done"
        return ApprovalAnswer(is_allowed=False, reason=f"{request.name} was refused: {told}")


class AskOnTerminal:
    """Shows a call on stderr and reads the answer from stdin."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Return the answer. What was typed before the question is none."""
        sys.stdout.flush()
        out = console(stderr=True)
        for line in _call_lines(request.name, request.arguments):
            print_line(out, line)
        if request.reason:
            print_line(out, Line("asked", request.reason, "yellow"))
        fd = sys.stdin.fileno()
        discard_input(fd)
        while True:
            sys.stderr.write(f"{'allow?':>{LABEL_WIDTH}}{GUTTER}y, n, or n and why: ")
            sys.stderr.flush()
            answer = await _read_line(fd)
            word, _, reason = (answer or "n").strip().partition(" ")
            match word.lower():
                case "y" | "yes" if not reason:
                    return ApprovalAnswer(is_allowed=True)
                case "n" | "no":
                    if answer is None:
                        sys.stderr.write("\n")
                    told = f"{_REFUSED}: {reason.strip()}" if reason.strip() else _REFUSED
                    return ApprovalAnswer(is_allowed=False, reason=told)
                case _:
                    continue


def can_ask() -> bool:
    """Return whether somebody sees the question and can answer it."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def _call_lines(name: str, arguments: Mapping[str, Any]) -> Iterator[Line]:
    """Yield everything that the call would be given; the tool's name stands before the first."""
    label = name
    for key in sorted(arguments, key=lambda key: key not in ("command", "file_path")):
        value = arguments[key]
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if label != name:
            text = f"{key}: {text}"
        if key in _SHOWN_SHORT:
            text = first_rows(text, _SHOWN_ROWS)
        yield Line(label, text, "bold cyan" if label == name else "cyan")
        label = ""
    if label:
        yield Line(label, "", "bold cyan")


def discard_input(fd: int) -> None:
    """Let what was typed before a question count for nothing."""
    import termios  # noqa: PLC0415  # a terminal of Windows has none, and is not asked on

    termios.tcflush(fd, termios.TCIFLUSH)


async def _read_line(fd: int) -> str | None:
    """Return a line that is typed, None at the end of input; cancelled, it reads nothing."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        try:
            data = os.read(fd, 4096)  # the terminal hands over whole lines
        except OSError:  # it is gone
            data = b""
        if not typed.done():
            typed.set_result(data)

    loop.add_reader(fd, read)
    try:
        data = await typed
    finally:
        loop.remove_reader(fd)
    return data.decode(sys.stdin.encoding, "replace") if data else None
