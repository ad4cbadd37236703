"""Everything that the real ``dsh`` said of a corpus of logs, against what we say, and the list of differences."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from .verdict import Disagreement, Verdict

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT.parent / "shared" / "corpus"
FOLDERS = sorted(file.parent for name in ("v4", "variants-v4") for file in (CORPUS / name).glob("*/expected.json"))
ABSENT = [pytest.param(None, marks=pytest.mark.skip("no ../shared/corpus beside the repository"))]
TABLE = ROOT / "docs" / "differences.md"
TESTS = Path(__file__).with_name("test_differences.py")


def differences() -> dict[str, str]:
    """Return the keys of docs/differences.md and the test that each names."""
    return dict(re.findall(r"^\| `([a-z-]+)` \|.*\| `(test_\w+)` \|$", TABLE.read_text(), re.MULTILINE))


@pytest.mark.parametrize("folder", FOLDERS or ABSENT, ids=lambda folder: folder.name if folder else "absent")
def test_verdicts(folder: Path) -> None:
    """Listing, refusals, events, closers, surface, messages and text are those of ``dsh``, or listed."""
    listed = differences()
    unlisted: list[Disagreement] = [found for found in Verdict(folder).disagreements() if found.kind not in listed]
    assert unlisted == []


def test_each_difference_has_its_test() -> None:
    """The table names every test of differences, and each test that it names exists, once."""
    tests = [node.name for node in ast.parse(TESTS.read_text()).body if isinstance(node, ast.FunctionDef)]
    named = list(differences().values())
    assert sorted(name for name in tests if name.startswith("test_")) == sorted(named)


def test_the_table_is_read_whole() -> None:
    """No row of the table escapes the comparison by its form."""
    lines = [line for line in TABLE.read_text().splitlines() if line.startswith("|")]
    assert len(lines) - 2 == len(differences())
