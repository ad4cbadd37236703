"""``dshpy hooks trust``: whose code a project's hooks may run as, and when."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dsh_agent import find_project
from dsh_hook_bridges import FoundFile, Handler, HookSet, TrustState, TrustStore, scripts_of

from ._approval import can_ask, discard_input
from ._exit import ExitCode
from ._hooks_layers import hooks_of, trust_store
from ._hooks_report import file_json, handler_json, print_handler, print_line, print_path, print_problem
from ._text import console, one_line, print_json, print_labelled, say

if TYPE_CHECKING:
    from rich.console import Console

_STATES = {"untrusted": "not trusted", "trusted": "trusted as it is", "changed": "changed since it was trusted"}


class _AsIfTrusted(TrustStore):
    """Answers as it will once a project is trusted."""

    def state_of(self, project: str, print_: str) -> TrustState:  # noqa: ARG002  # every project is
        """Return that a project is trusted as it is now."""
        return "trusted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A project that may be trusted, as it is now."""

    hooks: HookSet
    """As they will be."""
    state: TrustState

    @property
    def files(self) -> Sequence[FoundFile]:
        """Those that come with the project."""
        return [found for found in self.hooks.files if found.file.layer != "user"]

    @property
    def says_anything(self) -> bool:
        """Whether trusting it makes any difference."""
        return any(found.file.handlers or found.file.disables_all is not None for found in self.files)

    @property
    def count(self) -> int:
        """How many of its hooks run once it is trusted."""
        return sum(len(found.file.handlers) for found in self.files if found.state == "active")

    def covered(self, handler: Handler) -> list[str]:
        """Return the project's files that a hook names."""
        project = self.hooks.project
        return sorted({os.path.relpath(path, project) for path in scripts_of(handler, project)})

    def json(self, *, is_trusted: bool) -> dict[str, Any]:
        """Return the project as one JSON document."""
        return {
            "project": self.hooks.project,
            "before": self.state,
            "trusted": is_trusted,
            "hooks": self.count,
            "files": [self._file_json(found) for found in self.files],
        }

    def _file_json(self, found: FoundFile) -> dict[str, Any]:
        return {
            **file_json(found.file, state=found.state),
            "hooks": [{**handler_json(each), "covered": self.covered(each)} for each in found.file.handlers],
            "problems": [{"place": problem.place, "message": problem.message} for problem in found.file.problems],
        }

    def print(self, out: Console) -> None:
        """Print every hook, and what trust covers, for a person."""
        print_labelled(out, "project", self.hooks.project, style="bold")
        out.print(f"  {_STATES[self.state]}", style="dim")
        for found in self.files:
            state = "" if found.state == "active" else f", {found.state}"
            print_path(out, found.file, f"{found.file.dialect}, {found.file.layer}{state}")
            for handler in found.file.handlers:
                print_handler(out, handler)
                covered = self.covered(handler)
                if covered:
                    print_line(out, "covers", ", ".join(map(one_line, covered)), "dim")
            for problem in found.file.problems:
                print_problem(out, problem)


def trust_project(directory: str, home: str | None, *, is_sure: bool, as_json: bool) -> ExitCode:
    """Show what would run, ask unless that is known, and trust it. Raises ``TrustUnreadable`` and ``OSError``."""
    store = trust_store(home)
    if not Path(directory).is_dir():
        say(f"{directory} is no folder; name that of a project")
        return ExitCode.NOT_FOUND
    _require_project(directory)
    hooks = hooks_of(directory, _AsIfTrusted(store.path))
    candidate = Candidate(hooks=hooks, state=store.state_of(hooks.project, hooks.fingerprint))
    if not as_json:
        candidate.print(console())
    is_trusted = candidate.state == "trusted"
    if candidate.says_anything and not is_trusted:
        is_trusted = is_sure or _ask(directory)
        if is_trusted:
            store.trust(hooks.project, hooks.fingerprint)
    if as_json:
        print_json(candidate.json(is_trusted=is_trusted))
    else:
        console().print(_result(candidate, is_trusted=is_trusted), style="bold")
    return ExitCode.OK if is_trusted or not candidate.says_anything else ExitCode.FAULT


def revoke_trust(directory: str, home: str | None, *, as_json: bool) -> ExitCode:
    """Trust a project no more; one that is gone, too. Raises ``TrustUnreadable`` and ``OSError``."""
    was_trusted = trust_store(home).revoke(directory)
    if not was_trusted:
        _require_project(directory)
    if as_json:
        print_json({"project": directory, "revoked": was_trusted})
    else:
        what = "is trusted no more; its hooks do not run" if was_trusted else "was not trusted"
        print_labelled(console(), directory, what)
    return ExitCode.OK


def list_trusted(home: str | None, *, as_json: bool) -> ExitCode:
    """Print every project that was trusted, and whether it is what it was. Raises ``TrustUnreadable``."""
    store = trust_store(home)
    projects = list(_states(store))
    if as_json:
        print_json({"projects": [{"project": project, "state": state} for project, state in projects]})
    elif not projects:
        print_labelled(console(), "no project is trusted", f"in {store.path}")
    for project, state in () if as_json else projects:
        print_labelled(console(), f"{state:<7}", project, gutter="  ", style="" if state == "trusted" else "yellow")
    return ExitCode.OK


def _states(store: TrustStore) -> Iterator[tuple[str, str]]:
    for project in store.projects():
        if Path(project).is_dir():
            yield project, store.state_of(project, hooks_of(project, store).fingerprint)
        else:
            yield project, "gone"


def _require_project(directory: str) -> None:
    """Refuse a folder below its project's: it is the project's hooks that run there."""
    project = find_project(directory)
    if project != directory:
        advice = f"dshpy hooks trust {shlex.quote(project)}"
        raise click.UsageError(f"{directory} lies in the project {project}, whose hooks run there: {advice}")


def _ask(directory: str) -> bool:
    """Return whether the person at the terminal trusts what was shown. Raises ``UsageError`` where there is none."""
    if not can_ask():
        advice = f"once you have read these hooks: dshpy hooks trust {shlex.quote(directory)} --yes"
        raise click.UsageError(f"There is no terminal to ask on; {advice}")
    sys.stdout.flush()
    discard_input(sys.stdin.fileno())
    while True:
        sys.stderr.write("Let these hooks run as you? y or n: ")
        sys.stderr.flush()
        answer = sys.stdin.readline()
        match answer.strip().lower():
            case "y" | "yes":
                return True
            case "n" | "no":
                return False
            case "" if not answer:  # the end of input is no yes
                sys.stderr.write("\n")
                return False
            case _:
                continue


def _result(candidate: Candidate, *, is_trusted: bool) -> str:
    if not candidate.says_anything:
        return "no hooks: there is nothing to trust"
    if not is_trusted:
        return "not trusted: its hooks do not run"
    if candidate.state == "trusted":
        return "trusted already"
    hooks = "1 hook runs" if candidate.count == 1 else f"{candidate.count} hooks run"
    return f"trusted: {hooks} from the next session on"
