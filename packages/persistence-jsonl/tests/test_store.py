"""A root of logs: finding, listing, refusing (FORMAT §2, GENERATIONS §1)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_persistence import (
    FormatNotSupported,
    ListedSession,
    PersistenceError,
    SessionAlreadyStored,
    SessionCorrupt,
    SessionIdCollision,
    SessionIdTooLong,
    SessionLocation,
    SessionNotFound,
    StoreUnusable,
)
from dsh_persistence_jsonl import JsonlLogStore

Tree = Callable[[Path], dict[str, Any]]


def listing(root: Path) -> dict[str, ListedSession]:
    """The listing by the folder a session lies in."""
    return {Path(one.location.path).parent.name: one for one in JsonlLogStore(root).list()}


def good(made: Any, session_id: str, count: int = 1) -> Path:
    body = [made.lines(0, count)] if count else []
    log: Path = made.put(b"".join(map(made.frame, [made.header_line(session_id), *body])), session_id)
    return log


def test_locate_touches_nothing(root: Path, made: Any, tree: Tree) -> None:
    """DESIGN: locating is pure; the directory tree is the same afterwards, also where the root is absent."""
    location = JsonlLogStore(root).locate(made.session_header())
    assert location == SessionLocation(kind="jsonl", path=str(root / "--w--/s/session.v4.jsonl.zstd"))
    assert not root.exists()
    good(made, "s")
    before = tree(root.parent)
    store = JsonlLogStore(root)
    for session_id in ("s", "other", "../x"):
        store.locate(made.session_header(session_id))
    assert tree(root.parent) == before


def test_reading_changes_nothing(root: Path, made: Any, tree: Tree) -> None:
    """DURABILITY G9: reading and listing change no byte, name, mode or time, damage and torn tails included."""
    log = good(made, "a", 3)
    log.write_bytes(log.read_bytes() + b"\x28\xb5")
    made.put(b"junk", "b")
    before = tree(root)
    store = JsonlLogStore(root)
    assert store.read("a").torn is not None
    with pytest.raises(SessionCorrupt):
        store.read("b")
    assert len(list(store.list())) == 2
    assert tree(root) == before


def test_a_holder_is_told_without_a_lock(root: Path, made: Any, tree: Tree) -> None:
    """Whoever has a session for writing is named, by id and by place; nobody is where nobody has it."""
    log = good(made, "a")
    good(made, "b")
    store = JsonlLogStore(root)
    with store.open("a"):
        before = tree(root)
        there = SessionLocation(kind="jsonl", path=str(log))
        assert ["another writer of this process"] * 2 == [store.holder("a"), store.holder(there)]
        assert [None, None] == [store.holder("b"), store.holder("absent")]
        assert before == tree(root)
    assert store.holder("a") is None


def test_an_absent_root_is_empty(root: Path) -> None:
    """A root that is not there holds nothing; reading does not make it."""
    store = JsonlLogStore(root)
    assert list(store.list()) == []
    with pytest.raises(SessionNotFound, match="'s' was not found"):
        store.read("s")
    assert not root.exists()


def test_damage_does_not_hide_the_others(root: Path, made: Any) -> None:
    """CASES A06: random bytes, an empty file, a folder, a pipe or a link in a log's place are listed as damaged."""
    good(made, "a")
    made.put(os.urandom(64), "b")
    good(made, "c")
    made.put(b"", "d")
    (root / "--w--/e/session.v4.jsonl.zstd").mkdir(parents=True)
    (root / "--w--/f").mkdir()
    (root / "--w--/f/session.v4.jsonl.zstd").symlink_to(root / "--w--/a/session.v4.jsonl.zstd")
    (root / "--w--/g").mkdir()
    os.mkfifo(root / "--w--/g/session.v4.jsonl.zstd")
    (root / "--w--/only-a-lock").mkdir()
    (root / "--w--/only-a-lock/session.lock").touch()
    (root / "--w--/a-file").touch()
    (root / "a-file").touch()
    found = listing(root)
    assert sorted(found) == list("abcdefg")
    for name in "ac":
        assert (found[name].problem, found[name].header) == (None, made.session_header(name))
    for name in "bdefg":
        problem = found[name].problem
        assert isinstance(problem, SessionCorrupt)
        assert (problem.path, found[name].header, found[name].revision) == (found[name].location.path, None, None)
        with pytest.raises(SessionCorrupt):
            JsonlLogStore(root).read(name)
        with pytest.raises(SessionCorrupt):
            JsonlLogStore(root).open(name)
    with pytest.raises(SessionNotFound):
        JsonlLogStore(root).read("only-a-lock")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads whatever the modes say")
