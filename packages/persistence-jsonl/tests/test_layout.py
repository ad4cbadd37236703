from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_persistence_jsonl import JsonlLogStore
from dsh_persistence_jsonl._layout import log_path, logs_in, project_segment, session_segment
from dsh_session import SessionHeader


@pytest.mark.parametrize(
    ("cwd", "segment"),
    [
        (None, "_no-cwd"),
        ("/", "--root--"),
        ("/-", "--root--"),
        ("/home/x", "--home-x--"),
        ("//a//b/", "--a-b---"),
        ("/a/b c", "--a-b~0020c--"),
        ("/a/-b-", "--a--b---"),
        ("/a.b/..c", "--a.b-..c--"),
        ("C:\\Users\\me", "--C-Users-me--"),
        ("/a/~tilde", "--a-~007Etilde--"),
        ("/emoji😀", "--emoji~D83D~DE00--"),
        ("/half\ud800", "--half~D800--"),
        ("/" + "x" * 400, f"--{'x' * 251}--"),
        ("/../..", "--..-..--"),
    ],
)
def test_project_segments(cwd: str | None, segment: str) -> None:
    """FORMAT §2.2: separator runs become one dash, other characters are escaped by UTF-16 unit, 251 are kept."""
    assert project_segment(cwd) == segment


@pytest.mark.parametrize(
    ("session_id", "segment"),
    [
        ("session-1", "session-1"),
        (".", "~002E"),
        ("..", "~002E~002E"),
        ("...", "..."),
        ("a/b", "a~002Fb"),
        ("a~b", "a~007Eb"),
        ("~002E", "~007E002E"),
        ("😀", "~D83D~DE00"),
        ("\ud800", "~D800"),
        ("x\0y", "x~0000y"),
        ("A B", "A~0020B"),
    ],
)
def test_session_segments(session_id: str, segment: str) -> None:
    """FORMAT §2.2: an id's folder name escapes everything unusual, and leads nowhere else."""
    assert session_segment(session_id) == segment


def test_empty_id() -> None:
    """FORMAT §1.3: an empty id names no folder."""
    with pytest.raises(ValueError, match="empty"):
        session_segment("")


ANY_TEXT = st.text(st.characters(exclude_categories=()), min_size=1) | st.sampled_from([".", "..", "\0", "~", "/"])


@given(ANY_TEXT, ANY_TEXT)
def test_segments_are_injective(one: str, other: str) -> None:
    """DURABILITY G16: two ids share a folder only when they are the same UTF-16 text."""
    same = one.encode("utf-16", "surrogatepass") == other.encode("utf-16", "surrogatepass")
    assert (session_segment(one) == session_segment(other)) == same


@given(ANY_TEXT, st.none() | ANY_TEXT.map("/".__add__))
def test_paths_stay_below_the_root(session_id: str, cwd: str | None) -> None:
    """DURABILITY G16: whatever the id and the directory, the log lies exactly three levels below the root."""
    path = log_path(Path("/root"), SessionHeader(id=session_id, created_at=0, cwd=cwd), "zstd")
    assert path.parts[:2] == ("/", "root")
    assert len(path.parts) == 5
    assert not {".", ".."} & set(path.parts)
    assert path.name == "session.v4.jsonl.zstd"
    assert str(path).isascii()
    assert "\0" not in str(path)


def test_vectors(shared: Path) -> None:
    """FORMAT §2.2: the reference's own paths, under the file name of the present generation."""
    vectors = json.loads((shared / "corpus/vectors.json").read_bytes())["paths"]
    assert len(vectors) > 20
    for vector in vectors:
        if isinstance(vector["path"], dict):
            assert vector["id"] == ""
            continue
        header = SessionHeader(id=vector["id"], created_at=0, cwd=vector["cwd"])
        expected = vector["path"].replace("/session.jsonl", "/session.v4.jsonl")
        assert str(log_path(Path("/r"), header, "raw")) == f"/r/{expected}"


def test_only_canonical_names_are_logs(tmp_path: Path) -> None:
    """GENERATIONS §1: the highest canonical generation first; other names are no logs."""
    names = "session.jsonl session.v3.jsonl session.v4.jsonl.zstd session.v12.jsonl".split()
    others = "session.v0.jsonl session.v04.jsonl session.V4.jsonl session.v4.jsonl.tmp session.lock xsession.jsonl"
    for name in [*names, *others.split(), "session.v4.jsonl.zstd.torn-5-abc", "session.v4.jsonl.a1b2.tmp"]:
        (tmp_path / name).touch()
    assert [(log.name, log.generation, log.encoding) for log in logs_in(str(tmp_path))] == [
        ("session.v12.jsonl", 12, "raw"),
        ("session.v4.jsonl.zstd", 4, "zstd"),
        ("session.v3.jsonl", 3, "raw"),
        ("session.jsonl", 0, "raw"),
    ]
    assert logs_in(str(tmp_path / "absent")) == []


def test_a_relative_root_is_resolved_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DESIGN: a relative root is made absolute when the store is made, and stays there."""
    monkeypatch.chdir(tmp_path)
    store = JsonlLogStore("logs")
    monkeypatch.chdir("/")
    location = store.locate(SessionHeader(id="s", created_at=0))
    assert (location.kind, location.path) == ("jsonl", f"{tmp_path}/logs/_no-cwd/s/session.v4.jsonl.zstd")
