"""``dshpy contract``: the promises of the storage seam, tried on anybody's store."""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from ._exit import ExitCode
from ._text import console, one_line, print_json, printable

if TYPE_CHECKING:
    from dsh_persistence.contract import ContractReport, Factory, PromiseResult

_STYLES = {"passed": "green", "failed": "bold red", "skipped": "dim"}


def run(target: str, *, only: tuple[str, ...], junit: str | None, as_json: bool) -> ExitCode:
    """Run the contract against the store that ``target`` makes and print what became of each promise."""
    factory = _factory(target)
    try:
        from dsh_persistence.contract import run_contract  # noqa: PLC0415  # needs what only the extra brings
    except ImportError as error:
        raise click.UsageError(f"{error.name} is missing; pip install 'dshpy[contract]' brings it.") from None
    report = run_contract(factory, only=only, junit=None if junit is None else Path(junit), progress=_progress)
    if as_json:
        print_json({"target": target, "kept": report.kept, **dataclasses.asdict(report)})
    else:
        _print_table(report)
    return ExitCode.OK if report.kept else ExitCode.FAULT


def _factory(target: str) -> Factory:
    module_name, _, name = target.partition(":")
    if not (module_name and name):
        raise click.BadParameter(f"{target!r} is not of the form package.module:factory.", param_hint="FACTORY")
    sys.path.insert(0, os.getcwd())  # as `python -m` does; the script `dshpy` lies elsewhere
    try:
        found: object = importlib.import_module(module_name)
    except Exception as error:  # noqa: BLE001  # anybody's module may raise anything
        reason = f"{module_name} cannot be imported: {type(error).__name__}: {one_line(str(error))}"
        raise click.BadParameter(reason, param_hint="FACTORY") from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise click.BadParameter(f"{module_name} has no {name}.", param_hint="FACTORY")
        found = getattr(found, part)
    if not callable(found):
        raise click.BadParameter(
            f"{target} cannot be called; it takes a folder and returns a store.", param_hint="FACTORY"
        )
    return cast("Factory", found)


def _progress(result: PromiseResult) -> None:
    sys.stderr.write(f"{result.number} {result.outcome}\n")


def _print_table(report: ContractReport) -> None:
    from rich.table import Table  # noqa: PLC0415  # only rendering needs it
    from rich.text import Text  # noqa: PLC0415  # as above

    out = console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    table.add_column("promise", overflow="fold")
    for one in report.promises:
        table.add_row(one.number, Text(one.outcome, style=_STYLES[one.outcome]), one.promise)
        if one.message is not None:
            table.add_row("", "", Text(printable(one.message), style="dim"))
    out.print(table)
    if report.problem is not None:
        out.print(Text(printable(report.problem), style="bold red"))
    counts = Counter(one.outcome for one in report.promises)
    out.print(f"{counts['passed']} kept, {counts['failed']} broken, {counts['skipped']} skipped")
