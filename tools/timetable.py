"""The table that ends a nox run: each session, its tests, its seconds, and the run's total."""

import json
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET


def _tests(report: Path, since: float) -> tuple[int, int, int]:
    """Return what passed, failed and was skipped by a pytest report of this run."""
    if not report.exists() or report.stat().st_mtime < since:
        return 0, 0, 0
    suite = ET.parse(report).getroot().find("testsuite")
    counts = {} if suite is None else suite.attrib
    tests, skipped = int(counts.get("tests", 0)), int(counts.get("skipped", 0))
    failed = int(counts.get("failures", 0)) + int(counts.get("errors", 0))
    return tests - failed - skipped, failed, skipped


def report_name(session: str) -> str:
    """Name the pytest report of a session: `contract(bash)` writes contract-bash.xml."""
    return session.replace("(", "-").replace(")", "").replace(" ", "") + ".xml"


def _tested(entry: dict[str, Any], reports: Path, since: float) -> bool:
    return sum(_tests(reports / report_name(_name(entry)), since)) > 0


def _name(entry: dict[str, Any]) -> str:
    return str((entry["signatures"] or [entry["name"]])[0])


def render(entries: list[dict[str, Any]], reports: Path, started: float) -> str:
    """Lay the table out; its last line is one that a machine can count."""
    rows = []
    passed = failed = skipped = 0
    for entry in entries:
        name = _name(entry)
        note = "" if entry["result"] == "success" else str(entry["result"])
        tests = _tests(reports / report_name(name), started)
        passed, failed, skipped = passed + tests[0], failed + tests[1], skipped + tests[2]
        rows.append((name, str(sum(tests)) if sum(tests) else "", f"{entry['duration']:.1f}", note))
    wide = max(len(row[0]) for row in rows)
    lines = [f"{'session':<{wide}}  {'tests':>6}  {'seconds':>8}"]
    lines += [f"{name:<{wide}}  {tests:>6}  {seconds:>8}  {note}".rstrip() for name, tests, seconds, note in rows]
    lines.append(f"{'total':<{wide}}  {passed + failed + skipped:>6}  {time.time() - started:>8.1f}")
    lines.append(f"{passed} passed, {failed} failed, {skipped} skipped")
    return "\n".join(lines)


def show(report: Path, reports: Path, started: float) -> None:
    """Print the table of a run from nox's report; to stderr, as stdout belongs to the sessions.

    A single session that runs no tests needs none.
    """
    if report.exists() and report.stat().st_mtime >= started:
        entries = json.loads(report.read_text())["sessions"]
        if len(entries) > 1 or any(_tested(entry, reports, started) for entry in entries):
            print(render(entries, reports, started), file=sys.stderr)
