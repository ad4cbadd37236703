"""Files that hold a whole stream (BEHAVIOUR 2.42 to 2.45)."""

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_subprocess import Collect, CollectedOutput, ProcessHost, SpawnSpec
from dsh_subprocess._spill import SpillFolder

Shell = Callable[..., SpawnSpec]


def collected(folder: Path, max_bytes: int, spill_max_bytes: int) -> CollectedOutput:
    return CollectedOutput(
        Collect(max_bytes=max_bytes, spill_max_bytes=spill_max_bytes), "stdout", SpillFolder(str(folder))
    )


def content(output: CollectedOutput) -> bytes | None:
    return None if output.spill_path is None else Path(output.spill_path).read_bytes()


def test_the_file_appears_with_the_first_overflow_and_holds_everything(tmp_path: Path) -> None:
    """Nothing is written before the limit; then all so far and all that comes (BEHAVIOUR 2.42)."""
    output = collected(tmp_path, 4, 100)
    output.feed(b"abcd")
    assert [] == list(tmp_path.iterdir())
    output.feed(b"e")
    assert b"abcde" == content(output)
    output.feed(b"fg")
    output.finish()
    assert b"abcdefg" == content(output)


def test_over_its_limit_the_file_is_deleted(tmp_path: Path) -> None:
    """The limit itself still fits; beyond it no file and no path (BEHAVIOUR 2.42)."""
    output = collected(tmp_path, 2, 6)
    output.feed(b"abc")
    output.feed(b"def")
    assert b"abcdef" == content(output)
    path = output.spill_path
    output.feed(b"g")
    assert output.spill_path is None
    assert path is not None
    assert not Path(path).exists()
    output.feed(b"h")
    assert output.spill_path is None


def test_a_first_overflow_beyond_the_limit_makes_no_file(tmp_path: Path) -> None:
    """What cannot be held whole is not begun (BEHAVIOUR 2.43)."""
    output = collected(tmp_path, 2, 6)
    output.feed(b"abcdefg")
    assert output.spill_path is None
    assert [] == list(tmp_path.iterdir())


def test_names_and_modes(tmp_path: Path) -> None:
    """A private folder of its own, and files for this user alone (BEHAVIOUR 2.44)."""
    previous = os.umask(0)
    try:
        output = collected(tmp_path, 1, 100)
        output.feed(b"ab")
        output.finish()
    finally:
        os.umask(previous)
    assert output.spill_path is not None
    path = Path(output.spill_path)
    assert re.fullmatch(rf"dsh-subprocess-{os.getpid()}-\d+-[0-9a-f]{{12}}-stdout\.log", path.name)
    assert re.fullmatch(r"dsh-subprocess-.{6,}", path.parent.name)
    assert tmp_path == path.parent.parent
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert 0o700 == stat.S_IMODE(path.parent.stat().st_mode)


def test_a_file_that_cannot_be_made_costs_the_path_alone(tmp_path: Path) -> None:
    """Without a place to write, the tail is kept and no path is told (BEHAVIOUR 2.45)."""
    output = collected(tmp_path / "missing", 2, 100)
    output.feed(b"abc")
    output.finish()
    assert (None, "bc", True) == (output.spill_path, output.text(), output.truncated)


def test_a_failed_close_withholds_the_path(tmp_path: Path) -> None:
    """A file whose last write may have failed is not handed out (BEHAVIOUR 2.45)."""
    output = collected(tmp_path, 2, 100)
    output.feed(b"abc")
    assert output._spill is not None
    os.close(output._spill._fd)
    output.finish()
    assert (None, "bc") == (output.spill_path, output.text())


def test_a_folder_deleted_meanwhile_is_made_again(tmp_path: Path) -> None:
    """A cleaner of temporary files costs no later file."""
    folder = SpillFolder(str(tmp_path))
    first = folder.create("stdout")
    first.discard()
    Path(first.path).parent.rmdir()
    second = folder.create("stderr")
    second.close()
    assert Path(second.path).exists()


@pytest.fixture(scope="module")
def spill_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spill")


@given(chunks=st.lists(st.binary(max_size=20), max_size=20), max_bytes=st.integers(1, 30), extra=st.integers(1, 200))
def test_a_file_that_exists_is_the_whole_stream(
    spill_root: Path, chunks: list[bytes], max_bytes: int, extra: int
) -> None:
    """Under any chunking there is a file exactly when the stream overflowed within the limit (BEHAVIOUR 2.42)."""
    output = collected(spill_root, max_bytes, max_bytes + extra)
    for chunk in chunks:
        output.feed(chunk)
    output.finish()
    whole = b"".join(chunks)
    expected = whole if max_bytes < len(whole) <= max_bytes + extra else None
    assert expected == content(output)


async def test_files_outlive_the_host(tmp_path: Path, shell: Shell) -> None:
    """Both streams spill independently, and the files stay for who was given the path (BEHAVIOUR 2.44)."""
    async with ProcessHost(spill_parent=str(tmp_path)) as host:
        few = Collect(max_bytes=10, spill_max_bytes=1_000_000)
        tree = host.spawn(shell("seq 1000; seq 3 >&2", stdout=few, stderr=few))
        await tree.wait()
    assert "".join(f"{n}\n" for n in range(1, 1001)).encode() == content(tree.stdout)
    assert "\n999\n1000\n" == tree.stdout.text()
    assert (None, "1\n2\n3\n") == (tree.stderr.spill_path, tree.stderr.text())
