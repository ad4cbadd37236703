"""The tail of a stream, byte exact (BEHAVIOUR §2.5)."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_subprocess import Collect, CollectedOutput, ProcessHost, SpawnSpec
from dsh_subprocess._output import TailBuffer
from dsh_subprocess._spill import SpillFolder

Shell = Callable[..., SpawnSpec]

CHUNKS = st.lists(st.binary(max_size=40), max_size=40)


def collected(tmp_path: Path, max_bytes: int, spill_max_bytes: int | None = None) -> CollectedOutput:
    collect = Collect(max_bytes=max_bytes, spill_max_bytes=spill_max_bytes)
    return CollectedOutput(collect, "stdout", SpillFolder(str(tmp_path)))


@given(chunks=CHUNKS, max_bytes=st.integers(1, 50))
def test_any_chunking_keeps_exactly_the_last_bytes(chunks: list[bytes], max_bytes: int) -> None:
    """The tail is the last ``max_bytes`` bytes however they came, within two limits of memory (BEHAVIOUR 2.40)."""
    tail = TailBuffer(max_bytes)
    for chunk in chunks:
        tail.feed(chunk)
        assert len(tail._buffer) <= 2 * max_bytes
    whole = b"".join(chunks)
    assert whole[-max_bytes:] == tail.value()
    assert len(whole) == tail.total_bytes


@given(chunks=CHUNKS, max_bytes=st.integers(1, 50), offset=st.integers(0, 400))
def test_reading_from_an_offset_gives_what_is_retained(chunks: list[bytes], max_bytes: int, offset: int) -> None:
    """From inside the window: the rest, not lossy. From before it: the whole tail, lossy (BEHAVIOUR 2.46)."""
    tail = TailBuffer(max_bytes)
    for chunk in chunks:
        tail.feed(chunk)
    whole = b"".join(chunks)
    start = max(0, len(whole) - max_bytes)
    expected = (whole[start:], True) if offset < start else (whole[offset:], False)
    assert expected == tail.since(offset)


def test_exactly_the_limit_is_not_truncated(tmp_path: Path) -> None:
    """The limit itself fits, one byte more does not (BEHAVIOUR 2.41)."""
    output = collected(tmp_path, 4)
    output.feed(b"abcd")
    assert (False, "abcd") == (output.truncated, output.text())
    output.feed(b"e")
    assert (True, "bcde") == (output.truncated, output.text())


def test_a_cut_character_becomes_a_replacement(tmp_path: Path) -> None:
    """The cut is byte exact and may split a character (BEHAVIOUR 2.40)."""
    output = collected(tmp_path, 3)
    output.feed("b€".encode())
    output.feed(b"x")
    assert "\ufffd\ufffdx" == output.text()


def test_reading_consumes_nothing(tmp_path: Path) -> None:
    """Two reads from one offset agree, and the next offset is the stream's length (BEHAVIOUR 2.46)."""
    output = collected(tmp_path, 4)
    output.feed(b"abcdef")
    first, second = output.read_from(0), output.read_from(0)
    assert first == second
    assert (b"cdef", True, 6) == (first.data, first.lossy, first.next_offset)
    later = output.read_from(99)
    assert (b"", False, 6) == (later.data, later.lossy, later.next_offset)


async def test_a_flood_is_drained_in_bounded_memory(host: ProcessHost, shell: Shell) -> None:
    """A quarter of a gigabyte passes through a small tail without holding up the loop (BEHAVIOUR §2.5)."""
    began = time.monotonic()
    tree = host.spawn(shell("head -c 268435456 /dev/zero; printf end", stdout=Collect(max_bytes=65_536)))
    await tree.wait()
    assert 268_435_459 == tree.stdout.total_bytes
    assert b"\0end" == tree.stdout.data()[-4:]
    assert 65_536 == len(tree.stdout.data())
    assert len(tree.stdout._tail._buffer) <= 2 * 65_536
    assert time.monotonic() - began < 30


async def test_bytes_that_are_not_utf8_become_replacements(host: ProcessHost, shell: Shell) -> None:
    """Any bytes decode, and the raw ones stay readable (BEHAVIOUR §2.5)."""
    tree = host.spawn(shell(r"printf 'ok\xff\xfe\x00\n'; head -c 8192 /dev/urandom; echo end"))
    await tree.wait()
    assert tree.stdout.text().startswith("ok\ufffd\ufffd\0\n")
    assert tree.stdout.text().endswith("end\n")
    assert tree.stdout.read_from(0).data.startswith(b"ok\xff\xfe\0\n")


async def test_both_streams_are_drained_together(host: ProcessHost, shell: Shell) -> None:
    """A child that fills one pipe while the other is read does not stall (BEHAVIOUR §2.5)."""
    tree = host.spawn(shell("head -c 3000000 /dev/zero >&2; echo done"))
    ended = await tree.wait()
    assert (0, "done\n", 3_000_000) == (ended.exit_code, tree.stdout.text(), tree.stderr.total_bytes)


@pytest.mark.parametrize("offset", [0, 2])
async def test_output_is_readable_while_the_child_runs(
    host: ProcessHost, shell: Shell, until: Any, offset: int
) -> None:
    """A running child's output is there at any offset (BEHAVIOUR 2.46)."""
    tree = host.spawn(shell("printf hello; sleep 60"))
    await until(lambda: tree.stdout.total_bytes == 5)
    assert b"hello"[offset:] == tree.stdout.read_from(offset).data
    assert not tree.settled
