"""``dshpy cat``: a log as lines of JSON, for programs to read."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Any

from dsh_persistence import FormatNotSupported, SessionCorrupt, StoredPrefix
from dsh_persistence_jsonl import JsonlLogStore
from dsh_session import EventRefused, LogState, encode_event, generations, interrupted_closers

from ._exit import ExitCode
from ._selectors import Selected, select
from ._text import say

_HEADER_LINES = 1


class View(Enum):
    """What of a log is printed."""

    EVENTS = "events"
    STORED = "stored"
    MESSAGES = "messages"
    RAW = "raw"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatOptions:
    """What ``dshpy cat`` was asked for."""

    selector: str
    root: str | None
    view: View
    balanced: bool
    """Whether what closes an interrupted turn is printed too."""
    from_seq: int


def cat_session(options: CatOptions) -> ExitCode:
    """Write the log in the view asked for, line by line; nothing is written of a log that is not valid."""
    selected = select(options.selector, options.root)
    if options.view is View.RAW:
        advice = "without --raw its events are printed as they are stored"
        files = selected.root.require_files("--raw prints the text of a log file", advice)
        _write(files.raw_text(selected.location))
    else:
        _write(_lines(selected, options))
    return ExitCode.OK


def _lines(selected: Selected, options: CatOptions) -> Iterator[bytes]:
    stored = selected.read()
    state = _validate(selected, stored)
    if stored.torn is not None:
        tail = f"{stored.torn.size_bytes} bytes from byte {stored.torn.offset} on are torn and were never acknowledged"
        say(f"{stored.source}: {tail}; {stored.salvaged} event(s) of them are whole and are here")
    closers = interrupted_closers(state) if options.balanced else ()
    match options.view:
        case View.MESSAGES:
            yield from map(_encode_message, stored.events.messages())
            yield from (_encode_message(event.data["message"]) for event in closers if event.surface_op is not None)
        case View.STORED if selected.root.files is not None:
            yield from _stored_rows(selected.root.files, selected, stored, options.from_seq)
        case _:  # a database keeps the envelope in columns, so that its rows have no text of their own
            yield from map(encode_event, islice(stored.events, options.from_seq, None))
            yield from (encode_event(event) for event in closers if event.seq >= options.from_seq)


def _validate(selected: Selected, stored: StoredPrefix) -> LogState:
    """Return what the log means.

    Raises ``SessionCorrupt``, or ``FormatNotSupported`` for an event only a newer harness knows.
    """
    try:
        return stored.events.validate(stored.header)
    except EventRefused as error:
        refused = error
    if refused.seq is None:
        raise SessionCorrupt(stored.source, str(refused))
    if refused.type not in generations.KNOWN_TYPES:
        what = f"event {refused.type!r} at seq {refused.seq} is unknown and not marked ignorable"
        look = "" if selected.root.files is None else ", or look at it with --raw"
        advice = f"a newer harness may have written it: upgrade dsh-py{look}"
        raise FormatNotSupported(stored.source, stored.generation, f"{what}; {advice}")
    reason = f"seq {refused.seq}, {refused.type}: {refused.reason}"
    files = selected.root.files
    if files is None:
        raise SessionCorrupt(stored.source, reason)
    line = refused.seq + _HEADER_LINES + 1
    offset = _offset_of(files, selected, stored, line)
    raise SessionCorrupt(stored.source, f"{reason} (--raw prints the text unchecked)", offset=offset, line=line)


def _offset_of(files: JsonlLogStore, selected: Selected, stored: StoredPrefix, line: int) -> int | None:
    """Return where a line begins in the file; None for a compressed one, whose lines have no place of their own."""
    if not stored.source.endswith(".jsonl"):
        return None
    before = islice(_split(files.raw_text(selected.location)), line - 1)
    return sum(map(len, before))


def _stored_rows(files: JsonlLogStore, selected: Selected, stored: StoredPrefix, from_seq: int) -> Iterator[bytes]:
    """Yield the rows as they lie in the log; those of a torn frame, which has no text, as they were recovered."""
    whole = len(stored.events) - stored.salvaged
    rows = islice(_split(files.raw_text(selected.location)), _HEADER_LINES, _HEADER_LINES + whole)
    count = 0
    for count, row in enumerate(rows, 1):
        if count > from_seq:
            yield row
    if count < whole:
        raise SessionCorrupt(stored.source, f"the log lost rows while it was read: {count} of {whole} are there")
    yield from map(encode_event, islice(stored.events, max(whole, from_seq), None))


def _split(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines with their newline; 0x0A alone ends one, and what follows the last is a line too."""
    pending: list[bytes] = []
    for chunk in chunks:
        *lines, rest = chunk.split(b"\n")
        if lines:
            yield b"".join((*pending, lines[0], b"\n"))
            pending.clear()
            yield from (line + b"\n" for line in lines[1:])
        if rest:
            pending.append(rest)
    if pending:
        yield b"".join(pending)


def _encode_message(message: Mapping[str, Any]) -> bytes:
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    # Python's escape of a lone surrogate happens to be JSON's.
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _write(chunks: Iterable[bytes]) -> None:
    out = sys.stdout.buffer
    out.writelines(chunks)
    out.flush()
