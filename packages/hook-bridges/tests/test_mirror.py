"""The plain copy of a log: every line of it, once, in a file that is nobody else's."""

from __future__ import annotations

import resource
import stat
from pathlib import Path

import pytest

from dsh_hook_bridges import TranscriptMirror
from dsh_session import Session, SessionHeader, encode_event, encode_header


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "hooks"


@pytest.fixture
def mirror(folder: Path) -> TranscriptMirror:
    return TranscriptMirror(str(folder))


def session(session_id: str = "s") -> Session:
    return Session(SessionHeader.new(session_id=session_id))


def title(of: Session, text: str) -> None:
    of.append("session/title", {"title": text, "messageSeqs": [], "source": {"kind": "user"}})


def lines(of: Session) -> bytes:
    return encode_header(of.header) + b"".join(map(encode_event, of.events))


def test_it_is_the_header_and_a_line_for_each_event(mirror, folder):
    """From the first call on, also when there is no event yet."""
    talk = session()
    for text in ("", "one", "two é\ud800"):
        if text:
            title(talk, text)
        path = mirror.update(talk)
        assert str(folder / "s.jsonl") == path == mirror.path("s")
        assert lines(talk) == Path(path).read_bytes()
    assert (0o600, 0o700) == (stat.S_IMODE(Path(path).stat().st_mode), stat.S_IMODE(folder.stat().st_mode))


def test_only_what_is_new_is_written(mirror):
    """What a reader has seen of it stays where it is."""
    talk = session()
    title(talk, "one")
    path = Path(mirror.update(talk))
    path.write_bytes(b"#" * path.stat().st_size)
    before = path.read_bytes()
    title(talk, "two")
    mirror.update(talk)
    mirror.update(talk)
    assert before + encode_event(talk.events[-1]) == path.read_bytes()


def test_a_file_that_is_there_is_made_anew(mirror):
    """An earlier process may have left half of one, and a session may come back."""
    talk = session()
    title(talk, "one")
    Path(mirror.path("s")).parent.mkdir(parents=True)
    Path(mirror.path("s")).write_text("left over, and longer than what comes " * 100)
    path = Path(mirror.update(talk))
    assert lines(talk) == path.read_bytes()
    path.write_text("spoilt")
    mirror.forget("s")
    mirror.forget("unknown")
    mirror.update(talk)
    assert lines(talk) == path.read_bytes()


def test_two_sessions_have_two_files(mirror):
    one, two = session("one"), session("two")
    title(one, "one")
    assert [lines(one), lines(two)] == [Path(mirror.update(each)).read_bytes() for each in (one, two)]


@pytest.mark.parametrize("session_id", [".", "..", "../up", "a/b", "/abs", "a\nb", "é", "%2F", ".hidden", "\ud800"])
def test_no_id_leads_out_of_the_folder(mirror, folder, session_id):
    """Nor are two of them one file."""
    path = Path(mirror.path(session_id))
    assert folder == path.parent
    assert path.name not in {Path(mirror.path(other)).name for other in ("", "up", "b", "%252F", "a_b")}


def test_an_id_that_no_file_can_be_named_after(mirror):
    """The limit is the file system's; it is said before anything is written."""
    assert "x" * 200 + ".jsonl" == Path(mirror.path("x" * 200)).name
    with pytest.raises(OSError, match="too long for a file's name"):
        mirror.path("é" * 60)


def test_a_link_in_its_place_is_not_followed(mirror, folder, tmp_path):
    """What it leads to stays as it is."""
    folder.mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    Path(mirror.path("s")).symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link"):
        mirror.update(session())
    assert "mine" == victim.read_text()


def test_what_could_not_be_written_is_written_later(mirror, folder):
    talk = session()
    title(talk, "one")
    folder.parent.mkdir(parents=True)
    folder.write_text("no folder")
    with pytest.raises(FileExistsError):
        mirror.update(talk)
    folder.unlink()
    assert lines(talk) == Path(mirror.update(talk)).read_bytes()


def test_a_line_that_was_cut_is_no_line(mirror):
    """A full disk leaves half of one; the next time the file is whole again."""
    talk = session()
    title(talk, "one")
    path = Path(mirror.update(talk))
    title(talk, "two" * 1000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            mirror.update(talk)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    title(talk, "three")
    mirror.update(talk)
    assert lines(talk) == path.read_bytes()
