"""The page of promises names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "durability.md"


def test_every_promise_names_its_tests() -> None:
    """Each of G1 to G20 stands once, with a test that can be run."""
    rows = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| G")]
    assert [row[0].strip("| ") for row in rows] == [f"G{number}" for number in range(1, 21)]
    database = PAGE.read_text().partition("## In a database")[2].partition("Not promised")[0]
    rows += [line.split(" | ") for line in database.splitlines() if line.startswith("| ") and "`" in line]
    assert len(rows) == 26
    for row in rows:
        named = re.findall(r"`([\w/.-]+\.py)::(\w+)`", row[-1])
        assert named, row[0]
        for path, test in named:
            assert f"def {test}(" in (ROOT / path).read_text(), f"{path}::{test}"
