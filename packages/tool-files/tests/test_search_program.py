"""The program that searches, by itself."""

from __future__ import annotations

import marshal
import re
import signal
import struct
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from dsh_tool_files._search_program import LINE_BYTES, Row, Search
from dsh_tool_files._searcher import PROGRAM


def run(pieces: list[bytes], *, pattern: str = "x", context: int = 0, max_matches: int = 1000) -> list[Row]:
    search = Search(re.compile(pattern), context=context, max_matches=max_matches)
    rows: list[Row] = []
    for piece in pieces:
        rows += search.feed(piece, is_last=False)[0]
    return rows + search.feed(b"", is_last=True)[0]


@given(
    text=st.text(st.sampled_from("xab\n\né"), max_size=60),
    cuts=st.lists(st.integers(0, 80), max_size=6),
    context=st.integers(0, 3),
)
def test_pieces_do_not_matter(text: str, cuts: list[int], context: int) -> None:
    """Wherever a file is cut into pieces, its lines are found as if it were one, with what stands around them."""
    data = text.encode()
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[a:b] for a, b in pairwise(bounds)]
    lines = text.removesuffix("\n").split("\n") if text else []
    hits = [number for number, line in enumerate(lines, 1) if "x" in line]
    expected = [
        (number, number in hits, line)
        for number, line in enumerate(lines, 1)
        if any(abs(number - hit) <= context for hit in hits)
    ]
    assert run(pieces, context=context) == expected


def test_long_line_in_pieces() -> None:
    """Of a line that never ends only what is searched is held, and the lines after it count on."""
    search = Search(re.compile("x|z"), context=0, max_matches=10)
    assert search.feed(b"x" + b"a" * LINE_BYTES, is_last=False) == ([], False, False)
    for _ in range(20):
        search.feed(b"z" * LINE_BYTES, is_last=False)
        assert len(search._pending) == LINE_BYTES + 1
    rows, _, is_cut = search.feed(b"\nz\n", is_last=True)
    assert [(number, is_match) for number, is_match, _ in rows] == [(1, True), (2, True)]
    assert is_cut


def test_ends_by_itself() -> None:
    """A pattern that never ends, with nobody left to end it, ends by an alarm, though who started it blocked alarms."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    handler = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    try:
        process = subprocess.Popen([sys.executable, "-I", "-S", PROGRAM], stdin=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with process:
        assert process.stdin is not None
        request = {"pattern": "(x+x+)+y", "context": 0, "max_matches": 1, "end_s": 0.5}
        for message in (request, (b"x" * 5000, True)):
            body = marshal.dumps(message)
            process.stdin.write(struct.pack("<I", len(body)) + body)
        process.stdin.flush()
        try:
            assert process.wait(timeout=30) == -signal.SIGALRM
        finally:
            process.kill()


def test_ends_with_its_input() -> None:
    """When the harness is gone it ends."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", PROGRAM], check=False, input=b"", timeout=60, capture_output=True
    )
    assert Path(PROGRAM).exists()
    assert done.returncode == 0
