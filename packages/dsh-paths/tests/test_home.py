from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from dsh_paths import (
    DSH_HOME_ENV,
    DshHomeInvalid,
    DshPathsError,
    UserHomeUnknown,
    default_dsh_home,
    dsh_home_display,
    dsh_home_path,
    expand_home_path,
    resolve_dsh_home,
)

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the vectors are POSIX paths")


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.delenv("DSH_HOME", raising=False)
    return "/home/u"


def test_names() -> None:
    """1.1: the directory is .dsh, its display form ~/.dsh, the variable DSH_HOME."""
    assert DSH_HOME_ENV == "DSH_HOME"
    assert default_dsh_home().endswith("/.dsh")
    assert dsh_home_display(default_dsh_home()) == "~/.dsh"


def test_default_follows_home_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """1.2: the default lies in $HOME, read at each call."""
    assert default_dsh_home() == "/home/u/.dsh"
    monkeypatch.setenv("HOME", "/elsewhere")
    assert default_dsh_home() == "/elsewhere/.dsh"


@pytest.mark.parametrize("value", [None, ""])
def test_default_falls_back_to_user_database(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    """1.2: without $HOME the user database decides; an empty $HOME counts as none."""
    monkeypatch.delenv("HOME")
    if value is not None:
        monkeypatch.setenv("HOME", value)
    entry = pwd.struct_passwd(("u", "x", 1, 1, "", "/var/u", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: entry)
    assert default_dsh_home() == "/var/u/.dsh"


def test_user_without_any_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """1.2: a uid that nothing names is a clear error, and no path relative to the working directory."""

    def nobody(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(UserHomeUnknown, match="set HOME") as caught:
        default_dsh_home()
    assert isinstance(caught.value, DshPathsError)
    assert resolve_dsh_home("/x") == "/x"
    assert resolve_dsh_home(env={"DSH_HOME": "/y"}) == "/y"
    assert dsh_home_display("/y") == "$DSH_HOME"


def test_expand_tilde_alone() -> None:
    """1.3: ~ is the user's home."""
    assert expand_home_path("~") == "/home/u"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("~/.dsh", "/home/u/.dsh"),
        ("~\\.dsh", "/home/u/.dsh"),
        ("~/", "/home/u"),
        ("~//x", "/home/u/x"),
        ("~\\/x", "/home/u/x"),
        ("~/a/../b", "/home/u/b"),
        ("~\\a\\b", "/home/u/a\\b"),
    ],
)
def test_expand_prefix(path: str, expected: str) -> None:
    """1.4: both separators after ~ expand alike, and the rest stays below the home."""
    assert expand_home_path(path) == expected


@pytest.mark.parametrize("path", ["~other/.dsh", "$HOME/x", "foo/~", "", "/abs", "rel/", " ~", "~~", "//a/../b"])
def test_expand_leaves_everything_else(path: str) -> None:
    """1.5: anything else comes back unchanged."""
    assert expand_home_path(path) == path


def test_expand_takes_path_objects() -> None:
    """1.3 to 1.5 hold for path objects too."""
    assert expand_home_path(Path("~/x")) == "/home/u/x"


@pytest.mark.parametrize(
    ("configured", "env", "expected"),
    [
        ("/tmp/e", {"DSH_HOME": "~/env"}, "/tmp/e"),
        (None, {"DSH_HOME": "~/env"}, "/home/u/env"),
        (None, {}, "/home/u/.dsh"),
        (None, {"DSH_HOME": ""}, "/home/u/.dsh"),
        (None, {"DSH_HOME": "   "}, "/home/u/.dsh"),
        (None, {"DSH_HOME": "\t\n"}, "/home/u/.dsh"),
        ("~/.dsh", {}, "/home/u/.dsh"),
        ("~\\.dsh", {}, "/home/u/.dsh"),
        (Path("/p"), {"DSH_HOME": "/q"}, "/p"),
    ],
)
def test_precedence(configured: str | Path | None, env: dict[str, str], expected: str) -> None:
    """1.6, 1.7: configured, then a non-blank DSH_HOME, then the default."""
    assert resolve_dsh_home(configured, env=env) == expected


def test_environment_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """1.6: without a given env the environment of the process counts; an empty given one hides it."""
    monkeypatch.setenv("DSH_HOME", "/ambient")
    assert resolve_dsh_home() == "/ambient"
    assert resolve_dsh_home(env={}) == "/home/u/.dsh"


def test_given_env_does_not_move_the_tilde() -> None:
    """1.6: a given env is asked for DSH_HOME only."""
    assert resolve_dsh_home("~/x", env={"HOME": "/other"}) == "/home/u/x"


def test_padded_value_is_not_trimmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1.8: padding is part of a non-blank value, which makes it a relative name."""
    monkeypatch.chdir(tmp_path)
    assert resolve_dsh_home(env={"DSH_HOME": "  /x "}) == f"{tmp_path}/  /x "


@pytest.mark.parametrize("configured", ["", " ", "\t\n "])
def test_blank_configured_home(configured: str) -> None:
    """1.9, Q6: a blank explicit home is an error, also when DSH_HOME is set."""
    with pytest.raises(DshHomeInvalid, match="name a directory, or leave the setting out") as caught:
        resolve_dsh_home(configured, env={"DSH_HOME": "/x"})
    assert caught.value.configured == configured


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        ("/a//b///c", "/a/b/c"),
        ("/a/../b/./c/", "/b/c"),
        ("//a/b", "/a/b"),
        ("///a", "/a"),
        ("/..", "/"),
        ("//", "/"),
    ],
)
def test_normalised(configured: str, expected: str) -> None:
    """1.10: parents, doubled separators and a trailing slash are folded."""
    assert resolve_dsh_home(configured) == expected


def test_links_are_kept(tmp_path: Path) -> None:
    """1.10: a link stays a link; the disk is not asked."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert resolve_dsh_home(tmp_path / "link") == str(tmp_path / "link")
    assert resolve_dsh_home(tmp_path / "absent") == str(tmp_path / "absent")


def test_relative_values_follow_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1.10, 1.11: a relative value counts from the working directory of the call."""
    (tmp_path / "one").mkdir()
    monkeypatch.chdir(tmp_path)
    assert resolve_dsh_home("h") == f"{tmp_path}/h"
    assert resolve_dsh_home(env={"DSH_HOME": "../h"}) == str(tmp_path.parent / "h")
    monkeypatch.chdir(tmp_path / "one")
    assert resolve_dsh_home("h") == f"{tmp_path}/one/h"
    assert resolve_dsh_home("~user/x") == f"{tmp_path}/one/~user/x"


def test_absolute_value_needs_no_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1.10: an absolute value resolves even where the working directory is gone."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert resolve_dsh_home("/a/../b") == "/b"


def test_home_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """1.12: segments are joined under the home; none means the home; each call reads anew."""
    assert dsh_home_path() == "/home/u/.dsh"
    assert dsh_home_path("skills", "a") == "/home/u/.dsh/skills/a"
    assert dsh_home_path("/skills") == "/home/u/.dsh/skills"
    monkeypatch.setenv("DSH_HOME", "/moved")
    assert dsh_home_path("skills") == "/moved/skills"


def test_display(monkeypatch: pytest.MonkeyPatch) -> None:
    """1.13: ~/.dsh for the default, $DSH_HOME for all else, whatever DSH_HOME says now."""
    assert dsh_home_display("/home/u/.dsh") == "~/.dsh"
    assert dsh_home_display("/home/u/.dsh/") == "$DSH_HOME"
    assert dsh_home_display("/moved") == "$DSH_HOME"
    monkeypatch.setenv("DSH_HOME", "/moved")
    assert dsh_home_display("/moved") == "$DSH_HOME"
    assert dsh_home_display("/home/u/.dsh") == "~/.dsh"


def test_import_reads_nothing() -> None:
    """Importing takes no value from the environment: what is set later counts."""
    code = (
        "import os, dsh_paths\n"
        "os.environ['DSH_HOME'] = '/late'\n"
        "assert dsh_paths.resolve_dsh_home() == '/late'\n"
        "import sys; assert 'asyncio' not in sys.modules and 'subprocess' not in sys.modules\n"
    )
    source = str(Path(sys.modules["dsh_paths"].__file__ or "").parents[1])
    env = {"PYTHONPATH": source, "HOME": "/home/u"}
    subprocess.run([sys.executable, "-c", code], check=True, env=env, timeout=60)
