"""Text shown as it comes: wrapped, indented, and never lost."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from dsh_cli._flow import Flow

TEXT = st.text(alphabet="ab \n\t\x1b漢é", max_size=200)


def flow(*pieces: str, width: int = 40, label: str = "label") -> str:
    out = io.StringIO()
    shown = Flow(Console(file=out, width=width), label, gutter=" | ", style="")
    for piece in pieces:
        shown.add(piece)
    shown.end()
    return out.getvalue()


def test_rows_stand_below_the_first():
    """A word that does not fit begins a row, and empty rows stay."""
    shown = flow("one two three four five six seven", "\n\n", "eight", width=28)

    rows = ["label | one two three four", "      | five six seven", "      |", "      | eight"]
    assert rows == [row.rstrip() for row in shown.splitlines()]


def test_a_row_break_waits_for_what_follows():
    """Text that ends in a line break leaves no empty row."""
    assert "label | one\n" == flow("one", "\n\n")


def test_a_word_longer_than_a_row_is_folded():
    """Nothing is cut off."""
    shown = flow("x" * 50, width=28)

    assert ["x" * 20, "x" * 20, "x" * 10] == [row.partition("| ")[2] for row in shown.splitlines()]


@given(pieces=st.lists(TEXT, max_size=8), width=st.integers(min_value=30, max_value=60))
def test_nothing_is_lost_and_no_row_is_too_long(pieces, width):
    """Whatever comes in whatever pieces: all of it is there but spaces, within the width."""
    rows = flow(*pieces, width=width).splitlines()

    assert all(cell_len(row) <= width for row in rows)
    shown = "".join(row.partition("| ")[2] for row in rows)
    wanted = "".join(pieces).replace("\x1b", "\\x1b")
    assert "".join(wanted.split()) == "".join(shown.split())
