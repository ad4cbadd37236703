"""Text of logs on a terminal: it comes from models and commands, so it may hold anything."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dsh_session import SessionEvent, SessionHeader, SurfaceOp

if TYPE_CHECKING:
    from rich.console import Console

_UNBOUNDED = 10_000
# Controls, lone surrogates, and the marks that turn the direction of what follows.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Return ``text`` with control characters and lone surrogates spelled out; newlines and tabs stay."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def one_line(text: str) -> str:
    """Return ``text`` as one printable line, for messages: file names and ids may hold anything too."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def first_rows(text: str, rows: int) -> str:
    """Return ``text``, or its first rows and how many follow."""
    lines = text.rstrip("\n").split("\n")
    return text if len(lines) <= rows else "\n".join([*lines[:rows], f"… {len(lines) - rows} more lines"])


def say(message: str) -> None:
    """Write one line to standard error."""
    sys.stderr.write(f"dshpy: {one_line(message)}\n")


def local_time(time_ms: int) -> str:
    """Return a moment of a log for people, in this machine's time zone."""
    try:
        return dt.datetime.fromtimestamp(time_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"


def abandon_output() -> None:
    """Let what is still buffered for standard output go nowhere; the interpreter would fail on it when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def console(*, stderr: bool = False) -> Console:
    """Return the console of standard output, or error; what is piped is neither wrapped nor coloured."""
    from rich.console import Console  # noqa: PLC0415  # only rendering needs it

    class PipedConsole(Console):
        def on_broken_pipe(self) -> None:
            """Leave it to the command: rich would exit with 1, which means damage here."""
            raise  # noqa: PLE0704  # called while the error is handled

    piped = not (sys.stderr if stderr else sys.stdout).isatty()
    return PipedConsole(
        stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=piped, width=_UNBOUNDED if piped else None
    )


@contextmanager
def progress(first: str) -> Generator[Callable[[str], None]]:
    """Give what shows on standard error how far something is, on a terminal; elsewhere it shows nothing."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415  # only rendering needs it
    from rich.text import Text  # noqa: PLC0415  # as above

    with Console(stderr=True).status(first) as status:
        yield lambda line: status.update(Text(line))


def print_labelled(out: Console, label: str, text: str, *, gutter: str = " ", style: str = "") -> None:
    """Print ``text`` after ``label``; lines that follow, wrapped ones too, stand below the first."""
    from rich.text import Text  # noqa: PLC0415  # only rendering needs it

    label = one_line(label)
    lines = [Text(line, style=style) for line in printable(text.rstrip("\n")).split("\n")]
    if out.width != _UNBOUNDED:
        width = max(20, out.width - len(label) - len(gutter))
        lines = [part for line in lines for part in line.wrap(out, width, overflow="fold")]
    for number, line in enumerate(lines):
        head = f"{label if number == 0 else '':<{len(label)}}{gutter}"
        row = Text.assemble((head, style), line)
        row.rstrip()
        out.print(row)


def print_json(value: Any) -> None:
    """Print one JSON document."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")


def header_json(header: SessionHeader) -> dict[str, Any]:
    """Return a header as JSON, in the log's own words, with what is absent left out."""
    fields: dict[str, Any] = {
        "id": header.id,
        "version": header.version,
        "createdAt": header.created_at,
        "cwd": header.cwd,
        "parentSession": header.parent_session,
        "isSeeded": header.is_seeded,
        "origin": header.origin,
        "delegationDepth": header.delegation_depth,
        "agentPreset": header.agent_preset,
        "sandboxMode": header.sandbox_mode,
        "approvalPolicy": header.approval_policy,
        "seedLength": header.seed_length,
    }
    return {key: value for key, value in fields.items() if value is not None}


def event_json(event: SessionEvent) -> dict[str, Any]:
    """Return an event as JSON, as its log shows it."""
    fields: dict[str, Any] = {"type": event.type, "seq": event.seq, "time": event.time, "data": event.data}
    if event.source_event_seqs is not None:
        fields["sourceEventSeqs"] = list(event.source_event_seqs)
    if event.surface_op is not None:
        fields["surfaceOp"] = _surface_json(event.surface_op)
    if event.ignorable:
        fields["ignorable"] = True
    return fields


def _surface_json(op: SurfaceOp) -> Any:
    return op if op == "append" else {"op": "replace", "startSeq": op.start_seq, "endSeq": op.end_seq}


def text_of(content: list[Mapping[str, Any]]) -> str:
    """Return the text of content blocks; a block of another kind is named."""
    return "\n".join(
        block["text"] if block.get("type") in ("text", "reasoning") else f"[{block.get('type')}]" for block in content
    )
