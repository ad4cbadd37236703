"""Hooks as people and programs read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dsh_hook_bridges import Feature, FileState, Handler, HookFile, HookOutcome, HookProblem, dialect_of, is_reachable

from ._show import GUTTER
from ._text import one_line, print_labelled, printable

if TYPE_CHECKING:
    from rich.console import Console

_LABEL_WIDTH = 16
_STDERR_CHARACTERS = 500
_STYLES = {"pass": "green", "allow": "green", "ask": "yellow", "deny": "yellow"}
"""Of outcomes; all others are failures."""


def print_line(out: Console, label: str, text: str, style: str = "") -> None:
    """Print one line of a file, however many rows it takes."""
    print_labelled(out, f"{label:>{_LABEL_WIDTH}}", text, gutter=GUTTER, style=style)


def print_path(out: Console, file: HookFile, facts: str) -> None:
    """Print which file it is that the next lines are about."""
    out.print(one_line(file.path), style="bold")
    out.print(f"  {printable(facts)}", style="dim")
    if file.disables_all is not None:
        print_line(out, "switch", switch_text(file), "yellow")


def switch_text(file: HookFile) -> str:
    """Return what a file does that turns all hooks off, or on again."""
    return f"turns all {file.dialect} hooks {'off' if file.disables_all else 'on'}, those of other files too"


def print_handler(out: Console, handler: Handler) -> None:
    """Print a hook: the command, then when and how it runs."""
    print_line(out, handler.point, handler.command)
    print_line(out, "", "; ".join(_facts(handler)), "dim")


def _facts(handler: Handler) -> Iterator[str]:
    if handler.matcher is not None:
        yield f"matcher {handler.matcher or 'empty'}"
    yield f"timeout {_timeout_s(handler):g} s"
    if handler.is_detached:
        yield "async"
    if handler.on_failure == "closed":
        yield "onFailure closed"
    if handler.pass_env:
        yield f"passEnv {', '.join(handler.pass_env)}"
    if not is_reachable(dialect_of(handler.dialect), handler):
        yield "the matcher takes nothing that happens here"


def print_outcome(out: Console, outcome: HookOutcome) -> None:
    """Print what came of a hook that was tried."""
    answer = outcome.answer
    ended = "" if outcome.exit_code is None else f"exit {outcome.exit_code}, "
    reason = f": {answer.reason}" if answer.reason else ""
    print_line(out, outcome.kind, f"{ended}{outcome.duration_ms:.0f} ms{reason}", _STYLES.get(outcome.kind, "red"))
    stderr = _stderr(outcome)
    if stderr and stderr not in answer.reason:
        print_line(out, "stderr", stderr, "dim")
    if answer.context:
        print_line(out, "adds", answer.context, "dim")
    if answer.message:
        print_line(out, "says", answer.message, "dim")
    if answer.updated_input is not None:
        print_line(out, "changes", "the input of the call", "dim")
    if answer.stops:
        print_line(out, "stops", answer.stop_reason or "the turn", "yellow")
    if answer.ignored:
        print_line(out, "ignored", f"{', '.join(answer.ignored)} has no effect here", "yellow")


def print_problem(out: Console, problem: HookProblem) -> None:
    """Print what is wrong, and where in the file."""
    print_line(out, "problem", f"{problem.place}: {problem.message}" if problem.place else problem.message, "red")


def notes(file: HookFile) -> list[Feature]:
    """Return what a file uses that works in part, or is ignored; an ignored event is a problem already."""
    return [
        feature
        for feature in file.features
        if feature.support != "supported" and (feature.support, feature.kind) != ("ignored", "event")
    ]


def print_note(out: Console, feature: Feature) -> None:
    """Print how far something works."""
    print_line(out, feature.support, f"{feature.name}: {feature.note}" if feature.note else feature.name, "dim")


def file_json(file: HookFile, *, state: FileState | None = None) -> dict[str, Any]:
    """Return a file for programs, but for its hooks."""
    fields: dict[str, Any] = {"path": file.path, "dialect": file.dialect}
    if state is not None:
        fields |= {"layer": file.layer, "state": state}
    if file.disables_all is not None:
        fields["disablesAll"] = file.disables_all
    return fields


def handler_json(handler: Handler) -> dict[str, Any]:
    """Return a hook for programs, in the words of the files."""
    return {
        "place": handler.place,
        "event": handler.point,
        "matcher": handler.matcher,
        "command": handler.command,
        "timeout": _timeout_s(handler),
        "async": handler.is_detached,
        "onFailure": handler.on_failure,
        "passEnv": list(handler.pass_env),
        "reachable": is_reachable(dialect_of(handler.dialect), handler),
    }


def outcome_json(outcome: HookOutcome) -> dict[str, Any]:
    """Return what came of a hook that was tried, what it did not say left out."""
    answer = outcome.answer
    said = {
        "reason": answer.reason,
        "stderr": _stderr(outcome),
        "context": answer.context,
        "message": answer.message,
        "updatedInput": answer.updated_input,
        "stopReason": answer.stop_reason,
        "ignored": list(answer.ignored),
    }
    fields: dict[str, Any] = {"outcome": outcome.kind, "exitCode": outcome.exit_code, "stops": answer.stops}
    fields["durationMs"] = round(outcome.duration_ms)
    return fields | {name: value for name, value in said.items() if value}


def feature_json(feature: Feature) -> dict[str, str]:
    """Return a row of the table of features for programs."""
    fields = {"kind": feature.kind, "name": feature.name, "support": feature.support}
    return {**fields, "note": feature.note} if feature.note else fields


def _timeout_s(handler: Handler) -> float:
    return dialect_of(handler.dialect).timeout_s(handler.point, handler.timeout_s)


def _stderr(outcome: HookOutcome) -> str:
    text = outcome.stderr.strip()
    return text if len(text) <= _STDERR_CHARACTERS else f"{text[:_STDERR_CHARACTERS]}…"
