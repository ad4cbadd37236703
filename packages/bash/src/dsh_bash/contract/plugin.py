"""The ``pytest11`` entry point of this package: pytest rewrites the assertions of packages that have one.

So an executor that breaks a promise shows the values that differ. And a run of the contract in which nothing was tried,
because everything was skipped, fails: it would look like one that found no fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

PROMISE = "bash_promise"
"""What a test of the contract is known by, also from another process: its report carries this property."""


@dataclass(slots=True, eq=False)
class _Tried:
    """Watches which classes of the contract ran, and whether they tried anything."""

    seen: dict[str, bool] = field(default_factory=dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if any(name == PROMISE for name, _ in report.user_properties):
            kind = report.nodeid.rpartition("::")[0]
            self.seen[kind] = self.seen.get(kind, False) or (report.when == "call" and not report.skipped)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.untried and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for kind in self.untried:
            terminalreporter.write_line(f"{kind}: no promise was tried, so nothing is proved", red=True)

    @property
    def untried(self) -> list[str]:
        return [kind for kind, tried in self.seen.items() if not tried]


def pytest_configure(config: pytest.Config) -> None:
    """Watch the run, where its outcome is decided."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Tried(), "dsh-bash-contract-tried")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Name the promise of each test of the contract in its report."""
    for item in items:
        promise = getattr(getattr(item, "function", None), PROMISE, None)
        if promise is not None:
            item.user_properties.append((PROMISE, promise))
