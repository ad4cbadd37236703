"""``dshpy repair``: what a resume would do, told before and told after."""

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


def picture(root):
    return {path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in root.rglob("*")}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_dry_run_tells_what_apply_does(store_session, root, encoding):
    """A torn tail and an open turn: the same lines before and after, nothing changed before, all of it after; A17."""
    log = store_session("s1", encoding=encoding, interrupted=True, marked=True)
    intact = log.read_bytes()
    torn = (MAGIC + b"\x04\x58torn") if encoding == "zstd" else b'{"type":"tool/res'
    log.write_bytes(intact + torn)
    before = picture(root)
    balanced = dshpy("cat", "s1", "--root", root, "--balanced").stdout_bytes.splitlines()

    told = dshpy("repair", "s1", "--root", root, "--dry-run")

    assert (0, before) == (told.exit_code, picture(root))
    done = dshpy("repair", "s1", "--root", root, "--apply")
    assert 0 == done.exit_code
    lines = told.stdout.splitlines()
    assert lines[1:-1] == done.stdout.splitlines()[1:]
    assert ("s1  would be repaired", "s1  repaired") == (lines[0], done.stdout.splitlines()[0])
    assert f"  nothing was changed; to do it: dshpy repair s1 --root {root} --apply" == lines[-1]
    saved = next(log.parent.glob(f"{log.name}.torn-{len(intact)}-*"))
    assert f"  cut    {len(torn)} bytes from byte {len(intact)} on, kept in {saved.name}" == lines[1]
    assert ["  close  tool/result, seq 7", "  close  step/end, seq 8", "  close  turn/end, seq 9"] == lines[2:-1]
    assert torn == saved.read_bytes()
    assert balanced == dshpy("cat", "s1", "--root", root).stdout_bytes.splitlines()
    for flag in ("--dry-run", "--apply"):
        before = picture(root)
        again = dshpy("repair", "s1", "--root", root, flag)
        assert (0, "s1  nothing to repair\n", before) == (again.exit_code, again.stdout, picture(root))


def test_whole_rows_of_a_torn_frame(store_session, root):
    """What reads of a cut frame is appended again, and both runs say so."""
    log = store_session("s1", encoding="zstd")
    log.write_bytes(log.read_bytes()[:-4])  # the checksum of the last frame, which holds two events

    told, done = dshpy("repair", "s1", "--root", root, "--dry-run"), dshpy("repair", "s1", "--root", root, "--apply")

    line = "  append 2 whole event(s) of these bytes again, seq 8 to 9"
    assert (line, line) == (told.stdout.splitlines()[2], done.stdout.splitlines()[2])
    assert 10 == JsonlLogStore(root).read("s1").next_seq


@pytest.mark.parametrize("flag", ["--dry-run", "--apply"])
def test_damage_is_refused(store_session, root, flag):
    """Exit code 1 with the damage and the way out; not a byte is changed."""
    log = store_session("s1")
    content = log.read_bytes()
    log.write_bytes(content.replace(b'{"type":"step/start"', b'x"type":"step/start"'))
    before = picture(root)

    done = dshpy("repair", "s1", "--root", root, flag)

    assert (1, before) == (done.exit_code, picture(root))
    assert "s1  damaged; a repair does not touch it" in done.stdout
    assert f"→ dshpy salvage s1 --root {root} -o NEWROOT" in done.stdout


@pytest.mark.parametrize("flag", ["--dry-run", "--apply"])
def test_a_session_in_use(store_session, root, flag):
    """Exit code 4, and who has it."""
    store_session("s1", interrupted=True)
    before = picture(root)
    with JsonlLogStore(root).open("s1"):
        done = dshpy("repair", "s1", "--root", root, flag)

    assert 4 == done.exit_code
    assert "in use; whoever has it repairs it" in done.stdout
    assert "another writer of this process" in done.stdout
    assert {path: was for path, was in before.items() if path.suffix == ".jsonl"}.items() <= picture(root).items()


def test_a_shorter_log_is_accepted_on_demand(store_session, root):
    """An older copy is refused until its reader says that it is meant; then the session goes on from there."""
    log = store_session("s1", encoding="zstd", marked=True)
    content = log.read_bytes()
    log.write_bytes(content[: content.rfind(MAGIC)])
    shorter = log.stat().st_size

    plain = dshpy("repair", "s1", "--root", root, "--apply")
    before = picture(root)
    told = dshpy("repair", "s1", "--root", root, "--dry-run", "--accept-shorter")

    assert (1, 0, before) == (plain.exit_code, told.exit_code, picture(root))
    assert f"dshpy repair s1 --root {root} --apply --accept-shorter" in plain.stdout
    done = dshpy("repair", "s1", "--root", root, "--apply", "--accept-shorter")
    assert f"lowered from {len(content)} acknowledged bytes to the {shorter} that are there" in done.stdout
    assert 0 == dshpy("doctor", "s1", "--root", root).exit_code
    assert 0 == dshpy("repair", "s1", "--root", root, "--apply").exit_code
    again = dshpy("repair", "s1", "--root", root, "--apply", "--accept-shorter")
    assert (0, "s1  nothing to accept\n") == (again.exit_code, again.stdout)


def test_accepting_does_not_cover_damage(store_session, root):
    """With --accept-shorter a damaged log is refused all the same, and its mark stays."""
    log = store_session("s1", encoding="zstd", marked=True)
    log.write_bytes(log.read_bytes()[:-5])
    before = picture(root)

    done = dshpy("repair", "s1", "--root", root, "--apply", "--accept-shorter")

    assert (1, before) == (done.exit_code, picture(root))
    assert "frame-damaged" in done.stdout


@pytest.mark.parametrize("flags", [[], ["--dry-run", "--apply"]])
def test_one_of_two_flags(store_session, root, flags):
    """Nothing is done by default: what is meant must be said."""
    store_session("s1", interrupted=True)

    done = dshpy("repair", "s1", "--root", root, *flags)

    assert 2 == done.exit_code
    assert "Give either --dry-run, to see what would be done, or --apply" in done.stderr


def test_a_newer_log_is_left_alone(store_session, root):
    """An event that only another harness knows is no damage and nothing to repair; exit code 4."""
    log = store_session("s1")
    with log.open("ab") as file:
        file.write(json.dumps({"type": "acme/x", "seq": 10, "time": 1, "data": {}}).encode() + b"\n")

    done = dshpy("repair", "s1", "--root", root, "--apply")

    assert 4 == done.exit_code
    assert "not for this build to repair" in done.stdout


def test_for_programs(store_session, root):
    """--json says the same before and after, but for what was applied; damage comes with its findings."""
    log = store_session("s1", encoding="zstd", interrupted=True, marked=True)
    log.write_bytes(log.read_bytes() + MAGIC)

    told, done = (dshpy("repair", "s1", "--root", root, flag, "--json") for flag in ("--dry-run", "--apply"))

    before, after = json.loads(told.stdout), json.loads(done.stdout)
    assert (0, 0, False, True) == (told.exit_code, done.exit_code, before.pop("applied"), after.pop("applied"))
    assert before == after
    assert ("repaired", 4, "turn/end") == (
        after["outcome"],
        after["repair"]["cut"]["size_bytes"],
        after["closers"][-1]["type"],
    )
    log.write_bytes(log.read_bytes()[:-9])
    refused = dshpy("repair", "s1", "--root", root, "--apply", "--json")
    found = json.loads(refused.stdout)
    assert (1, "damaged", False) == (refused.exit_code, found["outcome"], found["applied"])
    assert ["frame-damaged"] == [finding["rule"] for finding in found["findings"]]
