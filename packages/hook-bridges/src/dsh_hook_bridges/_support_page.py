"""The support table as a page of documentation."""

from __future__ import annotations

from collections.abc import Iterator

from ._support import FEATURES, Feature

_TITLES = {"claude-code": "Claude Code", "codex": "Codex"}
_HEAD = """\
# What of each dialect works

Made from `dsh_hook_bridges.FEATURES`, which `dshpy hooks support --json` prints. How hooks run is in [hooks](hooks.md).
"""


def support_page() -> str:
    """Return the table of all features as Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield _HEAD
    for dialect, title in _TITLES.items():
        rows = [feature for feature in FEATURES if feature.dialect == dialect]
        yield f"## {title}\n"
        for kind in dict.fromkeys(row.kind for row in rows):
            yield f"| {kind} | | |\n|---|---|---|"
            yield from (_row(row) for row in rows if row.kind == kind)
            yield ""


def _row(feature: Feature) -> str:
    return f"| `{feature.name}` | {feature.support} | {feature.note} |"
