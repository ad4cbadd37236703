"""``dshpy salvage``: a new session out of what is intact of a damaged one, which is left as it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from dsh_persistence_jsonl import Branch, Encoding, Hole, JsonlLogStore, Kept, SalvageReport, SessionForked, salvage

from ._exit import ExitCode
from ._selectors import select
from ._text import console, local_time, one_line, print_json, print_labelled, printable, say

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN = 20


def salvage_session(
    selector: str, root: str | None, *, output: str, branch: int | None, cwd: str | None, as_json: bool
) -> ExitCode:
    """Write what is intact to another root, and print what was kept, wrapped and lost."""
    selected = select(selector, root, damaged=True)
    advice = "dshpy migrate copies those of its sessions that are intact"
    source = selected.root.require_files("salvage takes log files apart", advice)
    encoding: Encoding = "zstd" if selected.location.path.endswith(".zstd") else "raw"
    if "://" in output or Path(output).is_file():
        raise click.UsageError("-o names a folder; dshpy migrate copies what has been salvaged into a database.")
    into = JsonlLogStore(output)
    if next(into.list(), None) is None:
        into = JsonlLogStore(output, encoding=encoding)
    try:
        report = salvage(source, selected.location, into, branch=branch, cwd=cwd)
    except SessionForked as forked:
        return _choose(forked, as_json=as_json)
    except ValueError as error:
        say(str(error))
        return ExitCode.USAGE
    if as_json:
        print_json(_json(report))
    else:
        _print(console(), report)
    return ExitCode.OK


def _choose(forked: SessionForked, *, as_json: bool) -> ExitCode:
    if as_json:
        print_json({"branches": [msgspec.to_builtins(branch) for branch in forked.branches]})
    else:
        _print_branches(console(), forked.branches)
    say(f"the log has {len(forked.branches)} branches; choose one with --branch N, nothing was written")
    return ExitCode.USAGE


def _print_branches(out: Console, branches: Sequence[Branch]) -> None:
    for branch in branches[:_SHOWN]:
        own = f"its own from seq {branch.first_seq} (byte {branch.offset}) on" if branch.number > 1 else "written first"
        out.print(f"branch {branch.number}: {branch.events} events, {own}", style="bold")
        print_labelled(
            out, "   ", f"ends at seq {branch.next_seq - 1}: {branch.last_type}, {local_time(branch.last_time)}"
        )
    if len(branches) > _SHOWN:
        out.print(f"… and {len(branches) - _SHOWN} more; --json has them all")


def _print(out: Console, report: SalvageReport) -> None:
    out.print(f"{printable(report.session_id)}  salvaged", style="bold")
    print_labelled(out, "  from  ", printable(report.source))
    print_labelled(out, "  to    ", printable(report.written))
    if len(report.branches) > 1:
        print_labelled(out, "  branch", f"{report.branch} of {len(report.branches)}")
    print_labelled(out, "  kept  ", f"{report.kept} of {report.events} events are as they were")
    lost = sum(run.next_seq - run.first_seq for run in report.lost)
    if lost:
        print_labelled(
            out,
            "  lost  ",
            f"{lost} events; plugin:dsh-py/lost stands for each that was not made anew",
            style="red",
        )
    for run in report.lost[:_SHOWN]:
        seqs = f"seq {run.first_seq}" + (f" to {run.next_seq - 1}" if run.next_seq > run.first_seq + 1 else "")
        print_labelled(out, "        ", f"{seqs}, byte {run.offset}: {one_line(run.reason)}")
    _print_kept(out, "  wrapped", "refused by the rules; each is inside a plugin:dsh-py/salvaged", report.wrapped)
    _print_kept(out, "  renumbered", "kept under the seq that was due", report.renumbered)
    if report.bridged:
        print_labelled(
            out, "  made  ", f"{len(report.bridged)} events that open or close turns, {_seqs(report.bridged)}"
        )
    if report.unproven:
        print_labelled(out, "  unsure", f"{report.unproven} events come from a cut frame; no checksum vouches for them")
    if report.header_made:
        print_labelled(out, "  header", "made anew, as far as its folder and its events tell", style="red")
    _print_damage(out, report)


def _print_kept(out: Console, label: str, what: str, rows: Sequence[Kept]) -> None:
    if rows:
        print_labelled(out, label, f"{len(rows)} events, {what}")
    for row in rows[:_SHOWN]:
        print_labelled(out, "        ", f"seq {row.seq}, byte {row.offset}, {row.type}: {one_line(row.reason)}")
    if len(rows) > _SHOWN:
        print_labelled(out, "        ", f"… and {len(rows) - _SHOWN} more; --json has them all")


def _print_damage(out: Console, report: SalvageReport) -> None:
    if report.damage:
        print_labelled(out, "  damage", f"{len(report.damage)} place(s) of the source are no intact events")
    for part in report.damage[:_SHOWN]:
        offset = part.offset if isinstance(part, Hole) else part.line.offset
        size = f", {part.size_bytes} bytes" if isinstance(part, Hole) else ""
        print_labelled(out, "        ", f"byte {offset}{size}: {one_line(part.reason)}")


def _seqs(seqs: Sequence[int]) -> str:
    shown = ", ".join(map(str, seqs[:_SHOWN]))
    return f"seq {shown}" + (" …" if len(seqs) > _SHOWN else "")


def _json(report: SalvageReport) -> dict[str, Any]:
    damage = [
        {"offset": part.offset, "sizeBytes": part.size_bytes, "reason": part.reason}
        if isinstance(part, Hole)
        else {"offset": part.line.offset, "line": part.line.number, "reason": part.reason}
        for part in report.damage
    ]
    names = zip(report.__struct_fields__, report.__struct_encode_fields__, strict=True)
    fields = {name: msgspec.to_builtins(getattr(report, field)) for field, name in names if field != "damage"}
    return {**fields, "damage": damage}
