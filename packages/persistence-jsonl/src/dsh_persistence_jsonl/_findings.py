"""What an examination may find: one rule a kind, with what it means and what helps."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

Severity = Literal["damage", "notice"]


class _Rule(NamedTuple):
    severity: Severity
    remedy: str


RULES: dict[str, _Rule] = {
    # Where it lies
    "unreadable": _Rule("damage", "see that it is a file, and one that you may read"),
    "link-in-place": _Rule("damage", "put the log itself there"),
    "both-encodings": _Rule("damage", "move the log of one encoding elsewhere"),
    "duplicate-id": _Rule("damage", "move one of the two folders elsewhere"),
    "wrong-place": _Rule("damage", "move the folder back to where its header says"),
    # What it holds
    "log-empty": _Rule("damage", "delete its folder; nothing is in it"),
    "header-missing": _Rule("damage", "salvage"),
    "header-invalid": _Rule("damage", "salvage"),
    "frame-damaged": _Rule("damage", "salvage"),
    "line-damaged": _Rule("damage", "salvage"),
    "row-invalid": _Rule("damage", "salvage"),
    "seq-gap": _Rule("damage", "salvage"),
    "seq-forked": _Rule("damage", "salvage"),
    "seq-wrong": _Rule("damage", "salvage"),
    "rules": _Rule("damage", "salvage"),
    "mark-ahead": _Rule("damage", "accept-shorter"),
    "bytes-changed": _Rule("damage", "salvage"),
    # What is no damage
    "other-generation": _Rule("notice", "open it with the harness that wrote it"),
    "event-unknown": _Rule("notice", "upgrade dsh-py, or open it with the harness that wrote it"),
    "torn-tail": _Rule("notice", "repair"),
    "open-turn": _Rule("notice", "repair"),
    "in-flight": _Rule("notice", ""),
    "in-use": _Rule("notice", ""),
    "beyond-damage": _Rule("notice", ""),
    "mark-missing": _Rule("notice", "the next writer makes one"),
    "mark-differs": _Rule("notice", "the next writer sets it right"),
    "unprotected": _Rule("notice", ""),
    "index-stale": _Rule("notice", "delete it; the next writer makes it anew"),
    "stale-tmp": _Rule("notice", "the next writer removes it"),
    "saved-tail": _Rule("notice", "delete it when nothing in it is wanted"),
    "permissions": _Rule("notice", "chmod go= these"),
}
"""Every rule's severity and remedy; the ids never change."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to know about a session."""

    rule: str
    """What kind of thing, such as ``frame-damaged``; a key of ``RULES``."""
    severity: Severity
    """``damage`` where the session cannot be read, continued or found as it is."""
    path: str
    reason: str
    remedy: str
    """``repair``, ``accept-shorter``, ``salvage``, or what a person does; empty where nothing is to be done."""
    offset: int | None = None
    """Byte offset in the file of the frame or line."""
    frame: int | None = None
    """The number of the frame, that of the header 0."""
    line: int | None = None
    """1-based line of the decoded text; the header is line 1."""
    seq: int | None = None
    """The seq of the event, or the one that is due there."""


def found(
    rule: str,
    path: str,
    reason: str,
    *,
    offset: int | None = None,
    frame: int | None = None,
    line: int | None = None,
    seq: int | None = None,
) -> Finding:
    """Return a finding with its rule's severity and remedy."""
    severity, remedy = RULES[rule]
    return Finding(
        rule=rule,
        severity=severity,
        path=path,
        reason=reason,
        remedy=remedy,
        offset=offset,
        frame=frame,
        line=line,
        seq=seq,
    )
