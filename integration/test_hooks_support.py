"""The page of what works is made from the table that the code reads."""

from __future__ import annotations

from pathlib import Path

from dsh_hook_bridges import support_page

PAGE = Path(__file__).resolve().parents[1] / "docs" / "hooks-support.md"


def test_page():
    # python -c "import dsh_hook_bridges as h; print(h.support_page(), end='')" > docs/hooks-support.md
    assert support_page() == PAGE.read_text()
