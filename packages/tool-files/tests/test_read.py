from __future__ import annotations

import os
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh_tool_files import ArgumentRefused, NotText, TooLarge

if TYPE_CHECKING:
    from conftest import Refusal, Run

MIB = 1 << 20
lines_of_text = st.lists(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\n\0"), max_size=60))


async def test_lines_have_numbers(run: Run, workspace: Path) -> None:
    """Each line comes with its number and a tab."""
    (workspace / "f").write_text("a\n\n\tb\n")
    assert await run("read", file_path="f") == "     1\ta\n     2\t\n     3\t\tb\n"


async def test_part_of_a_file(run: Run, workspace: Path) -> None:
    """A part is told to be one, with where to go on; the last part is not."""
    (workspace / "f").write_text("a\nb\nc\n")
    assert (
        await run("read", file_path="f", offset=2, limit=1)
        == "     2\tb\n[lines 2 to 2 of a file of 6 bytes; go on with offset 3]"
    )
    assert await run("read", file_path="f", offset=2, limit=2) == "     2\tb\n     3\tc\n"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(lines=lines_of_text)
async def test_shows_what_is_there(run: Run, workspace: Path, lines: list[str]) -> None:
    """Without the numbers the text is the file's, whatever else than a line break is in it, a CR too."""
    text = "".join(f"{line}\n" for line in lines)
    (workspace / "f").write_bytes(text.encode())
    shown = await run("read", file_path="f")
    numbered = [line for line in shown.split("\n") if line and not line.startswith("[")]
    assert [f"{number:>6}\t" for number in range(1, len(lines) + 1)] == [line[:7] for line in numbered if lines]
    assert ("".join(f"{line[7:]}\n" for line in numbered) if lines else "") == text.removeprefix("\ufeff")


async def test_default_limit(run: Run, workspace: Path) -> None:
    """Of a long file 2000 lines come at a time."""
    (workspace / "f").write_text("x\n" * 2001)
    shown = await run("read", file_path="f")
    assert shown.splitlines()[-2:] == ["  2000\tx", "[lines 1 to 2000 of a file of 4002 bytes; go on with offset 2001]"]
    assert await run("read", file_path="f", offset=2001) == "  2001\tx\n"


async def test_much_text(run: Run, workspace: Path) -> None:
    """A result is bounded whatever its lines are."""
    (workspace / "f").write_text(("x" * 4000 + "\n") * 200)
    shown = await run("read", file_path="f")
    assert len(shown) < 110_000
    assert shown.endswith("go on with offset 26]")


async def test_long_lines(run: Run, workspace: Path) -> None:
    """A long line is cut where it is marked, between two characters, and the next one is whole."""
    (workspace / "f").write_text("x" + "é" * 5000 + "\nb\n")
    shown = await run("read", file_path="f")
    assert shown == (
        "     1\tx" + "é" * 2047 + "… [10002 bytes]\n     2\tb\n"
        "[lines of more than 4096 bytes are cut, as marked; bash with cut shows the rest]"
    )


async def test_empty(run: Run, workspace: Path) -> None:
    """An empty file is told to be one."""
    (workspace / "f").touch()
    assert await run("read", file_path="f") == "(the file is empty)"


async def test_crlf_bom_and_no_last_line_break(run: Run, workspace: Path) -> None:
    """Line endings are shown as they are; what cannot be seen is told."""
    (workspace / "f").write_bytes(b"\xef\xbb\xbfa\r\nb")
    assert await run("read", file_path="f") == (
        "     1\ta\r\n     2\tb\n"
        "[no line break at the end of the file]\n"
        "[lines end in CR LF; edit keeps that]\n"
        "[the file begins with a byte order mark; edit keeps it]"
    )


async def test_other_encodings(run: Run, workspace: Path) -> None:
    """What is not UTF-8 is replaced, and that is told."""
    (workspace / "f").write_bytes("größe\n".encode("latin-1"))
    assert await run("read", file_path="f") == (
        "     1\tgr\ufffd\ufffde\n"
        "[not all of this is UTF-8 text: \ufffd stands for what is not; edit refuses such a file]"
    )


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "a PNG image"),
        (b"\x7fELF\x02\x01", "an ELF program"),
        (b"%PDF-1.7\n", "a PDF document"),
        (b"PK\x03\x04\x14", "a zip archive"),
        (b"\x1f\x8b\x08", "gzip data"),
        ("\ufeffa".encode("utf-16-le"), "UTF-16 text"),
        (b"abc\0def", "binary data"),
    ],
)
async def test_binary(refusal: Refusal, workspace: Path, data: bytes, kind: str) -> None:
    """What is no text is refused with its size and what it seems to be."""
    (workspace / "f").write_bytes(data)
    error = await refusal("read", file_path="f")
    assert isinstance(error, NotText)
    assert (error.kind, error.size_bytes) == (kind, len(data))
    assert f"{kind}, {len(data)} bytes" in str(error)


@pytest.mark.parametrize(("name", "value"), [("offset", 0), ("offset", -1), ("limit", 0), ("offset", 4)])
async def test_numbers_that_mean_nothing(refusal: Refusal, workspace: Path, name: str, value: int) -> None:
    """An offset or a limit that means nothing is refused, one beyond the end with how long the file is."""
    (workspace / "f").write_text("a\nb\nc\n")
    error = await refusal("read", file_path="f", **{name: value})
    assert isinstance(error, ArgumentRefused)
    assert ("has 3 lines" if value == 4 else f"from 1 on, got {value}") in str(error)


async def test_huge_file(run: Run, refusal: Refusal, workspace: Path) -> None:
    """Of a huge file only what is asked for is held; what lies too far in is refused."""
    head = b"x\n" * 5000
    with (workspace / "f").open("wb") as file:
        file.write(head)
        file.truncate(len(head) + 200 * MIB)  # one line of NULs
    tracemalloc.start()
    try:
        assert (await run("read", file_path="f", limit=1)).startswith("     1\tx\n[lines 1 to 1")
        assert "… [209715200 bytes]" in await run("read", file_path="f", offset=5001)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * MIB
    os.truncate(workspace / "f", 3 << 30)
    assert (await run("read", file_path="f", limit=5000)).endswith("go on with offset 5001]")
    assert isinstance(await refusal("read", file_path="f", offset=5001), TooLarge)
