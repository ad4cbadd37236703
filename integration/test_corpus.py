"""Real logs of the real harness, through the command people use."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from dsh_cli import main


def folders(shared):
    found = sorted(folder for folder in (shared / "corpus" / "v4").iterdir() if (folder / "sessions").is_dir())
    assert found
    return found


def test_ls_and_show_work_on_every_folder(shared):
    """Every session of every folder lists with its header and shows its conversation, as text and as JSON."""
    runner = CliRunner()
    for folder in folders(shared):
        root = str(folder / "sessions")
        listed = runner.invoke(main, ["ls", "--root", root, "--json"], catch_exceptions=False)
        assert 0 == listed.exit_code, listed.output
        sessions = json.loads(listed.stdout)["sessions"]
        expected = json.loads((folder / "expected.json").read_text())["sessions"]
        assert {entry["id"] for entry in expected} == {entry["id"] for entry in sessions}
        for session in sessions:
            shown = runner.invoke(main, ["show", session["id"], "--root", root, "--json"], catch_exceptions=False)
            assert 0 == shown.exit_code, shown.output
            verdict = next(entry for entry in expected if entry["id"] == session["id"])
            assert verdict["stored"]["count"] == len(json.loads(shown.stdout)["events"])
            text = runner.invoke(main, ["show", session["id"], "--root", root], catch_exceptions=False)
            assert 0 == text.exit_code
            assert text.stdout.startswith(session["id"])


def test_reading_the_corpus_changes_nothing(shared):
    """Reading takes no lock and writes nothing: not a byte, a name or a time."""
    state = lambda: {  # noqa: E731
        str(path): (path.lstat().st_mtime_ns, path.lstat().st_size)
        for folder in folders(shared)
        for path in folder.rglob("*")
    }
    before = state()

    test_ls_and_show_work_on_every_folder(shared)

    assert before == state()


@pytest.mark.parametrize("name", ["text-zstd", "text-raw"])
def test_show_tells_the_conversation(shared, name):
    """A person sees who said what, and how the turn ended."""
    root = shared / "corpus" / "v4" / name / "sessions"
    (session,) = next(root.iterdir()).iterdir()

    shown = CliRunner().invoke(main, ["show", session.name[:20], "--root", str(root)], catch_exceptions=False)

    assert "user │ [[text]]" in shown.stdout
    assert "assistant │ Hello from the mock model." in shown.stdout
    assert "end │ completed" in shown.stdout