def test_folders_that_cannot_be_read(root: Path, made: Any) -> None:
    """A project or session folder without permission is a damaged entry; the others are listed all the same."""
    good(made, "a")
    locked = [root / "--w--/b", root / "--locked--"]
    for folder in locked:
        folder.mkdir(mode=0o000)
    try:
        found = list(JsonlLogStore(root).list())
        assert [one.location.path for one in found if isinstance(one.problem, StoreUnusable)] == sorted(
            map(str, locked)
        )
        assert [one.header for one in found if one.problem is None] == [made.session_header("a")]
        store = JsonlLogStore(root)
        assert store.read("a").next_seq == 1
        with pytest.raises(StoreUnusable, match="Permission denied"):
            store.read("nobody can tell")
        with store.create(made.session_header("new")) as writer, pytest.raises(StoreUnusable):
            writer.append(made.batch(0))
    finally:
        for folder in locked:
            folder.chmod(0o700)


def test_the_newest_generation_decides(root: Path, made: Any) -> None:
    """GENERATIONS §1: the highest generation is the session, whatever its state; it is named with its number."""
    good(made, "s", 2)
    newer = made.put(b"anything", name="session.v12.jsonl.zstd")
    for call in (JsonlLogStore(root).read, JsonlLogStore(root).open):
        with pytest.raises(FormatNotSupported, match="v12: a newer harness wrote it") as caught:
            call("s")
        assert (caught.value.path, caught.value.version) == (str(newer), 12)
    assert isinstance(listing(root)["s"].problem, FormatNotSupported)


@pytest.mark.parametrize("name", ["session.jsonl", "session.v3.jsonl"])
def test_older_generations_are_named(root: Path, made: Any, name: str) -> None:
    """An older log beside the current one is left alone; alone it is refused by its number."""
    made.put(b"anything", name=name)
    with pytest.raises(FormatNotSupported, match="this build reads only the current one"):
        JsonlLogStore(root).read("s")
    made.put(made.header + made.line(0), name="session.v4.jsonl")
    assert JsonlLogStore(root).read("s").next_seq == 1


def test_name_and_header_agree(root: Path, made: Any) -> None:
    """GENERATIONS §1: a v4 name over a header of another version is refused."""
    made.put(made.header_line(version=3), name="session.v4.jsonl")
    with pytest.raises(FormatNotSupported, match="v3"):
        JsonlLogStore(root).read("s")


def test_both_encodings_in_one_session(root: Path, made: Any) -> None:
    """FORMAT §2.4: a session with logs of both encodings refuses, naming them; other sessions are read."""
    good(made, "s")
    made.put(made.header + made.line(0), name="session.v4.jsonl")
    good(made, "other")
    with pytest.raises(SessionCorrupt, match=r"session\.v4\.jsonl, session\.v4\.jsonl\.zstd"):
        JsonlLogStore(root).read("s")
    assert isinstance(listing(root)["s"].problem, SessionCorrupt)
    assert JsonlLogStore(root).read("other").next_seq == 1


def test_one_encoding_a_root(root: Path, made: Any) -> None:
    """FORMAT §2.4: a root keeps the encoding it holds; another one is refused at the first write, naming a log."""
    log = made.put(made.header + made.line(0), name="session.v4.jsonl")
    assert JsonlLogStore(root).encoding == "raw"
    with JsonlLogStore(root).create(made.session_header("raw-too")) as writer:
        writer.append(made.batch(0))
    store = JsonlLogStore(root, encoding="zstd")
    with store.create(made.session_header("other")) as writer, pytest.raises(StoreUnusable) as caught:
        writer.append(made.batch(0))
    assert "holds raw logs, such as" in str(caught.value)
    assert str(log.parent.parent) in str(caught.value)
    assert not (root / "--w--/other").exists()
    with store.open("s") as writer:
        writer.append(made.batch(1))
    assert log.read_bytes() == made.header + made.lines(0, 2)


