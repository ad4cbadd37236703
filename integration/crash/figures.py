"""What a run tried and how much of it went wrong, as the table that docs/durability.md keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

BEGIN, END = "<!-- figures -->\n", "<!-- /figures -->\n"


class Recorder(Protocol):
    """Takes down one figure."""

    def __call__(self, what: str, store: str, **facts: object) -> None:
        """The facts are the other fields of ``Figure``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One row: so many of something were tried."""

    what: str
    store: str
    tried: int
    unit: str
    bad: int
    seconds: float
    note: str = ""


def table(rows: Sequence[Figure]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield "| what | store | tried | bad | seconds | |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        unit = row.unit if row.tried != 1 else row.unit.removesuffix("s")
        yield f"| {row.what} | {row.store} | {row.tried:,} {unit} | {row.bad} | {row.seconds:.0f} | {row.note} |"


def write(document: Path, rows: Sequence[Figure], machine: str) -> None:
    """Put the table between its two marks in a document."""
    text = document.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    document.write_text("".join([before, BEGIN, f"\n{machine}.\n\n", "\n".join(table(rows)), "\n\n", END, after]))
