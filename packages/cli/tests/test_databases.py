"""Every command over a database: what it says there, and what it has no use for."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dsh_cli import main
from dsh_persistence.contract._material import make_event, make_header
from dsh_persistence_sqlite import SqlLogStore
from dsh_session import EncodedBatch

SECRET = "s3cr3t"


def dshpy(*arguments: object):
    return CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def database(store_session, root, tmp_path) -> Path:
    """A database of three sessions: of a closed turn, of an interrupted one, and one whose second row has changed."""
    store_session("session-good", times=(1_000, 9_000))
    store_session("session-open", interrupted=True, cwd="/srv/other")
    store_session("session-torn")
    file = tmp_path / "sessions.db"
    assert 0 == dshpy("migrate", root, f"sqlite:///{file}").exit_code
    change(file, "UPDATE events SET time = time + 1 WHERE seq = 1 AND session_id = ?")
    return file


def change(file: Path, statement: str, session_id: str = "session-torn") -> None:
    connection = sqlite3.connect(file)
    with connection:
        assert connection.execute(statement, (session_id.encode(),)).rowcount > 0
    connection.close()


def test_the_file_and_its_url_are_one_root(database):
    """The same listing, with the path of the file as its root and no path of a session."""
    by_file, by_url = (
        dshpy("ls", "--root", database, "--json"),
        dshpy("ls", "--root", f"sqlite:///{database}", "--json"),
    )

    assert by_file.stdout == by_url.stdout
    listed = json.loads(by_file.stdout)
    assert str(database) == listed["root"]
    assert {"session-good", "session-open", "session-torn"} == {one["id"] for one in listed["sessions"]}
    assert [False] * 3 == ["path" in one for one in listed["sessions"]]


def test_sessions_of_one_directory(database):
    """The header tells; a damaged row, which does not, is no reason to be silent."""
    assert ["session-open"] == of_directory(database, "/srv/other")

    change(database, "UPDATE sessions SET cwd = x'2F' WHERE session_id = ?")

    assert ["session-open", "session-torn"] == of_directory(database, "/srv/other")


def of_directory(database: Path, cwd: str) -> list[str]:
    return sorted(
        one["id"] for one in json.loads(dshpy("ls", "--root", database, "--cwd", cwd, "--json").stdout)["sessions"]
    )


def test_the_views_of_cat(database, store_session, root):
    """Events, messages and closers are those of the files; stored rows are the events; there is no raw text."""
    for view in (["--from-seq", "3"], ["--messages"], ["--balanced"], []):
        ours, files = dshpy("cat", "good", "--root", database, *view), dshpy("cat", "good", "--root", root, *view)
        assert (0, files.stdout_bytes) == (ours.exit_code, ours.stdout_bytes)
    assert ours.stdout_bytes == dshpy("cat", "good", "--root", database, "--stored").stdout_bytes

    raw = dshpy("cat", "good", "--root", database, "--raw")

    assert (2, b"") == (raw.exit_code, raw.stdout_bytes)
    assert f"--raw prints the text of a log file, and {database} is a database" in raw.stderr


def test_cat_and_show_of_damage(database):
    """Nothing is printed of a damaged session; the message names the place and no line of a file."""
    for command in ("cat", "show"):
        done = dshpy(command, "session-torn", "--root", database)
        assert (1, b"") == (done.exit_code, done.stdout_bytes)
        assert str(database) in done.stderr


def test_cat_of_a_log_that_breaks_a_rule(tmp_path):
    """The seq says where, and there is no raw text to look at."""
    store = SqlLogStore(f"sqlite:///{tmp_path}/x.db")
    for number, type in enumerate(("step/start", "future/thing")):
        with store.create(make_header(f"s{number}")) as writer:
            event = make_event(0, {"turn": 1, "step": 1}, type=type)
            writer.append(EncodedBatch(first_seq=0, events=(event,)))
    store.close()

    broken, newer = (dshpy("cat", f"s{number}", "--root", tmp_path / "x.db") for number in range(2))

    assert (1, 4) == (broken.exit_code, newer.exit_code)
    assert "seq 0, step/start" in broken.stderr
    assert "upgrade dsh-py\n" in newer.stderr
    assert "--raw" not in broken.stderr + newer.stderr
    verdicts = json.loads(dshpy("doctor", "--all", "--deep", "--root", tmp_path / "x.db", "--json").stdout)["sessions"]
    assert {"s0": "damaged", "s1": "not for this build"} == {one["id"]: one["verdict"] for one in verdicts}
    assert ["rules", "event-unknown"] == [one["findings"][0]["rule"] for one in sorted(verdicts, key=lambda s: s["id"])]


def test_the_latest_and_a_prefix(database):
    """As over files; what cannot be read is skipped and named."""
    latest = dshpy("cat", "@latest", "--root", database)
    unique = dshpy("show", "op", "--root", database)

    assert (0, 0) == (latest.exit_code, unique.exit_code)
    assert "@latest is session-good" in latest.stderr
    assert "skipped what cannot be read" in latest.stderr
    assert "session-open" in unique.stdout
    assert 3 == dshpy("show", "session-", "--root", database).exit_code
    assert 3 == dshpy("show", "nobody", "--root", database).exit_code


def test_doctor(database):
    """Sound, interrupted and damaged sessions; the exit code is 1, and migrate is what is advised."""
    every = dshpy("doctor", "--all", "--root", database, "--json")
    one = dshpy("doctor", "torn", "--root", database)

    assert (1, 1) == (every.exit_code, one.exit_code)
    found = {
        one["id"]: [finding["rule"] for finding in one["findings"]] for one in json.loads(every.stdout)["sessions"]
    }
    assert {"session-good": [], "session-open": ["open-turn"], "session-torn": ["row-invalid"]} == found
    assert "session-torn  damaged" in one.stdout
    assert "restore the session from a backup of the database; dshpy migrate copies the others" in one.stdout
    assert 0 == dshpy("doctor", "good", "--root", database, "--deep").exit_code
    assert "2 sound, 1 damaged" in dshpy("doctor", "--all", "--root", database).stdout


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM sessions WHERE session_id = ?", "UPDATE sessions SET session_id = x'FF' WHERE session_id = ?"],
)
def test_a_session_that_has_vanished(database, statement):
    """No row leads to it any more, and yet nothing is silent about it: doctor, ls and migrate say so."""
    connection = sqlite3.connect(database)
    with connection:
        connection.execute(statement, (b"session-good",))
    connection.close()

    doctor = dshpy("doctor", "--all", "--root", database, "--json")
    listed = dshpy("ls", "--root", database, "--json")
    migrated = dshpy("migrate", database, f"sqlite:///{database}.copy", "--json")

    assert (1, 1, 1) == (doctor.exit_code, listed.exit_code, migrated.exit_code)
    # A row that is there under another id may be taken for one of somebody else's.
    assert dshpy("show", "session-good", "--root", database).exit_code in ((1,) if "DELETE" in statement else (1, 3))
    assert 2 == json.loads(doctor.stdout)["damaged"]
    assert 3 == len(json.loads(listed.stdout)["sessions"])
    outcomes = sorted(one["outcome"] for one in json.loads(migrated.stdout)["sessions"])
    assert ["copied", "unreadable", "unreadable"] == outcomes


def test_doctor_and_repair_beside_a_writer(database):
    """Who has the session is named, and repairs it."""
    store = SqlLogStore(f"sqlite:///{database}")
    with store.open("session-open"):
        looked = dshpy("doctor", "open", "--root", database, "--json")
        repaired = dshpy("repair", "open", "--root", database, "--apply")
    store.close()

    (session,) = json.loads(looked.stdout)["sessions"]
    assert ["in-use"] == [finding["rule"] for finding in session["findings"]]
    assert "in use; whoever has it repairs it" in repaired.stdout
    assert 4 == repaired.exit_code


def test_repair(database):
    """Nothing is torn; an interrupted turn is closed, once, and only when it is to be done."""
    dry = dshpy("repair", "open", "--root", f"sqlite:///{database}", "--dry-run")
    applied = dshpy("repair", "open", "--root", database, "--apply", "--json")
    again = dshpy("repair", "open", "--root", database, "--apply")

    assert (0, 0, 0) == (dry.exit_code, applied.exit_code, again.exit_code)
    assert "would be repaired" in dry.stdout
    assert f"dshpy repair session-open --root {database} --apply" in dry.stdout
    report = json.loads(applied.stdout)
    assert ("repaired", None, True) == (report["outcome"], report["repair"], report["applied"])
    assert ["tool/result", "step/end", "turn/end"] == [closer["type"] for closer in report["closers"]]
    assert "nothing to repair" in again.stdout
    assert 1 == dshpy("repair", "torn", "--root", database, "--apply").exit_code
    assert "nothing to accept" in dshpy("repair", "good", "--root", database, "--apply", "--accept-shorter").stdout
    shorter = dshpy("repair", "torn", "--root", database, "--apply", "--accept-shorter")
    assert (1, True) == (shorter.exit_code, "damaged; a repair does not touch it" in shorter.stdout)


def test_salvage(database, store_session, root, tmp_path):
    """It is for files, out of and into them; migrate is named for the rest."""
    out_of = dshpy("salvage", "torn", "--root", database, "-o", tmp_path / "new")
    into = dshpy("salvage", "good", "--root", root, "-o", f"sqlite:///{tmp_path}/new.db")
    into_file = dshpy("salvage", "good", "--root", root, "-o", database)

    assert (2, 2, 2) == (out_of.exit_code, into.exit_code, into_file.exit_code)
    assert "dshpy migrate copies those of its sessions that are intact" in out_of.stderr
    assert "dshpy migrate copies what has been salvaged into a database" in into.stderr
    assert [] == list(tmp_path.glob("new*"))


def test_the_loop(tmp_path):
    """The child has no path, and the report says where the session can be read again."""
    done = dshpy("loop", "--home", tmp_path / "home", "--root", f"sqlite:///{tmp_path}/x y.db")
    report = json.loads(dshpy("loop", "--home", tmp_path / "home", "--root", tmp_path / "x y.db", "--json").stdout)

    assert 0 == done.exit_code
    assert "DSH_SESSION_JSONL  absent" in done.stdout
    assert "log there?" not in done.stdout
    assert f"--root '{tmp_path}/x y.db'" in done.stdout
    assert (None, None, []) == (report["session_jsonl"], report["existed_before_flush"], report["leaked"])
    assert 2 == len(json.loads(dshpy("ls", "--root", tmp_path / "x y.db", "--json").stdout)["sessions"])


def test_a_root_that_is_none(tmp_path, database):
    """Absent, empty, foreign: one message, and nothing is made or changed."""
    (tmp_path / "empty.db").touch()
    before = sorted(tmp_path.iterdir())

    for name in ("absent.db", "empty.db"):
        for root in (tmp_path / name, f"sqlite:///{tmp_path}/{name}"):
            done = dshpy("ls", "--root", root)
            assert (4, "") == (done.exit_code, done.stdout)
            assert name in done.stderr
    assert before == sorted(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        ["ls", "--root", "{url}"],
        ["doctor", "--all", "--root", "{url}"],
        ["repair", "s", "--dry-run", "--root", "{url}"],
        ["show", "{url}"],
        ["cat", "s", "--root", "{url}"],
        ["migrate", "{url}", "{root}"],
        ["migrate", "{root}", "{url}"],
        ["salvage", "s", "--root", "{root}", "-o", "{url}"],
        ["loop", "--home", "{root}", "--root", "{url}"],
    ],
)
def test_a_password_is_not_repeated(store_session, root, arguments):
    """Of a database that is not known, or stands in the wrong place."""
    store_session("s")
    url = f"mysql://me:{SECRET}@127.0.0.1:1/sessions"

    done = dshpy(*(argument.format(url=url, root=root) for argument in arguments))

    assert done.exit_code in (2, 3, 4)
    assert SECRET not in done.output


@pytest.mark.parametrize("arguments", [["ls", "--root"], ["migrate", "{root}"]])
def test_a_password_of_a_server_out_of_reach_is_not_repeated(store_session, root, arguments):
    """One plain message says that it is out of reach."""
    store_session("s")
    pytest.importorskip("psycopg")
    given = [*(argument.format(root=root) for argument in arguments), f"postgresql://me:{SECRET}@127.0.0.1:1/sessions"]

    # In a process, since a command that fails so gives its output away.
    done = subprocess.run([sys.executable, "-m", "dsh_cli", *given], check=False, capture_output=True, text=True)

    assert 4 == done.returncode
    assert "postgresql+psycopg://me:***@127.0.0.1:1/sessions: " in done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
