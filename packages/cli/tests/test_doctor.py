"""``dshpy doctor``: damage by rule and place, for people and programs; nothing changes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from dsh_cli import main
from dsh_persistence_jsonl import JsonlLogStore

ENCODINGS = ["zstd", "raw"]
MAGIC = b"\x28\xb5\x2f\xfd"


def dshpy(*arguments: object):
    return CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False)


def damage(log: Path) -> int:
    """Break the frame or line behind the header's, and return where it begins."""
    content = bytearray(log.read_bytes())
    begin = content.find(MAGIC, 4) if log.suffix == ".zstd" else content.find(b"\n") + 1
    content[begin + (20 if log.suffix == ".zstd" else 0)] ^= 0x10
    log.write_bytes(content)
    return begin


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_sound_session(store_session, root, encoding):
    """It is called sound, with what there is to know, and the exit code is 0; not a byte or a time has changed."""
    store_session("session-s1", encoding=encoding)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in root.rglob("*")}

    for flags in ([], ["--deep"], ["--json"]):
        done = dshpy("doctor", "s1", "--root", root, *flags)
        assert (0, "") == (done.exit_code, done.stderr)
        assert "sound" in done.stdout

    assert before == {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in root.rglob("*")}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("by", ["id", "prefix", "path", "folder"])
def test_a_damaged_session(store_session, root, encoding, by):
    """It is found by whatever names it; rule, byte offset, line, seq and the command that helps are printed."""
    log = store_session("session-s1", encoding=encoding)
    begin = damage(log)
    selector = {"id": "session-s1", "prefix": "s1", "path": log, "folder": log.parent}[by]
    place = () if by in ("path", "folder") else ("--root", root)

    done = dshpy("doctor", selector, *place)

    assert 1 == done.exit_code
    rule = (
        f"frame-damaged  byte {begin}, frame 1, line 2, seq 0"
        if encoding == "zstd"
        else f"row-invalid  byte {begin}, line 2, seq 0"
    )
    assert f"session-s1  damaged\n  {log}\n  {rule}\n" in done.stdout
    named = selector if not place else f"session-s1 --root {root}"
    assert f"→ dshpy salvage {named} -o NEWROOT" in done.stdout
    assert "beyond-damage" in done.stdout


def test_json_is_complete(store_session, root):
    """For programs: verdict and findings with every field that is known, one document."""
    begin = damage(store_session("session-s1"))

    done = dshpy("doctor", "s1", "--root", root, "--json")

    document = json.loads(done.stdout)
    assert (1, 1, str(root)) == (done.exit_code, document["damaged"], document["root"])
    (session,) = document["sessions"]
    assert ("session-s1", "damaged") == (session["id"], session["verdict"])
    finding = next(one for one in session["findings"] if one["severity"] == "damage")
    assert {"rule": "row-invalid", "offset": begin, "line": 2, "seq": 0} == {
        key: finding[key] for key in ("rule", "offset", "line", "seq")
    }
    assert f"dshpy salvage session-s1 --root {shlex.quote(str(root))} -o NEWROOT" == finding["remedy"]


def test_all_goes_on_after_damage(store_session, root):
    """A06: what is damaged, empty or no file stops nothing; each session has its verdict, and the last line counts."""
    for session_id in "abc":
        store_session(session_id)
    damage(store_session("d"))
    store_session("e").write_bytes(b"")
    newer = store_session("f")
    newer.rename(newer.with_name("session.v9.jsonl"))
    folder = store_session("g")
    folder.unlink()
    folder.mkdir()

    done = dshpy("doctor", "--all", "--root", root)

    assert (1, "") == (done.exit_code, done.stderr)
    for session_id, verdict in [
        ("a", "sound"),
        ("d", "damaged"),
        ("e", "damaged"),
        ("f", "not for this build"),
        ("g", "damaged"),
    ]:
        assert f"\n{session_id}  {verdict}" in f"\n{done.stdout}"
    assert f"7 session(s) in {root}: 3 sound, 3 damaged, 1 not for this build\n" in done.stdout
    document = json.loads(dshpy("doctor", "--all", "--root", root, "--json").stdout)
    assert (3, list("abcdefg")) == (document["damaged"], [one["id"] for one in document["sessions"]])


def test_deep_checks_what_the_events_mean(store_session, root):
    """A step that ends before it began reads well enough; only the deep examination calls it damage."""
    log = store_session("s1")
    log.write_bytes(log.read_bytes().replace(b'"type":"step/start","seq":1,', b'"type":"step/end","seq":1,'))

    shallow, deep = dshpy("doctor", "s1", "--root", root), dshpy("doctor", "s1", "--root", root, "--deep")

    assert (0, 1) == (shallow.exit_code, deep.exit_code)
    assert "rules" in deep.stdout
    assert "line 3, seq 1\n    step/end: no step is open" in deep.stdout


def test_an_empty_root(root):
    """No session is no damage."""
    root.mkdir()

    done = dshpy("doctor", "--all", "--root", root)

    assert (0, f"0 session(s) in {root}\n") == (done.exit_code, done.stdout)


@pytest.mark.parametrize("arguments", [[], ["s1", "--all"]])
def test_what_to_examine_must_be_said(root, arguments):
    """Neither a session nor --all, or both, is a usage error that says so."""
    done = dshpy("doctor", *arguments, "--root", root)

    assert 2 == done.exit_code
    assert "Name a session, or give --all" in done.stderr


def test_nobody(store_session, root):
    """A session that is not there is exit code 3."""
    store_session("s1")

    assert 3 == dshpy("doctor", "nobody", "--root", root).exit_code


def test_a_session_in_use_is_no_damage(store_session, root):
    """What a writer is just writing is in flight; its holder is named."""
    log = store_session("s1", encoding="zstd")
    with JsonlLogStore(root).open("s1"):
        with log.open("ab") as file:
            file.write(MAGIC)

        done = dshpy("doctor", "s1", "--root", root)

    assert 0 == done.exit_code
    assert "in-flight" in done.stdout
    assert "torn-tail" not in done.stdout
