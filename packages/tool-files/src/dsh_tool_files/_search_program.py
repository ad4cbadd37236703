"""Searches the text it is sent for a regular expression. Run as ``python -I -S _search_program.py``.

A match of Python's ``re`` can take longer than the universe lasts, holds the interpreter's lock all the while and
cannot be interrupted, so it runs in a process that can be killed. This file is a program, not a module of the package:
it imports nothing of ours and little of the library, for every search starts it. It opens no file: what it searches
comes through its standard input, so it could not leave the workspace if it wanted to.

A message is its length, four bytes little-endian, and a marshalled value. The first one is the request, a dictionary,
and the answer to it None or why its pattern is none. Every other is (data, is the last of its file), and the answer to
it (rows, is full, is cut): rows of (line number, is a match, text), whether enough was found, and whether a line was
too long to be searched whole.
"""
# ruff: noqa: S302  # the harness is trusted

import marshal
import re
import resource
import signal
import struct
import sys
from collections import deque
from typing import Any

LINE_BYTES = 65_536
"""How much of a line is searched."""
_SHOWN_CHARS = 300
_BEFORE_CHARS = 100
"""How much of a long line is shown before the match in it."""
_MEMORY_BYTES = 1 << 30
_LENGTH = struct.Struct("<I")

Row = tuple[int, bool, str]


class Search:
    """One search, over one file after the other."""

    def __init__(self, pattern: "re.Pattern[str]", *, context: int, max_matches: int) -> None:
        self._find = pattern.search
        self._context = context
        self._matches_left = max_matches
        self._pending = b""
        self._number = 0
        self._before: deque[tuple[int, str]] = deque(maxlen=context)
        self._after = 0

    def feed(self, data: bytes, *, is_last: bool) -> "tuple[list[Row], bool, bool]":
        """Search on; return the rows that are complete, and whether enough was found and a line was cut."""
        rows: list[Row] = []
        is_cut = False
        lines = (self._pending + data).split(b"\n")
        self._pending = lines.pop()
        if is_last and self._pending:
            lines.append(self._pending)
        for line in lines:
            if self._matches_left == 0:
                break
            is_cut |= len(line) > LINE_BYTES
            self._take(line[:LINE_BYTES], rows)
        self._pending = self._pending[: LINE_BYTES + 1]  # one more tells that it is cut
        if is_last:
            self._begin()
        return rows, self._matches_left == 0, is_cut

    def _begin(self) -> None:
        """Forget the file before."""
        self._pending = b""
        self._number = self._after = 0
        self._before.clear()

    def _take(self, line: bytes, rows: "list[Row]") -> None:
        self._number += 1
        text = line.decode("utf-8", "replace").removesuffix("\r")
        found = self._find(text)
        if found is not None:
            rows += [(number, False, shown(before, 0)) for number, before in self._before]
            self._before.clear()
            rows.append((self._number, True, shown(text, found.start())))
            self._after = self._context
            self._matches_left -= 1
        elif self._after:
            rows.append((self._number, False, shown(text, 0)))
            self._after -= 1
        elif self._context:
            self._before.append((self._number, text))


def shown(text: str, at: int) -> str:
    """Return ``text``, or of a long one what is around ``at``."""
    text = text.replace("\0", "\ufffd")
    if len(text) <= _SHOWN_CHARS:
        return text
    begin = min(max(0, at - _BEFORE_CHARS), len(text) - _SHOWN_CHARS)
    end = begin + _SHOWN_CHARS
    return ("…" if begin else "") + text[begin:end] + ("…" if end < len(text) else "")


def hear() -> Any:
    """Return the next message, None at the end."""
    head = sys.stdin.buffer.read(_LENGTH.size)
    return marshal.loads(sys.stdin.buffer.read(_LENGTH.unpack(head)[0])) if len(head) == _LENGTH.size else None


def say(value: Any) -> None:
    """Send a message."""
    body = marshal.dumps(value)
    sys.stdout.buffer.write(_LENGTH.pack(len(body)) + body)
    sys.stdout.buffer.flush()


def limit(seconds: float) -> None:
    """Have the system end this process when its time is up, should nobody be left to do it, and bound its memory."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    except (ValueError, OSError):  # not on every system, or lower already
        return


def main() -> None:
    """Serve until there is nothing more to hear."""
    request = hear()
    if request is None:
        return
    limit(request["end_s"])
    try:
        pattern = re.compile(request["pattern"])
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        say(str(error) or type(error).__name__)
        return
    say(None)
    search = Search(pattern, context=request["context"], max_matches=request["max_matches"])
    while (message := hear()) is not None:
        data, is_last = message
        say(search.feed(data, is_last=is_last))


if __name__ == "__main__":
    main()
