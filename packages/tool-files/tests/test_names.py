from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from dsh_tool_files._names import shown


@given(st.binary(max_size=30))
def test_any_name_is_one_line_of_text(name: bytes) -> None:
    """Whatever a file is called, its name is shown as text that can be sent and cannot pose as another line."""
    text = shown(os.fsdecode(name))
    text.encode()
    assert text.isprintable()


def test_ordinary_names_stay() -> None:
    """Names of any script are shown as they are; what is no text is escaped."""
    assert shown("a b/文件.é") == "a b/文件.é"
    assert shown(os.fsdecode(b"a\xff\nb\x1b")) == "a\\xff\\nb\\x1b"
