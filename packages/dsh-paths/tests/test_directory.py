from __future__ import annotations

import os
from pathlib import Path

import pytest

from dsh_paths import DshHomeNotDirectory, require_dsh_home_directory


def test_directory_and_absent_home_pass(tmp_path: Path) -> None:
    """A directory passes, and so does a place where one can be made; nothing is created."""
    assert require_dsh_home_directory(tmp_path) == str(tmp_path)
    assert require_dsh_home_directory(str(tmp_path / "a" / "b")) == str(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def test_link_to_a_directory_passes(tmp_path: Path) -> None:
    """A link to a directory is as good as one."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert require_dsh_home_directory(tmp_path / "link") == str(tmp_path / "link")


def test_file_is_named(tmp_path: Path) -> None:
    """A home that is a file is refused with its path and the way out."""
    home = tmp_path / "home"
    home.write_text("")
    with pytest.raises(DshHomeNotDirectory) as caught:
        require_dsh_home_directory(home)
    assert str(caught.value) == f"home is a file: {home}; move it away, or set DSH_HOME to a directory"
    assert (caught.value.path, caught.value.obstacle) == (str(home), str(home))


def test_file_on_the_way(tmp_path: Path) -> None:
    """A file at a parent is refused, and named."""
    (tmp_path / "f").write_text("")
    with pytest.raises(DshHomeNotDirectory, match="home lies below a file") as caught:
        require_dsh_home_directory(tmp_path / "f" / "a" / "b")
    assert caught.value.obstacle == str(tmp_path / "f")


def test_broken_link(tmp_path: Path) -> None:
    """A link that leads nowhere would make creating the home fail, so it is refused."""
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(DshHomeNotDirectory, match="home is a broken link"):
        require_dsh_home_directory(tmp_path / "link")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may search every directory")
def test_closed_parent(tmp_path: Path) -> None:
    """A parent that may not be searched is reported as the system reports it."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    try:
        with pytest.raises(PermissionError):
            require_dsh_home_directory(closed / "home")
    finally:
        closed.chmod(0o700)
