"""Which project a session works in."""

from __future__ import annotations

from pathlib import Path

from dsh_agent import find_project


def test_the_nearest_repository(tmp_path: Path) -> None:
    """A file ``.git``, as a worktree has one, counts, and so does a link that leads nowhere."""
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    assert str(tmp_path) == find_project(str(inner))
    (tmp_path / "a" / ".git").symlink_to("gone")
    assert str(tmp_path / "a") == find_project(str(inner))
    (inner / ".git").write_text("gitdir: elsewhere")
    assert str(inner) == find_project(str(inner))


def test_none_anywhere() -> None:
    assert "/no/such/folder" == find_project("/no/such/folder")
