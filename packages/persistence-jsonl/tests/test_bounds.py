"""Whatever a log holds or claims, reading it takes one row and little more (issue 3, "Bounded")."""

from __future__ import annotations

import os
import subprocess
import sys
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from dsh_persistence import RowTooLarge, SessionCorrupt
from dsh_persistence_jsonl import JsonlLogStore, _stretches
from dsh_persistence_jsonl._frames import walk_frames

LIMIT = 2 << 20


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of more than 2 MiB are too large."""
    monkeypatch.setattr(_stretches, "ROW_BYTES", LIMIT)


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("over", [0, 1, 600_000, 3 << 20])
@pytest.mark.parametrize("raw", [False, True], ids=["zstd", "raw"])
def test_a_row_beyond_the_limit(made: Any, raw: bool, over: int) -> None:
    """Issue 3: a row over the limit is ``RowTooLarge``, with path and offset, in every way of reading."""
    bare = len(made.line(40, data='""')) - 1
    row = made.line(40, data='"' + "x" * (LIMIT + over - bare) + '"')
    parts = [made.lines(0, 40), row, made.turn_end(41)]
    log = made.put(made.log(*parts, raw=raw), name=made.name(raw=raw))
    store = JsonlLogStore(made.root)
    asks: list[Callable[[], Any]] = [
        lambda: store.read("s"),
        lambda: store.read("s", from_seq=40),
        lambda: list(store.scan("s")),
        lambda: store.tail("s", store.tail("s").cursor),
        lambda: list(store.raw_text("s")),
        lambda: store.open("s").close(),
    ]
    if not over:
        for ask in asks:
            ask()
        assert store.read("s").next_seq == 42
        return
    for ask in asks:
        with pytest.raises(RowTooLarge) as caught:
            ask()
        assert (caught.value.path, caught.value.limit_bytes) == (str(log), LIMIT)
        assert caught.value.offset == len(made.log(parts[0], raw=raw))
    assert [one.problem for one in store.list()] == [None]


@pytest.mark.usefixtures("small_limit")
def test_a_row_that_became_too_large_is_told_when_reached(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 3: iterating holds to the limit itself, and does not lean on ``read`` having done so."""
    content = made.log(made.line(0), made.line(1, data='"' + "x" * (LIMIT - 100) + '"'))
    log = made.scan(content).log
    assert len(list(log)) == 2
    monkeypatch.setattr(_stretches, "ROW_BYTES", LIMIT // 2)
    for ask in (lambda: list(log), lambda: log[1]):
        with pytest.raises(RowTooLarge):
            ask()


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("raw", [False, True], ids=["zstd", "raw"])
def test_a_torn_row_beyond_the_limit(made: Any, raw: bool) -> None:
    """A tail without a line end is no reason to hold all of it: it is too large as well."""
    tail = b'{"type":"' + b"x" * (6 << 20)
    made.put(made.log(made.line(0), raw=raw) + (tail if raw else made.frame(tail)[:-2]), name=made.name(raw=raw))
    store = JsonlLogStore(made.root)
    for ask in (lambda: store.read("s"), lambda: list(store.scan("s"))):
        with pytest.raises(RowTooLarge):
            ask()


# Bombs: a few KB that decode to 1 GiB, read by a process of its own, whose memory is measured.

READ_ALL = """
import sys
from pathlib import Path
from dsh_persistence import PersistenceError
from dsh_persistence_jsonl import JsonlLogStore

store = JsonlLogStore(sys.argv[1])
asks = {
    "read": lambda: list(store.read("s").events),
    "suffix": lambda: list(store.read("s", from_seq=1).events),
    "scan": lambda: sum(1 for _ in store.scan("s")),
    "tail": lambda: store.tail("s", store.tail("s").cursor),
    "list": lambda: list(store.list()),
    "open": lambda: store.open("s").close(),
}
for name, ask in asks.items():
    try:
        ask()
        said = "nothing"
    except PersistenceError as error:
        said = type(error).__name__
    status = Path("/proc/self/status").read_text()
    print(name, said, int(status.partition("VmHWM:")[2].split()[0]) // 1024)
"""


def bomb(*, sized: bool) -> bytes:
    """A frame that decodes to 1 GiB without a line end: 8,192 blocks of one byte repeated, and some checksum."""
    blocks = [(128 << 10 << 3 | 1 << 1 | (number == 8_191)).to_bytes(3, "little") + b" " for number in range(8_192)]
    head = b"\xc4\x58" + (1 << 30).to_bytes(8, "little") if sized else b"\x04\x58"
    return b"\x28\xb5\x2f\xfd" + head + b"".join(blocks) + b"\0\0\0\0"


@pytest.mark.parametrize("sized", [True, False], ids=["sized", "unsized"])
@pytest.mark.parametrize("place", ["header", "middle", "end"])
def test_a_bomb(made: Any, sized: bool, place: str) -> None:
    """Issue 3: a frame of a few KB that holds 1 GiB costs at most the longest row there may be, and a typed error."""
    large = bomb(sized=sized)
    assert walk_frames(large) == (array("Q", [len(large)]), None)
    decoded = zstandard.ZstdDecompressor().stream_reader(large).read(1 << 20)
    assert (len(large) < 40_000, decoded) == (True, b" " * (1 << 20))
    frames = {
        "header": [large, made.frame(made.line(0))],
        "middle": [made.frame(made.header), made.frame(made.lines(0, 2)), large, made.frame(made.turn_end(2))],
        "end": [made.frame(made.header), made.frame(made.lines(0, 2)), large],
    }
    made.put(b"".join(frames[place]))
    script = "from dsh_persistence_jsonl import _stretches\n_stretches.ROW_BYTES = 32 << 20\n" + READ_ALL
    env = os.environ | {"PYTHONPATH": os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)}
    command = [sys.executable, "-c", script, str(made.root)]
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    said = {line.split()[0]: line.split()[1:] for line in run.stdout.splitlines()}
    expected = "SessionCorrupt" if place == "header" else "RowTooLarge"
    assert {name: kind for name, (kind, _) in said.items() if name != "list"} == dict.fromkeys(
        ("read", "suffix", "scan", "tail", "open"), expected
    )
    assert said["list"][0] == "nothing"
    peak = int(said["open"][1])
    assert peak < 200, run.stdout  # an interpreter with its modules, one row of 32 MiB, and a piece or two


def test_many_bad_lines(made: Any) -> None:
    """A large frame of nothing but blank lines is damage, named by the first of them."""
    content = made.log(made.line(0), b"       \n" * 200_000, made.turn_end(1))
    with pytest.raises(SessionCorrupt) as caught:
        made.scan(content)
    assert (caught.value.offset, caught.value.line) == (len(made.log(made.line(0))), 3)
    with pytest.raises(SessionCorrupt):
        list(made.stream(content))


def test_a_range_of_sources_far_beyond_the_log(made: Any) -> None:
    """A row that claims a far seq, and all seqs before it for sources, is refused before they are counted out."""
    far = b'{"type":"user/message","seq":%d,"time":1,"data":{},"sourceEventSeqs":[[0,%d]],"surfaceOp":"append"}\n'
    far %= (2**53 - 1, 2**53 - 2)
    content = made.log(made.lines(0, 2), far, far + made.lines(2, 3))
    assert len(made.scan(content).log) == 2
    assert len(list(made.stream(content))) == 2
