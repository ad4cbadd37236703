"""Deliberately broken executors fail the promise they break, or the contract would prove nothing."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Hashable, Iterator
from pathlib import Path

import pytest

from dsh_bash import BashError
from dsh_bash.contract import BashContract
from dsh_bash.contract._inputs import AMBIENT
from dsh_bash.contract._plain import PlainBash
from dsh_bash.contract._trial import PATIENCE_S, Trial
from dsh_bash.contract.broken import BROKEN
from dsh_bash.contract.plugin import _Tried

TESTS = sorted(name for name in dir(BashContract) if name.startswith("test_"))
FAILURES = (AssertionError, BashError, ValueError, TimeoutError, BaseExceptionGroup, pytest.fail.Exception)

MINE = """
    import dataclasses
    import pytest
    from dsh_bash.contract import BashContract
    from dsh_bash.contract._plain import PlainBash

    class Mistaken(PlainBash):
        def result(self, spec, command):
            result = super().result(spec, command)
            return dataclasses.replace(result, exit_code=result.exit_code and 1)

    class TestMistaken(BashContract):
        @pytest.fixture
        def open_bash(self):
            return Mistaken

    class TestUnfinished(BashContract):
        pass
"""
UNTRIED = """
    import pytest
    from dsh_bash.contract import BashContract

    class TestUntried(BashContract):
        @pytest.fixture
        def open_bash(self):
            pytest.skip("no engine answers")
"""


def number_of(test: str) -> str:
    return f"B{int(test[6:8])}"


@pytest.fixture
def ambient() -> Iterator[None]:
    """What the contract's own fixture sets, and this process's environment as it was: one of the broken changes it."""
    before = dict(os.environ)
    os.environ.update(AMBIENT)
    yield
    os.environ.clear()
    os.environ.update(before)


async def fails(kind: type[PlainBash], test: str, turn: asyncio.Semaphore) -> bool:
    """Try one promise on an executor of its own."""
    trial = Trial(kind, kind.capabilities)
    try:
        async with turn, asyncio.timeout(PATIENCE_S), trial:
            await inspect.unwrap(getattr(BashContract, test))(BashContract(), trial)
    except pytest.skip.Exception:
        return False
    except FAILURES:
        return True
    return False


@pytest.mark.usefixtures("ambient")
@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
async def test_broken_executors_fail(kind: type[PlainBash]) -> None:
    """Of the whole suite, many tests at once on one loop, exactly the test of the broken promise fails."""
    turn = asyncio.Semaphore(16)
    failed = await asyncio.gather(*(fails(kind, test, turn) for test in TESTS))
    assert [BROKEN[kind]] == [number_of(test) for test, one in zip(TESTS, failed, strict=True) if one]


def test_every_promise_is_broken_by_somebody() -> None:
    """No promise is there that an executor could break unseen."""
    assert {number_of(test) for test in TESTS} == set(BROKEN.values())


def test_numbers_and_words_are_those_of_the_page() -> None:
    """Every test names its promise by number, they have no gap, and ``docs/contracts`` says the same."""
    page = Path(__file__).resolve().parents[3] / "docs/contracts/bash.md"
    if not page.exists():
        pytest.skip("docs/contracts do not lie beside these tests")
    rows = re.findall(r"^\| (B\d+) \| (.*) \|$", page.read_text(), re.MULTILINE)
    assert len(rows) == len(TESTS)
    for number, (name, (label, words)) in enumerate(zip(TESTS, rows, strict=True), 1):
        assert name.startswith(f"test_b{number:02}_")
        assert f"{label}: {words}" == (getattr(BashContract, name).__doc__ or "").splitlines()[0]
        assert f"B{number}" == label


def run_pytest(folder: Path, module: str, *arguments: str) -> tuple[int, str]:
    """Run the contract as somebody else would, without any plugin but its own."""
    (folder / "test_mine.py").write_text(textwrap.dedent(module))
    # What the entry point does where the package is installed.
    (folder / "conftest.py").write_text(
        "import pytest\n"
        'pytest.register_assert_rewrite("dsh_bash.contract")\n'
        'pytest_plugins = ["dsh_bash.contract.plugin"]\n'
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", *arguments, "."]
    path = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)
    env = os.environ | {"PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
    return run.returncode, run.stdout + run.stderr


def test_a_failure_explains_itself(tmp_path: Path) -> None:
    """In a run of pytest the subclass is collected, runs every promise, and a broken one shows what differs."""
    code, output = run_pytest(tmp_path, MINE, "-k", "b08 or b09 or b20")
    assert 1 == code, output
    assert f"1 failed, 1 passed, 1 skipped, {2 * len(TESTS) - 6} deselected, 3 errors" in output
    assert "assert (1, None, False, False) == (7, None, False, False)" in output
    assert "TestUnfinished does not override the fixture open_bash" in output
    assert "the executor does not declare finds_bash_on_path" in output


def test_a_run_that_tried_nothing_fails(tmp_path: Path) -> None:
    """Where everything was skipped, nothing is proved; a promise that was tried is enough."""
    code, output = run_pytest(tmp_path, UNTRIED, "-k", "b08 or b09")
    assert 1 == code, output
    assert "2 skipped" in output
    assert "test_mine.py::TestUntried: no promise was tried, so nothing is proved" in output
    code, output = run_pytest(tmp_path, MINE, "-k", "TestMistaken and (b09 or b20)")
    assert 0 == code, output
    assert "1 passed, 1 skipped" in output
    assert "no promise was tried" not in output


def test_reports_name_the_promise(tmp_path: Path) -> None:
    """A report in JUnit's XML says by number which promise a test is of."""
    run_pytest(tmp_path, MINE, "-k", "TestMistaken and b09", "--junitxml=report.xml")
    assert '<property name="bash_promise" value="B9"' in (tmp_path / "report.xml").read_text()


def test_the_plugin_can_be_taken_out_of_a_set() -> None:
    """Where a folder has hooks of its own, pytest keeps plugins in sets; one that cannot be there ends the run."""
    assert isinstance(_Tried(), Hashable)
