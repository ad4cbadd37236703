"""``dshpy hooks check``: which hooks there are, whether they run, and what is wrong with them."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsh_hook_bridges import DialectName, FileState, Handler, HookFile, HookOutcome, HookProblem

from ._exit import ExitCode
from ._hooks_dialect import read_file
from ._hooks_layers import DIALECTS, hooks_at, trust_store
from ._hooks_report import (
    feature_json,
    file_json,
    handler_json,
    notes,
    outcome_json,
    print_handler,
    print_line,
    print_note,
    print_outcome,
    print_path,
    print_problem,
)
from ._text import console, print_json, printable, say

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What ``dshpy hooks check`` was asked for."""

    dialect: DialectName | None
    cwd: str | None
    """None: the current directory."""
    home: str | None
    tries: bool
    """Whether hooks are run."""
    as_json: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A file, and what is known of it."""

    file: HookFile
    facts: str
    """Whose it is, for people."""
    state: FileState | None = None
    """None for a file that somebody named."""

    @property
    def runs(self) -> bool:
        """Whether its hooks run, if it counts at all."""
        return self.file.disables_all is not True if self.state is None else self.state == "active"

    @property
    def tried(self) -> Sequence[Handler]:
        """Those of its hooks that may be tried: of a file that somebody named, all."""
        return self.file.handlers if self.state in (None, "active") else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that was checked."""

    project: str | None
    """Whose hooks they are; None for one file."""
    checked: Sequence[Checked]
    problems: Sequence[HookProblem]
    """What is wrong beside the files."""
    outcomes: Mapping[Handler, HookOutcome] | None
    """None where nothing was tried."""

    @property
    def hooks(self) -> int:
        """How many hooks there are."""
        return sum(len(one.file.handlers) for one in self.checked)

    @property
    def running(self) -> int:
        """How many of them run."""
        return sum(len(one.file.handlers) for one in self.checked if one.runs)

    @property
    def faults(self) -> int:
        """How many things are wrong."""
        failed = [] if self.outcomes is None else [one for one in self.outcomes.values() if one.has_failed]
        return len(self.problems) + sum(len(one.file.problems) for one in self.checked) + len(failed)

    def json(self) -> dict[str, Any]:
        """Return the report as one JSON document."""
        place = {} if self.project is None else {"project": self.project, "problems": list(map(str, self.problems))}
        files = [self._file_json(one) for one in self.checked]
        return {**place, "files": files, "hooks": self.hooks, "running": self.running, "faults": self.faults}

    def _file_json(self, one: Checked) -> dict[str, Any]:
        return {
            **file_json(one.file, state=one.state),
            "hooks": [{**handler_json(handler), **self._outcome_json(handler)} for handler in one.file.handlers],
            "problems": [{"place": problem.place, "message": problem.message} for problem in one.file.problems],
            "notes": list(map(feature_json, notes(one.file))),
        }

    def _outcome_json(self, handler: Handler) -> dict[str, Any]:
        if self.outcomes is None:
            return {}
        outcome = self.outcomes.get(handler)
        return {"run": None if outcome is None else outcome_json(outcome)}

    def print(self) -> None:
        """Print the report for a person."""
        out = console()
        if self.project is not None:
            out.print(f"project {printable(self.project)}", style="bold")
        for problem in self.problems:
            print_problem(out, problem)
        for one in self.checked:
            self._print_file(out, one)
        if self.project is not None and not self.checked:
            out.print("no hooks: neither it nor its user has a file of them")
            return
        what = "hook" if self.hooks == 1 else "hooks"
        runs = "runs" if self.running == 1 else "run"
        place = "" if self.project is None else f" in {len(self.checked)} file(s)"
        faults = f"; {self.faults} fault(s)" if self.faults else ""
        out.print(f"{self.hooks} {what}{place}, {self.running} {runs}{faults}")

    def _print_file(self, out: Console, one: Checked) -> None:
        print_path(out, one.file, one.facts)
        for handler in one.file.handlers:
            print_handler(out, handler)
            outcome = None if self.outcomes is None else self.outcomes.get(handler)
            if outcome is not None:
                print_outcome(out, outcome)
            elif self.outcomes is not None:
                print_line(out, "not run", f"its file is {one.state}", "dim")
        for problem in one.file.problems:
            print_problem(out, problem)
        for note in notes(one.file):
            print_note(out, note)


def check_file(path: str, options: CheckOptions) -> ExitCode:
    """Print what one file says. Raises ``OSError`` for one that may not be read."""
    try:
        is_file = stat.S_ISREG(Path(path).stat().st_mode)
        read = read_file(path, options.dialect) if is_file else None
    except (FileNotFoundError, NotADirectoryError):
        say(f"{path} does not exist; --all looks where files of hooks usually are")
        return ExitCode.NOT_FOUND
    if read is None:
        say(f"{path} is no file; name one of Claude Code's or Codex's configuration files")
        return ExitCode.UNREADABLE
    facts = f"{read.file.dialect}, {read.reason}"
    return _report(None, [Checked(file=read.file, facts=facts)], [], options)


def check_all(options: CheckOptions) -> ExitCode:
    """Print what every file of the user and of a project says, and whether its hooks run."""
    dialects = DIALECTS if options.dialect is None else (options.dialect,)
    trust = trust_store(options.home)
    found = hooks_at(options.cwd, trust, dialects)
    checked = [
        Checked(file=one.file, facts=f"{one.file.dialect}, {one.file.layer}, {one.state}", state=one.state)
        for one in found.files
    ]
    unclear = found.trust_problem
    problems = [] if unclear is None else [HookProblem(path=trust.path, place="", message=unclear)]
    code = _report(found.project, checked, problems, options)
    if not options.as_json and any(one.state in ("untrusted", "changed") for one in checked):
        say(f"the project's hooks do not run until you have read and trusted them: dshpy hooks trust {found.project}")
    return code


def _report(
    project: str | None, checked: Sequence[Checked], problems: Sequence[HookProblem], options: CheckOptions
) -> ExitCode:
    outcomes = None
    if options.tries:
        from ._hooks_try import try_hooks  # noqa: PLC0415  # who only looks needs no executor

        handlers = [handler for one in checked for handler in one.tried]
        cwd = options.cwd or os.getcwd()
        outcomes = asyncio.run(try_hooks(handlers, cwd=cwd, home=options.home))
    report = Report(project=project, checked=checked, problems=problems, outcomes=outcomes)
    if options.as_json:
        print_json(report.json())
    else:
        report.print()
    return ExitCode.FAULT if report.faults else ExitCode.OK
