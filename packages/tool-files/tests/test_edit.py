from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dsh_tool_files import ArgumentRefused, NotText, TextNotFound, TextNotUnique, TooLarge
from dsh_tool_files._edit import MAX_FILE_BYTES, replace_text

if TYPE_CHECKING:
    from conftest import Refusal, Run

few = st.text(st.sampled_from("ab\né"), max_size=12)  # so that repetitions and overlaps are common
some = st.text(st.sampled_from("ab\né"), min_size=1, max_size=4)


def begins(text: str, old: str) -> list[int]:
    """Every place where ``old`` begins, overlapping ones too."""
    return [at for at in range(len(text)) if text.startswith(old, at)]


class TestReplacing:
    @given(text=few, old=some, new=few)
    @example(text="aaa", old="aa", new="b")
    def test_one(self, text: str, old: str, new: str) -> None:
        """A text that begins at one place is replaced there; at more, overlapping ones too, nothing is."""
        places = begins(text, old)
        if not places:
            with pytest.raises(TextNotFound):
                replace_text("f", text.encode(), old.encode(), new.encode(), replace_all=False)
        elif len(places) > 1:
            with pytest.raises(TextNotUnique) as caught:
                replace_text("f", text.encode(), old.encode(), new.encode(), replace_all=False)
            assert caught.value.lines == tuple(text.count("\n", 0, at) + 1 for at in places[:10])
        else:
            data, count, lines = replace_text("f", text.encode(), old.encode(), new.encode(), replace_all=False)
            (at,) = places
            assert data.decode() == text[:at] + new + text[at + len(old) :]
            assert (count, lines) == (1, [text.count("\n", 0, at) + 1])

    @given(around=st.lists(few, min_size=2, max_size=20), old=some, new=few)
    def test_all(self, around: list[str], old: str, new: str) -> None:
        """All are replaced as ``str.replace`` does, from left to right."""
        text = old.join(around)
        data, count, lines = replace_text("f", text.encode(), old.encode(), new.encode(), replace_all=True)
        assert (data.decode(), count) == (text.replace(old, new), text.count(old))
        assert len(lines) == min(count, 10)
        assert lines[0] == text.count("\n", 0, text.index(old)) + 1

    @given(before=few, old=some, after=few, new=few, replace_all=st.booleans())
    def test_line_endings_stay(self, before: str, old: str, after: str, new: str, replace_all: bool) -> None:
        """In a file of CR LF lines, an edit written with LF does what it would with LF, and CR LF stays."""
        text = f"{before}{old}{after}\n"
        replace_all = replace_all or len(begins(text, old)) > 1
        with_crlf = text.replace("\n", "\r\n").encode()
        data, count, lines = replace_text("f", with_crlf, old.encode(), new.encode(), replace_all=replace_all)
        plain = replace_text("f", text.encode(), old.encode(), new.encode(), replace_all=replace_all)
        assert (data.replace(b"\r\n", b"\n"), count, lines) == plain
        assert data.count(b"\n") == data.count(b"\r\n")

    def test_mixed_line_endings(self) -> None:
        """In a file that mixes them, line endings are taken as they are given."""
        data, _, _ = replace_text("f", b"a\r\nb\nc", b"b\n", b"x\ny\n", replace_all=False)
        assert data == b"a\r\nx\ny\nc"
        with pytest.raises(TextNotFound):
            replace_text("f", b"a\r\nb\nc", b"a\nb", b"x", replace_all=False)

    def test_crlf_given(self) -> None:
        """CR LF that is given to a file of CR LF lines is not doubled."""
        assert replace_text("f", b"a\r\nb\r\n", b"a\r\nb", b"c\r\nd\ne", replace_all=False)[0] == b"c\r\nd\r\ne\r\n"

    def test_too_much_of_it(self) -> None:
        """A replacement that would fill the memory is refused; looking for a place among millions is bounded."""
        data = b"a" * MAX_FILE_BYTES
        with pytest.raises(TooLarge, match="nothing was changed"):
            replace_text("f", data, b"a", b"b" * MAX_FILE_BYTES, replace_all=True)
        with pytest.raises(TextNotUnique):
            replace_text("f", data, b"a", b"b", replace_all=False)


async def test_edits_a_file(run: Run, workspace: Path) -> None:
    """The file changes where it was told, and the answer says where."""
    (workspace / "f").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    (workspace / "f").chmod(0o700)
    assert await run("edit", file_path="f", old_string="two\nth", new_string="2\nTh") == (
        "edited f: 1 replacement at line 2"
    )
    assert (workspace / "f").read_bytes() == b"\xef\xbb\xbfone\r\n2\r\nThree\r\n"
    assert (workspace / "f").stat().st_mode & 0o777 == 0o700
    assert [path.name for path in workspace.iterdir()] == ["f"]


async def test_edits_everywhere(run: Run, workspace: Path) -> None:
    """With replace_all every occurrence changes; the first few lines are told."""
    (workspace / "f").write_text("x\n" * 12)
    answer = await run("edit", file_path="f", old_string="x", new_string="", replace_all=True)
    assert answer == "edited f: 12 replacements at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …"
    assert (workspace / "f").read_text() == "\n" * 12


async def test_not_unique(refusal: Refusal, workspace: Path) -> None:
    """Where the text is more than once, the lines are told and nothing changes."""
    (workspace / "f").write_text("x\ny\nx\n")
    error = await refusal("edit", file_path="f", old_string="x", new_string="z")
    assert isinstance(error, TextNotUnique)
    assert (error.lines, "(lines 1, 3)" in str(error), "replace_all" in str(error)) == ((1, 3), True, True)
    assert (workspace / "f").read_text() == "x\ny\nx\n"


@pytest.mark.parametrize(
    ("old", "words"),
    [("     1\tone", "leave out the line numbers"), ("one  two", "white space only"), ("three", "read the file again")],
)
async def test_not_found(refusal: Refusal, workspace: Path, old: str, words: str) -> None:
    """Where the text is not, the likely reason is told."""
    (workspace / "f").write_text("one two\n")
    error = await refusal("edit", file_path="f", old_string=old, new_string="z")
    assert isinstance(error, TextNotFound)
    assert words in str(error)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [("", "x", "it is empty"), ("x", "x", "nothing would change"), ("\ud800", "x", "invalid old_string"),
     ("x", "\udc80", "invalid new_string")],
)  # fmt: skip
async def test_arguments_that_mean_nothing(refusal: Refusal, old: str, new: str, words: str) -> None:
    """An edit that means nothing is refused before the file is looked for."""
    error = await refusal("edit", file_path="f", old_string=old, new_string=new)
    assert isinstance(error, ArgumentRefused)
    assert words in str(error)


@pytest.mark.parametrize(
    ("data", "kind"),
    [("größe x".encode("latin-1"), "text of another encoding, from byte 2 on"), (b"x\0", "binary data")],
)
async def test_not_text(refusal: Refusal, workspace: Path, data: bytes, kind: str) -> None:
    """A file in another encoding is left alone: new text would mix two."""
    (workspace / "f").write_bytes(data)
    error = await refusal("edit", file_path="f", old_string="x", new_string="é")
    assert isinstance(error, NotText)
    assert (error.kind, (workspace / "f").read_bytes()) == (kind, data)


async def test_too_large(refusal: Refusal, workspace: Path) -> None:
    """A file too large to hold is refused."""
    with (workspace / "f").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    assert isinstance(await refusal("edit", file_path="f", old_string="x", new_string="y"), TooLarge)
