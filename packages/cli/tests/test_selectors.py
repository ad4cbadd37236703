"""What a person may type for a session: an id, the beginning of one, ``@latest``, a path."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from dsh_cli import main
from dsh_persistence import ListedSession, SessionLocation


def cat(*arguments: object):
    return CliRunner().invoke(main, ["cat", *map(str, arguments)], catch_exceptions=False)


def chosen(*arguments: object) -> str:
    """The id of the session that was printed."""
    done = cat(*arguments, "--raw")
    assert 0 == done.exit_code, done.stderr
    return json.loads(done.stdout_bytes.splitlines()[0])["id"]


def test_an_id_or_its_beginning(store_session, root):
    """With or without ``session-``; an exact id wins over longer ones that begin with it."""
    for session_id in ("session-abc", "session-abcdef", "xyz", "session-xyz0"):
        store_session(session_id)

    assert "session-abc" == chosen("session-abc", "--root", root)
    assert "session-abcdef" == chosen("abcd", "--root", root)
    assert "session-xyz0" == chosen("session-x", "--root", root)


def test_a_session_that_begins_with_no_message_is_found(store_session, root):
    """C06: the header decides, not the first events."""
    session_id = "c06"
    log = store_session(session_id)
    header, rest = log.read_bytes().split(b"\n", 1)
    lines = [json.loads(line) for line in rest.splitlines()]
    odd = [{"type": f"acme/{n}", "seq": n, "time": 1, "data": {"n": n}, "ignorable": True} for n in range(3)]
    rows = [*odd, *({**line, "seq": line["seq"] + 3} for line in lines)]
    log.write_bytes(header + b"\n" + b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows))

    done = cat("c06", "--root", root)

    assert 0 == done.exit_code
    assert rows == [json.loads(line) for line in done.stdout_bytes.splitlines()]


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("nobody", "session 'nobody' was not found in"),
        ("session-", "'session-' fits 2 sessions (session-a1, session-a2); type more of the id"),
        ("@newest", "session '@newest' was not found in"),
        ("{root}/nowhere/session.v4.jsonl", "does not exist, and no session of that id"),
        ("gone.jsonl", "does not exist, and no session of that id"),
        ("{root}", "holds no log; name a log file or a session's folder"),
        ("{root}/other.txt", "is no log"),
    ],
)
def test_unknown_and_ambiguous_are_exit_code_3(store_session, root, monkeypatch, selector, message):
    """One line that says what to type instead."""
    store_session("session-a1")
    store_session("session-a2")
    (root / "other.txt").touch()
    is_path = "{root}" in selector
    selector = selector.format(root=root)

    done = cat(selector, *([] if is_path else ["--root", root]))

    assert (3, b"") == (done.exit_code, done.stdout_bytes)
    assert message in done.stderr
    assert 1 == done.stderr.count("\n")


def test_an_empty_selector_is_a_usage_error(store_session, root):
    """An unset variable in a script does not pick the only session there is."""
    store_session("s1")

    done = cat("", "--root", root)

    assert (2, b"") == (done.exit_code, done.stdout_bytes)
    assert "SEL is empty" in done.stderr


@pytest.mark.parametrize("encoding", ["raw", "zstd"])
def test_a_path_needs_no_root(store_session, root, tmp_path, monkeypatch, encoding):
    """A log file or its session's folder, absolute or relative, through a link too."""
    log = store_session("s1", encoding=encoding)
    store_session("s2", encoding=encoding)
    (tmp_path / "link.jsonl").symlink_to(log)
    monkeypatch.chdir(log.parent)

    assert "s1" == chosen(log)
    assert "s1" == chosen(log.parent)
    assert "s1" == chosen(log.name)
    assert "s1" == chosen("./" + log.name)
    assert "s1" == chosen(tmp_path / "link.jsonl")


def test_an_id_that_looks_like_a_path_is_found_when_there_is_no_such_file(store_session, root, tmp_path, monkeypatch):
    """C05: ids may hold anything; a file that exists comes first."""
    store_session("a/b")
    store_session("a.jsonl")
    monkeypatch.chdir(tmp_path)

    assert "a/b" == chosen("a/b", "--root", root)
    assert "a.jsonl" == chosen("a.jsonl", "--root", root)


def test_a_path_and_a_root_contradict_each_other(store_session, root):
    """The root would have no meaning, so it is refused rather than ignored."""
    log = store_session("s1")

    done = cat(log, "--root", root)

    assert 2 == done.exit_code
    assert "needs no --root" in done.stderr


def test_an_older_log_beside_the_current_one_is_not_answered_with_another(store_session, root):
    """What is printed is the file that was named, or nothing."""
    log = store_session("s1")
    old = log.with_name("session.v3.jsonl")
    old.write_bytes(log.read_bytes())

    done = cat(old)

    assert 4 == done.exit_code
    assert str(log) in done.stderr


