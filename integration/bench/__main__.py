"""`python -m bench`: measure, and print a table or JSON. Exit code 1 says that a target was missed."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from . import appending, children, database, listing, logs, memory, reading, starting, throughput
from .contest import Arena, Figure, say

ROOT = Path(__file__).resolve().parents[2]
SUITES = ("read", "memory", "suffix", "list", "import", "append", "grown", "events", "database", "children")


def main() -> int:
    """Run what the command line asks for."""
    arguments = _arguments()
    folder: Path = arguments.data
    folder.mkdir(parents=True, exist_ok=True)
    sizes = logs.QUICK if arguments.quick else logs.FULL
    arena = Arena(seed=arguments.seed, rounds=2 if arguments.quick else arguments.rounds)
    made = logs.prepare(folder, sizes, fresh=arguments.fresh)
    suites: Mapping[str, Callable[[], Iterable[Figure]]] = {
        "read": lambda: reading.whole(arena, made),
        "memory": lambda: memory.peak(made),
        "suffix": lambda: reading.suffix(arena, made),
        "list": lambda: listing.sessions(arena, made),
        "import": lambda: starting.imports(arena),
        "append": lambda: appending.durable(arena, folder),
        "grown": lambda: appending.grown(arena, made),
        "events": lambda: throughput.durable(arena, folder),
        "database": lambda: database.commits(arena, folder, made),
        "children": lambda: children.commands(arena, folder),
    }
    figures = [figure for name in arguments.suites or SUITES for figure in suites[name]()]
    say("done\n" if sys.stderr.isatty() else "done")
    machine = _machine()
    if arguments.json:
        shown = [{**dataclasses.asdict(figure), "verdict": figure.verdict} for figure in figures]
        print(json.dumps({"machine": machine, "quick": arguments.quick, "figures": shown}, indent=2))
    else:
        print(_table(figures))
        print(", ".join(f"{name} {value}" for name, value in machine.items()))
        if arguments.quick:
            print("a quick run only shows that everything runs: the targets are for the whole sizes")
    missed = any(figure.verdict == "missed" for figure in figures)
    return 1 if missed and not arguments.quick else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="nox -s bench --", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"only these of {', '.join(SUITES)}")
    parser.add_argument("--quick", action="store_true", help="small logs and two rounds, to see that everything runs")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--rounds", type=int, help="rounds of every contest, instead of its own number")
    parser.add_argument("--seed", type=int, default=3, help="for the order of turns")
    parser.add_argument("--fresh", action="store_true", help="write the logs anew")
    parser.add_argument("--data", type=Path, default=ROOT / "build" / "bench", help="where the logs are kept")
    found = parser.parse_args()
    if unknown := set(found.suites) - set(SUITES):
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    return found


def _machine() -> dict[str, Any]:
    return {
        "Python": platform.python_version(),
        "msgspec": msgspec.__version__,
        "zstandard": zstandard.__version__,
        "zstd": ".".join(map(str, zstandard.ZSTD_VERSION)),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }


def _table(figures: Iterable[Figure]) -> str:
    """Lay the figures out as a Markdown table."""
    lines = ["| what | value | target | verdict | against |", "|---|---|---|---|---|"]
    for figure in figures:
        target = ""
        if figure.least is not None:
            target = f"≥ {figure.least:,.4g} {figure.unit}"
        elif figure.most is not None:
            target = f"≤ {figure.most:,.4g} {figure.unit}"
        value = f"{figure.value:,.0f}" if figure.value >= 100 else f"{figure.value:.3g}"
        lines.append(f"| {figure.what} | {value} {figure.unit} | {target} | {figure.verdict} | {figure.against} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
