"""``dshpy doctor``: what is wrong with stored sessions, and what helps; nothing is changed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from dsh_persistence import SessionLocation, SessionNotFound
from dsh_persistence_jsonl import Finding

from ._exit import ExitCode
from ._findings import UNREAD, examine_at
from ._roots import Root, id_at, open_root, path_json, session_id_of
from ._selectors import names_a_path, select
from ._text import console, one_line, print_json, print_labelled, printable

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN = 20
"""So many findings of one session are shown to people."""


class Patient(NamedTuple):
    """A session to be examined, and how a command names it."""

    root: Root
    location: SessionLocation
    session_id: str
    selector: str
    """Quoted for a shell, and with the root it needs."""


class Examined(NamedTuple):
    """A session and what was found."""

    patient: Patient
    findings: list[Finding]

    @property
    def damaged(self) -> bool:
        """Whether the session cannot be read, continued or found as it is."""
        return any(finding.severity == "damage" for finding in self.findings)

    @property
    def verdict(self) -> str:
        """One word for people."""
        if self.damaged:
            return "damaged"
        return "not for this build" if any(finding.rule in UNREAD for finding in self.findings) else "sound"


def examine_session(selector: str, root: str | None, *, deep: bool, as_json: bool) -> ExitCode:
    """Print what there is to say about one session."""
    examined = examined_session(selector, root, deep=deep)
    if as_json:
        print_json({"root": examined.patient.root.where, "damaged": int(examined.damaged), **_json([examined])})
    else:
        _print(console(), examined)
    return ExitCode.FAULT if examined.damaged else ExitCode.OK


def examined_session(selector: str, root: str | None, *, deep: bool) -> Examined:
    """Find one session, which may be damaged, and examine it. Raises as ``select`` does."""
    selected = select(selector, root, damaged=True)
    session_id = id_at(selected.location)
    named = shlex.quote(selector) if names_a_path(selector) else _with_root(session_id, selected.root, root)
    patient = Patient(selected.root, selected.location, session_id, named)
    return Examined(patient, list(examine_at(selected.root, selected.location, deep=deep)))


def examine_all(root: str | None, *, deep: bool, as_json: bool) -> ExitCode:
    """Print what there is to say about every session of a root; those that are sound on one line each."""
    opened = open_root(root)
    every = _every(opened, root, deep=deep)
    if as_json:
        found = list(every)
        damaged = sum(one.damaged for one in found)
        print_json({"root": opened.where, "damaged": damaged, **_json(found)})
        return ExitCode.FAULT if damaged else ExitCode.OK
    out, counts = console(), dict.fromkeys(("sound", "damaged", "not for this build"), 0)
    for examined in every:
        counts[examined.verdict] += 1
        if examined.damaged:
            _print(out, examined)
        else:
            _print_line(out, examined)
    total = sum(counts.values())
    counted = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    out.print(f"{total} session(s) in {printable(opened.where)}" + (f": {counted}" if total else ""))
    return ExitCode.FAULT if counts["damaged"] else ExitCode.OK


def print_findings(out: Console, examined: Examined, findings: list[Finding]) -> None:
    """Print each finding with its place and what helps."""
    for finding in findings[:_SHOWN]:
        out.print(f"  {finding.rule}{_place_of(finding)}", style="bold red" if finding.severity == "damage" else "")
        print_labelled(out, "   ", one_line(finding.reason))
        if finding.path != examined.patient.root.where and not finding.path.startswith(
            examined.patient.location.path.rsplit("/", 1)[0] + "/session.v"
        ):
            print_labelled(out, "   ", one_line(finding.path), style="dim")
        remedy = remedy_of(finding, examined.patient)
        if remedy:
            print_labelled(out, "    →", one_line(remedy), style="green")
    if len(findings) > _SHOWN:
        out.print(f"  … and {len(findings) - _SHOWN} more; --json has them all")


def remedy_of(finding: Finding, patient: Patient) -> str:
    """Return the command that helps, or what a person does."""
    lost_header = " --cwd DIR" if finding.rule.startswith("header-") else ""
    commands = {
        "repair": f"dshpy repair {patient.selector} --apply",
        "accept-shorter": f"dshpy repair {patient.selector} --apply --accept-shorter",
        "salvage": f"dshpy salvage {patient.selector} -o NEWROOT{lost_header}",
    }
    return commands.get(finding.remedy, finding.remedy)


def finding_json(finding: Finding, patient: Patient) -> dict[str, Any]:
    """Return a finding for programs, what it does not say left out."""
    fields = {
        "rule": finding.rule,
        "severity": finding.severity,
        "path": finding.path,
        "offset": finding.offset,
        "frame": finding.frame,
        "line": finding.line,
        "seq": finding.seq,
        "reason": finding.reason,
        "remedy": remedy_of(finding, patient),
    }
    return {key: value for key, value in fields.items() if value is not None}


def _every(opened: Root, root: str | None, *, deep: bool) -> Iterator[Examined]:
    shows_progress = sys.stderr.isatty()
    for count, entry in enumerate(opened.store.list(), 1):
        session_id = session_id_of(entry)
        if shows_progress:
            sys.stderr.write(f"\r\x1b[Kexamining {count}: {one_line(session_id)[:60]}")
            sys.stderr.flush()
        patient = Patient(opened, entry.location, session_id, _with_root(session_id, opened, root))
        try:
            examined = Examined(patient, list(examine_at(opened, entry.location, deep=deep, problem=entry.problem)))
        except SessionNotFound:
            continue  # removed since it was listed
        finally:
            if shows_progress:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()
        yield examined


def _with_root(selector: str, opened: Root, root: str | None) -> str:
    quoted = shlex.quote(selector)
    if root is None:
        return quoted
    return f"{quoted} --root {shlex.quote(opened.where if '://' in root else root)}"


def _print(out: Console, examined: Examined) -> None:
    style = "bold red" if examined.damaged else "bold"
    out.print(f"{printable(examined.patient.session_id)}  {examined.verdict}", style=style)
    patient = examined.patient
    print_labelled(out, " ", patient.root.where if patient.root.files is None else patient.location.path, style="dim")
    ordered = sorted(examined.findings, key=lambda finding: finding.severity)
    print_findings(out, examined, ordered)


def _print_line(out: Console, examined: Examined) -> None:
    notices = ", ".join(dict.fromkeys(finding.rule for finding in examined.findings))
    out.print(f"{printable(examined.patient.session_id)}  {examined.verdict}" + (f" ({notices})" if notices else ""))


def _place_of(finding: Finding) -> str:
    places = {"byte": finding.offset, "frame": finding.frame, "line": finding.line, "seq": finding.seq}
    known = ", ".join(f"{name} {value}" for name, value in places.items() if value is not None)
    return f"  {known}" if known else ""


def _json(examined: list[Examined]) -> dict[str, Any]:
    return {"sessions": [_session_json(one) for one in examined]}


def _session_json(examined: Examined) -> dict[str, Any]:
    findings = [finding_json(finding, examined.patient) for finding in examined.findings]
    patient = examined.patient
    fields = {"id": patient.session_id, **path_json(patient.location)}
    return {**fields, "verdict": examined.verdict, "findings": findings}