class TestLatest:
    """C02: the session whose last stored event has the greatest time, no child of another, by content alone."""

    def test_the_last_event_decides_and_not_creation_or_touch(self, store_session, root):
        """A newer file or a later creation does not move it; stderr says what was chosen."""
        idle = store_session("idle", times=(9_000, 1_000))
        store_session("busy", times=(1_000, 5_000))
        os.utime(idle, (2e9, 2e9))
        os.utime(idle.parent, (2e9, 2e9))

        done = cat("@latest", "--raw", "--root", root)

        assert "busy" == json.loads(done.stdout_bytes.splitlines()[0])["id"]
        assert "dshpy: @latest is busy: its last event, " in done.stderr
        assert "is the latest of 2 session(s)" in done.stderr
        assert "idle" == chosen("idle", "--root", root)

    def test_children_are_left_out_and_named(self, store_session, root):
        """Subagents by origin or depth; a fork has a parent too and is a session of its own."""
        store_session("main", times=(1, 1_000))
        store_session("child", times=(1, 9_000), origin="subagent", delegation_depth=1, parent_session="main")
        store_session("deep", times=(1, 9_500), delegation_depth=2)
        store_session("fork", times=(1, 2_000), parent_session="main")

        done = cat("@latest", "--raw", "--root", root)

        assert "fork" == json.loads(done.stdout_bytes.splitlines()[0])["id"]
        assert "skipped 2 child session(s): child, deep" in done.stderr

    def test_ties_go_to_the_later_creation_and_then_the_greater_id(self, store_session, root):
        """The same files always give the same answer."""
        store_session("z", times=(1, 1_000))
        store_session("a", times=(2, 1_000))
        assert "a" == chosen("@latest", "--root", root)

        store_session("b", times=(2, 1_000))
        assert "b" == chosen("@latest", "--root", root)

    def test_damaged_and_newer_ones_are_named(self, store_session, root):
        """Whoever asks learns that the answer may be another one."""
        damaged = store_session("damaged", times=(1, 9_000))
        content = damaged.read_bytes()
        damaged.write_bytes(content.replace(b'{"type":"step/start"', b'x"type":"step/start"'))
        newer = store_session("newer", times=(1, 9_000))
        newer.rename(newer.with_name("session.v9.jsonl"))
        store_session("fine", times=(1, 1_000))

        done = cat("@latest", "--raw", "--root", root)

        assert 0 == done.exit_code
        assert "fine" == json.loads(done.stdout_bytes.splitlines()[0])["id"]
        assert f"skipped what cannot be read: {damaged} at byte" in done.stderr
        assert "generation v9" in done.stderr

    def test_nothing_to_choose_from(self, store_session, root):
        """A root of children only has no latest."""
        store_session("child", origin="subagent", delegation_depth=1)

        done = cat("@latest", "--root", root)

        assert 3 == done.exit_code
        assert "skipped 1 child session(s): child" in done.stderr
        assert "'@latest' was not found" in done.stderr

    def test_show_takes_it_too(self, store_session, root):
        """Every command takes the same selectors."""
        store_session("only")

        done = CliRunner().invoke(main, ["show", "@latest", "--root", str(root)], catch_exceptions=False)

        assert 0 == done.exit_code
        assert done.stdout.startswith("only\n")


def listed(root: Path, cwd: object) -> list[str]:
    done = CliRunner().invoke(main, ["ls", "--json", "--root", str(root), "--cwd", str(cwd)], catch_exceptions=False)
    return sorted(entry["id"] for entry in json.loads(done.stdout)["sessions"])


def test_ls_of_a_directory_compares_headers_and_not_folder_names(store_session, root):
    """C03: directories that share a folder keep their sessions apart."""
    places = ["/w/新聞", "/w/暫存", "/w/a-b/c", "/w/a/b-c", "/w/my_p", "/w/my-p", "/w/my.p"]
    for number, place in enumerate(places):
        store_session(f"s{number}", cwd=place)

    assert [[f"s{number}"] for number in range(len(places))] == [listed(root, place) for place in places]
    assert [] == listed(root, "/w")


def test_ls_of_a_directory_follows_links(store_session, root, tmp_path):
    """C04: two spellings of one place are one place; by id a session is found from anywhere."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    store_session("by-link", cwd=str(link))
    store_session("by-real", cwd=str(real))
    store_session("elsewhere", cwd=str(tmp_path))

    assert ["by-link", "by-real"] == listed(root, link) == listed(root, real)
    assert "by-link" == chosen("by-link", "--root", root)

    link.unlink()
    link.mkdir()
    assert ["by-link"] == listed(root, link)
    assert ["by-real"] == listed(root, real)
    assert "by-link" == chosen("by-link", "--root", root)


def test_ls_of_a_directory_still_names_what_is_damaged_there(store_session, root):
    """D03: never an empty list where something lies."""
    log = store_session("damaged", cwd="/w/here")
    log.write_bytes(b"no log")
    store_session("away", cwd="/w/there")

    assert ["damaged"] == listed(root, "/w/here")
    assert ["away"] == listed(root, "/w/there")


def test_a_folder_that_cannot_be_searched_is_named_by_itself(root):
    """What is listed without a log has the name of its own folder, and not of the one above."""
    from dsh_cli._roots import session_id_of

    def named(*parts: str) -> str:
        location = SessionLocation(kind="jsonl", path=str(root.joinpath(*parts)))
        return session_id_of(ListedSession(location=location, header=None, revision=None))

    assert "--srv-project--" == named("--srv-project--")
    assert "s1" == named("--srv-project--", "s1")
    assert "s1" == named("--srv-project--", "s1", "session.v4.jsonl.zstd")
