"""Text that arrives in pieces, shown on a terminal as it comes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ._text import printable

_PART = re.compile(r"\n|[^\S\n]+|\S+")
_LEAST_WIDTH = 20
_TAB = "    "


class Flow:
    """One labelled text, of which every row, wrapped ones too, stands below the first."""

    def __init__(self, out: Console, label: str, *, gutter: str, style: str) -> None:
        self._out = out
        self._style = style
        self._indent = " " * len(label) + gutter
        self._column = 0
        self._owed_rows = 0
        """Line breaks that are made once something follows them."""
        self._print(label + gutter)

    def add(self, text: str) -> None:
        """Show more of the text, at once."""
        self._print("".join(self._placed(printable(text).replace("\t", _TAB))))

    def end(self) -> None:
        """Leave the last row."""
        self._print("\n")

    def _placed(self, text: str) -> Iterator[str]:
        for part in _PART.findall(text):
            if part == "\n":
                self._owed_rows += 1
                continue
            if self._owed_rows:
                yield self._new_row() * self._owed_rows
                self._owed_rows = 0
            yield from self._placed_part(part)

    def _placed_part(self, part: str) -> Iterator[str]:
        """Yield a word, or the space between two, in a new row where it does not fit."""
        width = max(_LEAST_WIDTH, self._out.width - len(self._indent))
        size = cell_len(part)
        if self._column + size > width and (size <= width or part.isspace()):
            yield self._new_row()
            if part.isspace():
                return
        for character in part:
            size = cell_len(character)
            if self._column + size > width:
                yield self._new_row()
            self._column += size
            yield character

    def _new_row(self) -> str:
        self._column = 0
        return "\n" + self._indent

    def _print(self, text: str) -> None:
        self._out.print(Text(text, style=self._style), end="", soft_wrap=True)
