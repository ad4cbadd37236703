"""``dshpy hooks support``: the table of what works."""

from __future__ import annotations

from dsh_hook_bridges import FEATURES, DialectName

from ._exit import ExitCode
from ._hooks_report import feature_json
from ._text import console, print_json

_STYLES = {"supported": "green", "partial": "yellow", "ignored": "dim"}


def print_support(dialect: DialectName | None, *, as_json: bool) -> ExitCode:
    """Print every row, or those of one dialect."""
    rows = [feature for feature in FEATURES if dialect in (None, feature.dialect)]
    if as_json:
        print_json({"features": [{"dialect": row.dialect, **feature_json(row)} for row in rows]})
        return ExitCode.OK
    from rich.table import Table  # noqa: PLC0415  # only rendering needs it
    from rich.text import Text  # noqa: PLC0415  # as above

    out = console()
    for name in dict.fromkeys(row.dialect for row in rows):
        table = Table(box=None, pad_edge=False, header_style="dim")
        for title in (name, "", "support", "note"):
            table.add_column(title, overflow="fold")
        kind = ""
        for row in (row for row in rows if row.dialect == name):
            support = Text(row.support, style=_STYLES[row.support])
            table.add_row("" if row.kind == kind else row.kind, row.name, support, row.note)
            kind = row.kind
        out.print(table)
    return ExitCode.OK
