"""``dshpy contract run``: the suite's door for those who write no test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner

from dsh_cli import main

BROKEN = "dsh_persistence.contract.broken:RetriesAFailedSync"


def contract_run(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)
    command = [sys.executable, "-m", "dsh_cli", "contract", "run", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": path, "COLUMNS": "100"}
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False
    )  # fmt: skip


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder with a module that opens stores."""
    (tmp_path / "mine.py").write_text(
        "from dsh_persistence.contract._toy import ToyLogStore\n"
        "from dsh_persistence import MemoryLogStore\n"
        "class Stores:\n"
        "    opened = staticmethod(ToyLogStore)\n"
        "def forgetful(place):\n"
        "    return MemoryLogStore()\n"
        "def breaks(place):\n"
        "    raise RuntimeError('the disk is on fire')\n"
        "text = 'no store'\n"
    )
    return tmp_path


def test_a_store_that_keeps_its_promises(mine: Path) -> None:
    """Exit 0, the promises on stdout, progress on stderr; the module lies in the current directory."""
    done = contract_run("mine:Stores.opened", "--only", "P3", "--only", "P33", cwd=mine)
    assert done.returncode == 0, done.stderr
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert lines[0].split() == ["outcome", "promise"]
    assert lines[1].split()[:2] == ["P3", "passed"]
    assert lines[2].split()[:2] == ["P33", "skipped"]
    assert lines[3].strip() == "the store declares no group commit"
    assert lines[4] == "1 kept, 0 broken, 1 skipped"
    assert done.stderr.splitlines() == ["P3 passed", "P33 skipped"]


def test_a_broken_store(mine: Path) -> None:
    """Exit 1; JSON has number, name, words, outcome and what was seen; JUnit's XML has every test."""
    done = contract_run(BROKEN, "--only", "P38", "--only", "P3", "--json", "--junit", "out/report.xml", cwd=mine)
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert (report["kept"], report["problem"], report["target"]) == (False, None, BROKEN)
    kept, broken = report["promises"]
    assert (kept["number"], kept["outcome"], kept["message"]) == ("P3", "passed", None)
    assert (broken["number"], broken["name"], broken["outcome"]) == ("P38", "test_p38_failed_calls", "failed")
    assert "a sync was trusted that came after a failed one" in broken["message"]
    assert broken["promise"].startswith("when any calls of an append fail")
    suite = ET.parse(mine / "out/report.xml").getroot()[0]
    assert int(suite.attrib["tests"]) == 13
    assert int(suite.attrib["failures"]) > 0


def test_failures_show_the_values(mine: Path) -> None:
    """What breaks a promise is told with the values that differ, as in a run of pytest."""
    done = contract_run("mine:forgetful", "--only", "P13", "--only", "P26", cwd=mine)
    assert done.returncode == 1
    assert "SessionNotFound: session 'session-1' was not found in memory" in done.stdout
    broken = contract_run("dsh_persistence.contract._toy:ToyLogStore", "--only", "P1", "--json", cwd=mine)
    assert (broken.returncode, json.loads(broken.stdout)["promises"][0]["outcome"]) == (0, "passed")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["mine:Stores.opened", "--only", "P999"], "no promise was tried"),
        (["mine:Stores.opened", "--only", "P33"], "no promise was tried"),
    ],
)
def test_a_run_that_proves_nothing_fails(mine: Path, arguments: list[str], problem: str) -> None:
    """Exit 1 when no promise was tried, also when all that were chosen were skipped."""
    done = contract_run(*arguments, cwd=mine)
    assert done.returncode == 1
    assert problem in done.stdout


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("mine", "'mine' is not of the form package.module:factory."),
        ("mine:", "'mine:' is not of the form package.module:factory."),
        ("nowhere:x", "nowhere cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("mine:absent", "mine has no absent."),
        ("mine:text", "mine:text cannot be called; it takes a folder and returns a store."),
    ],
)
def test_usage(mine: Path, target: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 2, one line that says what is wrong, for what names no factory."""
    monkeypatch.chdir(mine)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    done = CliRunner().invoke(main, ["contract", "run", target])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == f"Error: Invalid value for FACTORY: {message}"


def test_without_the_extra(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 2, and what to install, where Hypothesis or pytest is missing."""
    monkeypatch.chdir(mine)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in [name for name in sys.modules if name.startswith("dsh_persistence.contract")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    done = CliRunner().invoke(main, ["contract", "run", "os:getcwd"])
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == "Error: hypothesis is missing; pip install 'dshpy[contract]' brings it."


def test_a_factory_that_raises(mine: Path) -> None:
    """A factory's own error is what the promise is reported with."""
    done = contract_run("mine:breaks", "--only", "P3", "--json", cwd=mine)
    assert done.returncode == 1
    assert json.loads(done.stdout)["promises"][0]["message"] == "RuntimeError: the disk is on fire"
