"""A run of the contract outside of a test: pytest on the same classes that a test would subclass, and what it found."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import errors as _  # noqa: F401  # the suite needs it: what is missing shows here, and not in a run

from .._seam import LogStore  # noqa: TID252  # imports inside a package are relative

Factory = Callable[[Path], LogStore]
"""Opens a store over a folder, the same place for the same folder; at the first call the folder is fresh and empty."""
Outcome = Literal["passed", "failed", "skipped"]

FACTORY = pytest.StashKey[Factory]()
_SUITE = Path(__file__).with_name("_suite.py")
_OPTIONS = (
    f"-c={os.devnull}",
    f"--rootdir={_SUITE.parent}",
    "--import-mode=importlib",
    "--disable-plugin-autoload",
    "--capture=sys",
    "-pno:cacheprovider",
    "-pno:terminal",
    "-otmp_path_retention_policy=none",
)
"""Whatever the caller's project configures for its own tests has no say here."""
_REWRITTEN = ("_log_store", "_outcomes", "_machine", "_persistence", "_stored")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseResult:
    """How a store stands to one promise."""

    number: str
    """As in ``docs/contracts``, for example ``P7``."""
    name: str
    """The test's name."""
    promise: str
    """In words."""
    outcome: Outcome
    message: str | None
    """What was seen instead, or why it was skipped; None when it passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractReport:
    """How a store stands to the contract."""

    promises: tuple[PromiseResult, ...]
    problem: str | None
    """Why the run as a whole proves nothing; None when it does."""

    @property
    def kept(self) -> bool:
        """Whether promises were tried and none was broken."""
        return self.problem is None and all(one.outcome != "failed" for one in self.promises)

    def __getitem__(self, number: str) -> PromiseResult:
        """Return one promise by its number. Raises ``KeyError``."""
        for one in self.promises:
            if one.number == number:
                return one
        raise KeyError(number)


def run_contract(
    factory: Factory,
    *,
    only: Collection[str] = (),
    junit: Path | None = None,
    progress: Callable[[PromiseResult], None] | None = None,
) -> ContractReport:
    """Run the contract against a store, in this process; pytest may be running already.

    ``factory`` gets a fresh, empty folder for each test and is called with it as often as the test opens the store.
    ``only`` chooses promises by number. ``junit`` is where a report in JUnit's XML goes. ``progress`` is called when a
    promise has been tried.
    """
    run = _Run(factory, frozenset(only), progress)
    xml = () if junit is None else (f"--junitxml={junit}",)
    code = pytest.main([*_OPTIONS, *xml, str(_SUITE)], plugins=[run])
    return run.report(code)


@dataclass(slots=True)
class _Run:
    """A plugin of pytest: hands the store to the suite, and keeps what becomes of each promise."""

    factory: Factory
    only: frozenset[str]
    progress: Callable[[PromiseResult], None] | None
    left: Counter[str] = field(default_factory=Counter)
    """How many tests of each promise are still to come."""
    words: dict[str, str] = field(default_factory=dict)
    seen: dict[str, list[pytest.TestReport]] = field(default_factory=dict)
    results: list[PromiseResult] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def pytest_configure(self, config: pytest.Config) -> None:
        config.stash[FACTORY] = self.factory
        package = __name__.rpartition(".")[0]
        modules = {f"{package}.{name}" for name in _REWRITTEN}
        # An installed package's entry point has this effect already; one that is only on the path has none.
        pytest.register_assert_rewrite(*(modules - sys.modules.keys()))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not self.only or _number(_name(item.nodeid)) in self.only]
        items.sort(key=lambda item: _name(item.nodeid))
        for item in items:
            name = _name(item.nodeid)
            self.left[name] += 1
            words = str(getattr(item.obj, "__doc__", None) or name) if isinstance(item, pytest.Function) else name
            self.words[name] = words.partition(": ")[2].partition("\n")[0] or words

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.problems.append(report.longreprtext)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seen.setdefault(_name(report.nodeid), []).append(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        name = _name(nodeid)
        self.left[name] -= 1
        if not self.left[name]:
            result = self._result(name)
            self.results.append(result)
            if self.progress is not None:
                self.progress(result)

    def report(self, code: int) -> ContractReport:
        if not self.problems and not any(one.outcome != "skipped" for one in self.results):
            self.problems.append(f"no promise was tried (pytest ended with {int(code)})")
        elif not self.problems and code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            self.problems.append(f"the run was cut short (pytest ended with {int(code)})")
        return ContractReport(promises=tuple(self.results), problem="\n".join(self.problems) or None)

    def _result(self, name: str) -> PromiseResult:
        reports = self.seen[name]
        failed = [report for report in reports if report.failed]
        passed = [report for report in reports if report.passed and report.when == "call"]
        outcome: Outcome = "failed" if failed else "passed" if passed else "skipped"
        message = _message(failed[0]) if failed else None if passed else _reason(reports)
        return PromiseResult(
            number=_number(name), name=name, promise=self.words[name], outcome=outcome, message=message
        )


def _name(nodeid: str) -> str:
    return nodeid.rpartition("::")[2].partition("[")[0]


def _number(name: str) -> str:
    found = re.match(r"test_([a-z])0*(\d+)_", name)
    return name if found is None else found[1].upper() + found[2]


def _message(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    message = report.longreprtext if crash is None else str(crash.message)
    case = report.nodeid.partition("[")[2].removesuffix("]")
    return f"[{case}] {message}" if case else message


def _reason(reports: list[pytest.TestReport]) -> str | None:
    for report in reports:
        if report.skipped and isinstance(report.longrepr, tuple):
            return str(report.longrepr[2]).removeprefix("Skipped: ")
    return None
