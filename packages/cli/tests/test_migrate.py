"""``dshpy migrate``: its report, its exit codes, and what it leaves alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dsh_cli import main
from dsh_persistence_jsonl import JsonlLogStore


def migrate(*arguments: object):
    return CliRunner().invoke(main, ["migrate", *map(str, arguments)], catch_exceptions=False)


def cat(root: object, session_id: str) -> bytes:
    done = CliRunner().invoke(main, ["cat", session_id, "--root", str(root)], catch_exceptions=False)
    assert 0 == done.exit_code, done.stderr
    return done.stdout_bytes


@pytest.mark.parametrize("target", ["sqlite:///{tmp}/new.db", "{tmp}/new"])
def test_every_session_is_copied(store_session, root, tmp_path, target):
    """The summary tells from where to where and how many; again, it tells that all is there."""
    target = target.format(tmp=tmp_path)
    for session_id in ("a", "b"):
        store_session(session_id)
    store_session("open", interrupted=True)

    first, again = migrate(root, target), migrate(root, target)

    events = [len(JsonlLogStore(root).read(session_id).events) for session_id in ("a", "b", "open")]
    where = target.removeprefix("sqlite://")[1:] if target.startswith("sqlite") else target
    assert (0, 0, "") == (first.exit_code, again.exit_code, first.stderr)
    assert f"from {root}\nto   {where}\n3 session(s): 3 copied; {sum(events)} events written\n" == first.stdout
    assert again.stdout.endswith("3 session(s): 3 there already; 0 events written\n")
    opened = where if target.startswith("sqlite") else target
    assert [cat(root, name) for name in ("a", "b", "open")] == [cat(opened, name) for name in ("a", "b", "open")]


def test_what_is_not_copied_is_told(store_session, root, tmp_path):
    """A damaged session, and one that differs there, are named with the reason; the exit code is 1."""
    store_session("good")
    store_session("damaged").write_bytes(b"no log\n")
    store_session("other", text="this")
    assert 1 == migrate(root, f"sqlite:///{tmp_path}/new.db").exit_code
    log = next(root.glob("*/other/*.jsonl"))
    log.unlink()
    store_session("other", text="that")

    done = migrate(root, tmp_path / "new.db")
    report = json.loads(migrate(root, tmp_path / "new.db", "--json").stdout)

    assert 1 == done.exit_code
    assert "damaged  unreadable\n" in done.stdout
    assert (
        "other  different there\n    its event 3 is another in the other store, which keeps what it has" in done.stdout
    )
    assert "3 session(s): 1 there already, 1 unreadable, 1 different there; 0 events written" in done.stdout
    assert (str(root), str(tmp_path / "new.db"), False, None) == (
        report["from"],
        report["to"],
        report["whole"],
        report["stopped"],
    )
    by_id = {one["id"]: one for one in report["sessions"]}
    assert {"good": "present", "damaged": "unreadable", "other": "differs"} == {
        name: one["outcome"] for name, one in by_id.items()
    }
    assert str(root / "--srv-project--" / "other" / "session.v4.jsonl") == by_id["other"]["path"]
    assert "reason" not in by_id["good"]
    assert b"this" in cat(tmp_path / "new.db", "other")


def test_a_place_that_cannot_be_written_ends_it(store_session, root, tmp_path):
    """What was copied stays and is told; the message says that it goes on from here."""
    store_session("session-a")
    (tmp_path / "new" / "--srv-project--").mkdir(parents=True)
    (tmp_path / "new" / "--srv-project--" / "session-a").write_text("in the way")

    done = migrate(root, tmp_path / "new")
    report = json.loads(migrate(root, tmp_path / "new", "--json").stdout)

    assert 4 == done.exit_code
    assert "in the way" == (tmp_path / "new" / "--srv-project--" / "session-a").read_text()
    assert "migrating again goes on from here" in done.stderr
    assert (False, []) == (report["whole"], report["sessions"])
    assert "session-a" in report["stopped"]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("{tmp}/absent", "{tmp}/new", "absent: does not exist"),
        ("sqlite:///{tmp}/absent.db", "{tmp}/new", "absent.db: does not exist"),
        ("{root}", "{tmp}/new.db", "a new database is named by its URL, sqlite:///{tmp}/new.db"),
        ("{root}", "{tmp}/text", "text"),
        ("{tmp}/text", "{tmp}/new", "text"),
        ("{root}", "oracle://h/x", "oracle"),
    ],
)
def test_places_that_are_none(store_session, root, tmp_path, *, source, target, message):
    """One message, and nothing is made."""
    store_session("s")
    (tmp_path / "text").write_text("my notes")
    before = sorted(tmp_path.rglob("*"))
    names = {"tmp": tmp_path, "root": root}

    done = migrate(source.format(**names), target.format(**names))

    assert 4 == done.exit_code
    assert message.format(**names) in done.stderr
    assert before == sorted(tmp_path.rglob("*"))
    assert "my notes" == (tmp_path / "text").read_text()


def test_an_empty_root(root, tmp_path):
    """Nothing to copy is fine, and makes nothing."""
    root.mkdir()

    done = migrate(root, f"sqlite:///{tmp_path}/new.db")

    assert (0, True) == (done.exit_code, done.stdout.endswith("0 session(s)\n"))
    assert not Path(tmp_path / "new.db").exists()
