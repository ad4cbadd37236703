"""``dshpy salvage``: a new session out of a damaged one, and a report of what became of it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from dsh_cli import main
from dsh_persistence_jsonl import JsonlLogStore

ENCODINGS = ["zstd", "raw"]
MAGIC = b"\x28\xb5\x2f\xfd"


def dshpy(*arguments: object):
    return CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def new(tmp_path):
    return tmp_path / "new"


def damage(log):
    """Break the second batch of four events, or its first row."""
    content = bytearray(log.read_bytes())
    if log.suffix == ".zstd":
        begin = content.find(MAGIC, content.find(MAGIC, 4) + 1)
        content[begin + 20] ^= 0x10
    else:
        begin = content.find(b'{"type":"assistant/message"')
        content[begin] ^= 0x10
    log.write_bytes(content)
    return begin


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_is_intact_becomes_a_session(store_session, root, new, encoding):
    """The report says what was kept, lost, made and wrapped, with offsets; doctor finds the new session sound."""
    log = store_session("session-s1", encoding=encoding)
    begin = damage(log)
    before = {path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in root.rglob("*")}

    done = dshpy("salvage", "s1", "--root", root, "-o", new)

    assert (0, "") == (done.exit_code, done.stderr)
    assert before == {path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in root.rglob("*")}
    written = JsonlLogStore(new).read("session-s1")
    assert (encoding, log.name, 10) == (JsonlLogStore(new).encoding, written.source.rsplit("/")[-1], written.next_seq)
    assert f"  to     {written.source}" in done.stdout
    first, last, kept = (4, "seq 4 to 7", 6) if encoding == "zstd" else (4, "seq 4", 7)
    assert f"  kept   {kept} of 10 events are as they were" in done.stdout
    assert f"         {last}, byte {begin}: " in done.stdout
    assert "plugin:dsh-py/lost" == written.events[first].type
    sound = dshpy("doctor", "s1", "--root", new, "--deep")
    assert (0, True) == (sound.exit_code, "sound" in sound.stdout)
    assert 0 == dshpy("cat", "s1", "--root", new, "--messages").exit_code


def test_the_report_for_programs(store_session, root, new):
    """One JSON document with the same facts."""
    log = store_session("s1")
    begin = damage(log)

    report = json.loads(dshpy("salvage", log, "-o", new, "--json").stdout)

    assert ("s1", str(log), 1, 10, 7) == tuple(
        report[key] for key in ("sessionId", "source", "branch", "events", "kept")
    )
    assert [(4, 5, begin)] == [(run["firstSeq"], run["nextSeq"], run["offset"]) for run in report["lost"]]
    assert [(5, "tool/call"), (7, "tool/result")] == [(row["seq"], row["type"]) for row in report["wrapped"]]
    assert [begin] == [part["offset"] for part in report["damage"]]


def test_a_fork_needs_a_choice(store_session, root, new):
    """Without one the branches are listed with exit code 2, and nothing is written; with one it is salvaged."""
    log = store_session("s1", encoding="zstd")
    content = log.read_bytes()
    log.write_bytes(content + content[content.rfind(MAGIC) :])

    refused = dshpy("salvage", "s1", "--root", root, "-o", new)

    assert (2, False) == (refused.exit_code, new.exists())
    assert "choose one with --branch N, nothing was written" in refused.stderr
    assert "branch 1: 10 events, written first\n    ends at seq 9: turn/end, " in refused.stdout
    assert f"branch 2: 10 events, its own from seq 8 (byte {len(content)}) on" in refused.stdout
    listed = json.loads(dshpy("salvage", "s1", "--root", root, "-o", new, "--json").stdout)
    assert [10, 10] == [branch["events"] for branch in listed["branches"]]
    assert 2 == dshpy("salvage", "s1", "--root", root, "-o", new, "--branch", 3).exit_code
    done = dshpy("salvage", "s1", "--root", root, "-o", new, "--branch", 2)
    assert 0 == done.exit_code
    assert "  branch 2 of 2\n  kept   10 of 10 events are as they were\n" in done.stdout


def test_a_lost_header(store_session, root, new):
    """The directory it named must be given; the rest its folder and its events tell."""
    log = store_session("s1", encoding="zstd")
    content = bytearray(log.read_bytes())
    content[12] ^= 1
    log.write_bytes(content)

    told = dshpy("doctor", "s1", "--root", root)
    refused = dshpy("salvage", "s1", "--root", root, "-o", new)
    done = dshpy("salvage", "s1", "--root", root, "-o", new, "--cwd", "/srv/project")

    assert f"→ dshpy salvage s1 --root {root} -o NEWROOT --cwd DIR" in told.stdout
    assert (1, 0) == (refused.exit_code, done.exit_code)
    assert "its header is lost" in refused.stderr
    assert "  kept   10 of 10 events are as they were\n  header made anew" in done.stdout


def test_where_it_may_not_go(store_session, root, new):
    """The session's own root is refused, and so is one that has the session; exit code 4."""
    store_session("s1")
    dshpy("salvage", "s1", "--root", root, "-o", new)

    for place in (root, new):
        done = dshpy("salvage", "s1", "--root", root, "-o", place)
        assert (4, 1) == (done.exit_code, done.stderr.count("\n"))
    assert 2 == dshpy("salvage", "s1", "--root", root).exit_code
