"""Texts too long for a conversation: their beginning, and where all of it is."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from dsh_hook_bridges._long_text import MAX_CHARACTERS, PREVIEW_CHARACTERS, shorten
from dsh_session import SessionMeta


@pytest.mark.parametrize("text", ["", "short", "é" * MAX_CHARACTERS])
def test_what_fits_stays_as_it_is(tmp_path, text):
    """And leaves nothing behind."""
    assert text == shorten(text, str(tmp_path / "texts"))
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["x" * (MAX_CHARACTERS + 1), "é\n" * 100_000, "\ud800" + "y" * MAX_CHARACTERS])
def test_what_does_not_is_in_a_file(tmp_path, text):
    """All of it, for its user alone; half a character becomes a question mark there."""
    folder = tmp_path / "a" / "texts"
    short = shorten(text, str(folder))
    (path,) = folder.iterdir()
    assert f"{text[:PREVIEW_CHARACTERS]}\n[cut: all {len(text)} characters are in {path}]" == short
    assert text.encode(errors="replace") == path.read_bytes()
    assert (0o600, 0o700) == (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(folder.stat().st_mode))


def test_each_has_its_own_file(tmp_path):
    """Also where they are the same."""
    shorts = {shorten("x" * (MAX_CHARACTERS + 1), str(tmp_path)) for _ in range(3)}
    assert (3, 3) == (len(shorts), len(list(tmp_path.iterdir())))


def test_where_none_can_be_made_the_beginning_is_kept(tmp_path):
    (tmp_path / "texts").write_text("no folder")
    text = "x" * (MAX_CHARACTERS + 1)
    expected = f"{'x' * PREVIEW_CHARACTERS}\n[cut: {len(text)} characters, which could not be saved: File exists]"
    assert expected == shorten(text, str(tmp_path / "texts"))


async def test_a_hook_s_context_is_cut(place, rig):
    """Each hook's on its own; the model can open the file."""
    place.hooks("claude-code", {"UserPromptSubmit": "printf 'x%.0s' {1..10001}", "Stop": "exit 0"})
    async with rig([{"text": "Done."}]) as run:
        agent = await run.agents.create(meta=SessionMeta(cwd=str(place.project)))
        await agent.prompt("Go.")
        texts = [block["text"] for message in agent.session.messages() for block in message["content"]]
    (added,) = (text for text in texts if text.startswith("xxx"))
    found = re.fullmatch(r"x{2000}\n\[cut: all 10001 characters are in (.+)\]", added)
    assert found is not None
    assert (str(place.home / "cache" / "hooks"), "x" * 10_001) == (
        str(Path(found[1]).parent),
        Path(found[1]).read_text(),
    )
