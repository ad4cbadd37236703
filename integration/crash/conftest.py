"""What the crash proofs share: crashsim, the two sets, and the figures that a run ends with."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import figures
from .scale import FULL
from .simulate import CrashSim

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KEPT = ROOT / "build" / "crash"
"""Where images that failed are kept."""
PROGRAM = ROOT.parent / "shared" / "tools" / "crashsim" / "crashsim.py"
NEEDED = {"strace": "strace", "cc": "gcc"}
"""Programs that crashsim calls, and the Debian packages that have them."""

if not FULL:
    collect_ignore = ["test_containers.py"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-figures", action="store_true", help="put the figures of this run into docs/durability.md")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: belongs to the full set alone, `nox -s crash`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the full set to those who ask for it."""
    if FULL:
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """Print what was tried, and keep it where asked to."""
    found = [report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind)]
    reports = sorted(found, key=lambda report: report.nodeid)  # several workers end their tests in any order
    rows = [figures.Figure(**value) for report in reports for name, value in report.user_properties if name == "crash"]
    if not rows:
        return
    set_name = "full" if FULL else "quick"
    machine = f"Python {platform.python_version()}, Linux {platform.release().split('-')[0]}, {os.cpu_count()} cores"
    terminalreporter.section(f"crash proofs, the {set_name} set")
    for line in figures.table(rows):
        terminalreporter.write_line(line)
    if config.getoption("--write-figures", default=False):
        part = not FULL or config.option.keyword or [Path(argument).resolve() for argument in config.args] != [HERE]
        if part or exitstatus:
            terminalreporter.write_line(
                "the page is left as it is: only a whole full set that passes replaces its figures"
            )
        else:
            figures.write(ROOT / "docs" / "durability.md", rows, machine)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder in memory where there is one: what a crash leaves is simulated, so no disk need be slow for it."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="crash-", dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> figures.Recorder:
    """Return a function that takes down what a test tried, and how long it has taken."""
    began = time.monotonic()

    def take_down(what: str, store: str, **facts: object) -> None:
        seconds = time.monotonic() - began
        # A property of the report, so that it comes from whatever process runs the test to the one that prints.
        facts |= {"what": what, "store": store, "seconds": seconds}
        request.node.user_properties.append(("crash", facts))

    return take_down


@pytest.fixture
def crashsim(scratch: Path, request: pytest.FixtureRequest) -> CrashSim:
    """The simulator on an empty root; skips where it cannot run."""
    if sys.platform != "linux":
        pytest.skip("crashsim runs on Linux")
    if not PROGRAM.is_file():
        pytest.skip("no ../shared/tools/crashsim beside the repository")
    for command, package in NEEDED.items():
        if shutil.which(command) is None:
            pytest.skip(f"crashsim needs {command}: apt-get install {package}")
    kept = KEPT / request.node.name.replace("/", "-")
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    return CrashSim(PROGRAM, scratch, kept)
