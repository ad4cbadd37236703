"""``dshpy repair``: what a resume would do to make a session whole, without going on with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dsh_persistence import Repair, StoredPrefix
from dsh_persistence_jsonl import planned_repair
from dsh_session import EncodedBatch, SessionEvent, repair_closers

from ._doctor import UNREAD, Examined, examined_session, print_findings
from ._exit import ExitCode
from ._text import console, one_line, print_labelled, printable

if TYPE_CHECKING:
    from rich.console import Console

_HELD = ("in-use", "in-flight")


def repair_session(selector: str, root: str | None, *, apply: bool, accept_shorter: bool) -> ExitCode:
    """Cut and keep a torn tail, append its whole events again, close an interrupted turn; or say what would be done."""
    examined = examined_session(selector, root, deep=True)
    damage = [finding for finding in examined.findings if finding.severity == "damage"]
    out = console()
    if accept_shorter and (not damage or [finding.rule for finding in damage] == ["mark-ahead"]):
        return _accept_shorter(out, examined, apply=apply) if damage else _whole(out, examined, "accept")
    if damage:
        out.print(f"{printable(examined.patient.session_id)}  damaged; a repair does not touch it", style="bold red")
        print_findings(out, examined, damage)
        return ExitCode.FAULT
    hindered = [finding for finding in examined.findings if finding.rule in (*_HELD, *UNREAD)]
    if hindered:
        why = "in use; whoever has it repairs it" if hindered[0].rule in _HELD else "not for this build to repair"
        out.print(f"{printable(examined.patient.session_id)}  {why}", style="bold")
        print_findings(out, examined, hindered)
        return ExitCode.UNREADABLE
    patient = examined.patient
    stored = patient.store.read(patient.location)
    repair, closers = planned_repair(patient.store, patient.location), _closers(stored)
    if repair is None and not closers:
        return _whole(out, examined, "repair")
    if apply:
        repair, closers = _apply(examined, stored.header.id)
    _print(out, examined, repair, closers, stored, apply=apply)
    return ExitCode.OK


def _apply(examined: Examined, session_id: str) -> tuple[Repair | None, Sequence[SessionEvent]]:
    with examined.patient.store.open(session_id) as writer:
        repair = writer.repair()
        closers = () if writer.stored is None else _closers(writer.stored)
        if closers:
            writer.append(EncodedBatch(first_seq=writer.next_seq, events=tuple(closers)))
    return repair, closers


def _closers(stored: StoredPrefix) -> Sequence[SessionEvent]:
    return repair_closers(stored.events.validate(stored.header))


def _whole(out: Console, examined: Examined, what: str) -> ExitCode:
    out.print(f"{printable(examined.patient.session_id)}  nothing to {what}")
    return ExitCode.OK


def _accept_shorter(out: Console, examined: Examined, *, apply: bool) -> ExitCode:
    patient = examined.patient
    if apply:
        before, now = patient.store.accept_shorter(patient.location)
        out.print(f"{printable(patient.session_id)}  accepted as it is", style="bold")
        print_labelled(out, "  mark  ", f"lowered from {before} acknowledged bytes to the {now} that are there")
        return ExitCode.OK
    (finding,) = (finding for finding in examined.findings if finding.rule == "mark-ahead")
    out.print(f"{printable(patient.session_id)}  would be accepted as it is", style="bold")
    print_labelled(out, "  mark  ", f"would be lowered: {finding.reason}")
    _print_undone(out, f"dshpy repair {patient.selector} --apply --accept-shorter")
    return ExitCode.OK


def _print(
    out: Console,
    examined: Examined,
    repair: Repair | None,
    closers: Sequence[SessionEvent],
    stored: StoredPrefix,
    *,
    apply: bool,
) -> None:
    done = "repaired" if apply else "would be repaired"
    out.print(f"{printable(examined.patient.session_id)}  {done}", style="bold")
    if repair is not None:
        kept = "nothing but zeros" if repair.saved_as is None else f"kept in {Path(repair.saved_as).name}"
        print_labelled(out, "  cut   ", f"{repair.cut.size_bytes} bytes from byte {repair.cut.offset} on, {kept}")
        if repair.salvaged:
            first = stored.next_seq - repair.salvaged
            seqs = f"seq {first} to {stored.next_seq - 1}" if repair.salvaged > 1 else f"seq {first}"
            print_labelled(out, "  append", f"{repair.salvaged} whole event(s) of these bytes again, {seqs}")
    for event in closers:
        print_labelled(out, "  close ", f"{event.type}, seq {event.seq}")
    if not apply:
        _print_undone(out, f"dshpy repair {examined.patient.selector} --apply")


def _print_undone(out: Console, command: str) -> None:
    print_labelled(out, "  nothing was changed; to do it:", one_line(command), style="green")