def test_an_empty_root_is_zstd(root: Path) -> None:
    """DESIGN: frames are the default where nothing says otherwise."""
    assert JsonlLogStore(root).encoding == "zstd"
    assert JsonlLogStore(root, encoding="raw").encoding == "raw"


def test_a_root_that_is_a_file(tmp_path: Path, made: Any) -> None:
    """A root that is a file is refused at once, and one that became a file or lies below one says so as well."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreUnusable, match="is a file") as caught:
        JsonlLogStore(tmp_path / "file")
    assert caught.value.path == str(tmp_path / "file")
    with pytest.raises(StoreUnusable, match="Not a directory"):
        JsonlLogStore(tmp_path / "file" / "root")
    store = JsonlLogStore(tmp_path / "file" / "root", encoding="zstd")
    with pytest.raises(StoreUnusable):
        list(store.list())
    with pytest.raises(StoreUnusable):
        store.read("s")
    with store.create(made.session_header()) as writer, pytest.raises(StoreUnusable):
        writer.append(made.batch(0))
    assert (tmp_path / "file").read_text() == "x"


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes whatever the modes say")
def test_an_unwritable_root(root: Path, made: Any) -> None:
    """A root without write permission reads, and refuses the first write with the path at fault."""
    good(made, "s")
    root.chmod(0o500)
    (root / "--w--/s").chmod(0o500)
    try:
        store = JsonlLogStore(root)
        assert store.read("s").next_seq == 1
        with store.create(made.session_header("x", cwd="/elsewhere")) as writer, pytest.raises(StoreUnusable) as caught:
            writer.append(made.batch(0))
        assert caught.value.path.startswith(str(root))
        with pytest.raises(StoreUnusable):
            store.open("s")
    finally:
        root.chmod(0o700)
        (root / "--w--/s").chmod(0o700)


def test_a_file_where_a_folder_should_be(root: Path, made: Any) -> None:
    """A file, or a link, in the place of a project folder is no place to write; nothing is written through it."""
    root.mkdir()
    (root / "--w--").write_text("x")
    outside = root.parent / "outside"
    outside.mkdir()
    (root / "--v--").symlink_to(outside)
    for cwd in ("/w", "/v"):
        with JsonlLogStore(root).create(made.session_header(cwd=cwd)) as writer, pytest.raises(StoreUnusable):
            writer.append(made.batch(0))
    assert list(outside.iterdir()) == []


def test_ids_are_unique_in_the_root(root: Path, made: Any) -> None:
    """WRITING trap 8: the same id under another working directory is refused before anything is made."""
    log = good(made, "s")
    writer = JsonlLogStore(root).create(made.session_header(cwd="/other"))
    with pytest.raises(SessionAlreadyStored) as caught:
        writer.append(made.batch(0))
    assert caught.value.where == str(log)
    assert [path.name for path in root.iterdir()] == ["--w--"]


def test_the_same_id_in_two_projects(root: Path, made: Any) -> None:
    """FORMAT §2.3: an id that lies in two projects is damage for whoever asks by id."""
    good(made, "s")
    made.put(made.frame(made.header_line(cwd="/v")), project="--v--")
    with pytest.raises(SessionCorrupt, match="as well"):
        JsonlLogStore(root).read("s")
    with pytest.raises(SessionCorrupt, match="as well"):
        JsonlLogStore(root).open("s")


def test_a_moved_log(root: Path, made: Any) -> None:
    """FORMAT §2.3: a log that does not lie where its header says is refused by id and in listings.

    Who names the place itself means that file, and reads it as it is.
    """
    content = made.frame(made.header) + made.frame(made.line(0))
    wrong_id = made.put(content, "t")
    made.put(content, "s", project="--elsewhere--")
    for session_id in ("s", "t"):
        with pytest.raises(SessionCorrupt, match="was it moved") as caught:
            JsonlLogStore(root).read(session_id)
        assert (caught.value.offset, caught.value.line) == (0, 1)
    assert {type(one.problem) for one in JsonlLogStore(root).list()} == {SessionCorrupt}
    stored = JsonlLogStore(root).read(SessionLocation(kind="jsonl", path=str(wrong_id)))
    assert (stored.header, stored.source, stored.next_seq) == (made.session_header(), str(wrong_id), 1)


def test_a_renamed_root_is_no_move(root: Path, made: Any) -> None:
    """FORMAT §2.3: only project and session folder are compared, so a root may lie, and be linked to, anywhere."""
    good(made, "s")
    root.rename(root.with_name("renamed"))
    root.symlink_to(root.with_name("renamed"))
    assert JsonlLogStore(root).read("s").next_seq == 1
    assert [one.problem for one in JsonlLogStore(root).list()] == [None]


@pytest.mark.parametrize("session_id", ["x" * 256, "é" * 52])
def test_ids_that_no_folder_can_have(root: Path, made: Any, session_id: str) -> None:
    """DESIGN: an id whose folder name would exceed 255 bytes is refused before anything is written."""
    good(made, "s")
    store = JsonlLogStore(root)
    with store.create(made.session_header(session_id)) as writer, pytest.raises(SessionIdTooLong, match="bytes of 255"):
        writer.append(made.batch(0))
    assert [path.name for path in root.glob("*/*")] == ["s"]
    with pytest.raises(SessionNotFound):
        store.read(session_id)


def test_an_id_that_the_file_system_takes_for_another(root: Path, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """DURABILITY G16: where case is not told apart, an id is refused and never merged with another one."""
    good(made, "s")
    folder = next(root.glob("*/s"))
    real = os.listdir
    # What such a file system shows after a folder S was asked for: the name s, under which S is found as well.
    monkeypatch.setattr(os, "listdir", lambda path: ["s"] if Path(path) == folder.parent else real(path))
    store = JsonlLogStore(root)
    with store.create(made.session_header("S")) as writer, pytest.raises(SessionIdCollision, match="another id"):
        writer.append(made.batch(0))
    monkeypatch.undo()
    assert [path for path in root.glob("*/S/*") if path.name.endswith((".zstd", ".jsonl"))] == []
    assert JsonlLogStore(root).read("s").next_seq == 1


def test_the_longest_id(root: Path, made: Any) -> None:
    """An id of exactly 255 bytes has a folder."""
    store = JsonlLogStore(root)
    with store.create(made.session_header("x" * 255)) as writer:
        writer.append(made.batch(0))
    assert store.read("x" * 255).next_seq == 1


def test_baselines_of_a_fork(root: Path, made: Any) -> None:
    """DESIGN: the baselines are the delegation events after the inherited part, not the parent's own."""
    mode = '{"mode":"%s","source":"delegation"}'
    lines = [
        made.header_line(isSeeded=True),
        made.line(0, "sandbox/mode", mode % "parents"),
        made.line(1, "session/end-seed", '{"inherited":true}'),
        made.line(2, "sandbox/mode", '{"mode":"by-hand"}'),
        made.line(3, "sandbox/mode", mode % "own"),
        made.line(4, "sandbox/mode", mode % "later"),
        made.line(5, "approval/policy", '{"policy":"never","source":"delegation"}'),
    ]
    made.put(b"".join(lines), name="session.v4.jsonl")
    header = JsonlLogStore(root).read("s").header
    assert (header.sandbox_mode, header.approval_policy, header.seed_length) == ("own", "never", 1)


def test_a_big_log_lists_from_its_head(root: Path, made: Any) -> None:
    """Listing needs the header only: a log that is damaged further on, or large, lists like any other."""
    big = made.frame(made.header) + made.frame(made.line(0, data='"' + "ü" * 300_000 + '"')) + b"junk"
    made.put(big)
    found = listing(root)["s"]
    assert (found.problem, found.header) == (None, made.session_header())
    with pytest.raises(PersistenceError):
        JsonlLogStore(root).read("s")


def test_a_revision_claims_no_more_than_was_read(root: Path, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """DURABILITY G19: what a writer adds during a read is neither in the events nor in the revision."""
    good(made, "s", 2)
    store = JsonlLogStore(root)
    writer = store.open("s")
    before = store.read("s").revision
    pread = os.pread

    def slow(fd: int, size: int, offset: int) -> bytes:
        monkeypatch.setattr(os, "pread", pread)
        writer.append(made.batch(2))
        return pread(fd, size, offset)

    monkeypatch.setattr(os, "pread", slow)
    stored = store.read("s")
    writer.close()
    assert (stored.next_seq, stored.torn, stored.revision) == (2, None, before)
    assert store.read("s").revision != before
