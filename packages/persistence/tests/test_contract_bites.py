"""Deliberately broken stores fail the promise they break, or the contract would prove nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from dsh_persistence import LogStore
from dsh_persistence.contract import LogStoreContract, PersistenceContract, run_contract
from dsh_persistence.contract._machine import SETTINGS
from dsh_persistence.contract.broken import BROKEN, LetsGoAfterAnError, factory_of

IN_A_SUITE = {kind: number for kind, number in BROKEN.items() if number != "P39"}


@pytest.mark.parametrize("kind", IN_A_SUITE, ids=lambda kind: kind.__name__)
def test_broken_stores_fail(kind: Callable[..., LogStore]) -> None:
    """A store that breaks a promise fails the test of that promise, and the run says which and why."""
    report = run_contract(factory_of(kind), only=[BROKEN[kind]])
    (result,) = report.promises
    assert (result.number, result.outcome, report.kept) == (BROKEN[kind], "failed", False)
    assert result.message


def test_the_machine_bites() -> None:
    """The state machine finds what no single test does."""

    class Quick(LogStoreContract):
        machine_settings = settings(SETTINGS, phases=[Phase.generate], derandomize=True, max_examples=200)

    store = LetsGoAfterAnError()
    assert BROKEN[LetsGoAfterAnError] == "P39"
    with pytest.raises(AssertionError, match="the store did what the model refuses"):
        Quick().test_p39_any_order_of_events(lambda: store)


def test_every_promise_is_broken_by_somebody() -> None:
    """The promises that no broken store is made for are those of plain values, and they are named here."""
    unbroken = set(range(1, 40)) - {int(number[1:]) for number in BROKEN.values()}
    assert unbroken == {1, 4, 6, 10, 11, 14, 16, 17, 19, 20, 21, 22, 23}


@pytest.mark.parametrize(
    ("kind", "letter", "title"), [(LogStoreContract, "P", "log-store"), (PersistenceContract, "S", "persistence")]
)
def test_numbers_and_words_are_those_of_the_page(kind: type, letter: str, title: str) -> None:
    """Every test names its promise by number, they have no gap, and ``docs/contracts`` says the same."""
    page = Path(__file__).resolve().parents[3] / f"docs/contracts/{title}.md"
    if not page.exists():
        pytest.skip("docs/contracts do not lie beside these tests")
    tests = sorted(name for name in dir(kind) if name.startswith("test_"))
    rows = re.findall(rf"^\| ({letter}\d+) \| (.*) \|$", page.read_text(), re.MULTILINE)
    assert len(rows) == len(tests)
    for number, (name, (label, words)) in enumerate(zip(tests, rows, strict=True), 1):
        assert name.startswith(f"test_{letter.lower()}{number:02}_")
        assert (getattr(kind, name).__doc__ or "").splitlines()[0] == f"{label}: {words}"
        assert label == f"{letter}{number}"


def test_a_failure_explains_itself(tmp_path: Path) -> None:
    """In a run of pytest the subclass is collected, runs every promise, and a broken one shows what differs."""
    (tmp_path / "test_mine.py").write_text(
        textwrap.dedent(
            """
            import pytest
            from dsh_persistence import MemoryLogStore
            from dsh_persistence.contract import LogStoreContract

            class Forgetful(MemoryLogStore):
                def publish(self, header):
                    super().publish(header)
                    self._logs[header.id].header = type(header)(id=header.id, created_at=0)

            class TestForgetful(LogStoreContract):
                @pytest.fixture
                def new_location(self):
                    store = Forgetful()
                    return lambda: store

            class TestUnfinished(LogStoreContract):
                pass
            """
        )
    )
    # What the entry point does where the package is installed.
    (tmp_path / "conftest.py").write_text('import pytest\npytest.register_assert_rewrite("dsh_persistence.contract")\n')
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "p03 or p04", "."]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)}
    run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "1 failed, 1 passed, " in run.stdout
    assert "2 errors" in run.stdout
    assert "created_at: 0 != 1700000000000" in run.stdout
    assert "TestUnfinished does not override the fixture new_location" in run.stdout
