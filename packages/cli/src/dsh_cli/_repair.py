"""``dshpy repair``: what a resume would do to make a session whole, without going on with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from dsh_persistence import Repair, StoredPrefix
from dsh_persistence_jsonl import Finding, planned_repair
from dsh_session import EncodedBatch, SessionEvent, repair_closers

from ._doctor import Examined, Patient, examined_session, finding_json, print_findings
from ._exit import ExitCode
from ._findings import UNREAD
from ._roots import path_json
from ._text import console, one_line, print_json, print_labelled, printable

if TYPE_CHECKING:
    from rich.console import Console

_HELD = ("in-use", "in-flight")
_LINES = {
    "nothing to repair": ("nothing to repair", "nothing to repair"),
    "nothing to accept": ("nothing to accept", "nothing to accept"),
    "repaired": ("would be repaired", "repaired"),
    "accepted": ("would be accepted as it is", "accepted as it is"),
    "damaged": ("damaged; a repair does not touch it", "damaged; a repair does not touch it"),
    "in use": ("in use; whoever has it repairs it", "in use; whoever has it repairs it"),
    "not for this build": ("not for this build to repair", "not for this build to repair"),
}
"""What each outcome is called in a dry run, and else."""


class _Outcome(NamedTuple):
    """What became of a session, or would."""

    what: Literal[
        "nothing to repair", "nothing to accept", "repaired", "accepted", "damaged", "in use", "not for this build"
    ]
    code: ExitCode = ExitCode.OK
    why: Sequence[Finding] = ()
    """What stands in the way."""
    repair: Repair | None = None
    first_salvaged: int = 0
    """The seq of the first event that is appended again."""
    closers: Sequence[SessionEvent] = ()
    mark: str = ""
    """What happens to the mark."""


def repair_session(selector: str, root: str | None, *, apply: bool, accept_shorter: bool, as_json: bool) -> ExitCode:
    """Cut and keep a torn tail, append its whole events again, close an interrupted turn; or say what would be done."""
    examined = examined_session(selector, root, deep=True)
    outcome = _accepted(examined, apply=apply) if accept_shorter else _repaired(examined, apply=apply)
    if as_json:
        print_json(_json(examined, outcome, apply=apply))
    else:
        _print(console(), examined, outcome, apply=apply, accept_shorter=accept_shorter)
    return outcome.code


def _accepted(examined: Examined, *, apply: bool) -> _Outcome:
    damage = _damage(examined)
    if not damage:
        return _Outcome("nothing to accept")
    if [finding.rule for finding in damage] != ["mark-ahead"]:
        return _Outcome("damaged", ExitCode.FAULT, damage)
    if not apply:
        return _Outcome("accepted", mark=f"would be lowered: {damage[0].reason}")
    files = examined.patient.root.require_files("--accept-shorter is for log files", "it cannot be shorter unnoticed")
    before, now = files.accept_shorter(examined.patient.location)
    return _Outcome("accepted", mark=f"lowered from {before} acknowledged bytes to the {now} that are there")


def _repaired(examined: Examined, *, apply: bool) -> _Outcome:
    if damage := _damage(examined):
        return _Outcome("damaged", ExitCode.FAULT, damage)
    if hindered := [finding for finding in examined.findings if finding.rule in (*_HELD, *UNREAD)]:
        what: Literal["in use", "not for this build"] = "in use" if hindered[0].rule in _HELD else "not for this build"
        return _Outcome(what, ExitCode.UNREADABLE, hindered)
    patient = examined.patient
    stored = patient.root.store.read(patient.location)
    repair, closers = _planned(patient), _closers(stored)
    if repair is None and not closers:
        return _Outcome("nothing to repair")
    if apply:
        repair, closers = _apply(examined, stored.header.id)
    first_salvaged = stored.next_seq - (0 if repair is None else repair.salvaged)
    return _Outcome("repaired", repair=repair, first_salvaged=first_salvaged, closers=closers)


def _planned(patient: Patient) -> Repair | None:
    """Return what is to be cut; a database has no torn tails."""
    return None if patient.root.files is None else planned_repair(patient.root.files, patient.location)


def _damage(examined: Examined) -> list[Finding]:
    return [finding for finding in examined.findings if finding.severity == "damage"]


def _apply(examined: Examined, session_id: str) -> tuple[Repair | None, Sequence[SessionEvent]]:
    with examined.patient.root.store.open(session_id) as writer:
        repair = writer.repair()
        closers = () if writer.stored is None else _closers(writer.stored)
        if closers:
            writer.append(EncodedBatch(first_seq=writer.next_seq, events=tuple(closers)))
    return repair, closers


def _closers(stored: StoredPrefix) -> Sequence[SessionEvent]:
    return repair_closers(stored.events.validate(stored.header))


def _print(out: Console, examined: Examined, outcome: _Outcome, *, apply: bool, accept_shorter: bool) -> None:
    style = "bold red" if outcome.what == "damaged" else "" if outcome.what.startswith("nothing") else "bold"
    out.print(f"{printable(examined.patient.session_id)}  {_LINES[outcome.what][apply]}", style=style)
    print_findings(out, examined, list(outcome.why))
    repair = outcome.repair
    if repair is not None:
        kept = "nothing but zeros" if repair.saved_as is None else f"kept in {Path(repair.saved_as).name}"
        print_labelled(out, "  cut   ", f"{repair.cut.size_bytes} bytes from byte {repair.cut.offset} on, {kept}")
        if repair.salvaged:
            last = outcome.first_salvaged + repair.salvaged - 1
            seqs = f"seq {outcome.first_salvaged}" + (f" to {last}" if repair.salvaged > 1 else "")
            print_labelled(out, "  append", f"{repair.salvaged} whole event(s) of these bytes again, {seqs}")
    for event in outcome.closers:
        print_labelled(out, "  close ", f"{event.type}, seq {event.seq}")
    if outcome.mark:
        print_labelled(out, "  mark  ", outcome.mark)
    if not apply and outcome.what in ("repaired", "accepted"):
        command = f"dshpy repair {examined.patient.selector} --apply" + (" --accept-shorter" if accept_shorter else "")
        print_labelled(out, "  nothing was changed; to do it:", one_line(command), style="green")


def _json(examined: Examined, outcome: _Outcome, *, apply: bool) -> dict[str, Any]:
    patient = examined.patient
    return {
        "id": patient.session_id,
        **path_json(patient.location),
        "outcome": outcome.what,
        "applied": apply and outcome.what in ("repaired", "accepted"),
        "findings": [finding_json(finding, patient) for finding in outcome.why],
        "repair": None if outcome.repair is None else msgspec.to_builtins(outcome.repair),
        "closers": [{"type": event.type, "seq": event.seq} for event in outcome.closers],
        "mark": outcome.mark or None,
    }
