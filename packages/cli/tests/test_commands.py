"""``dshpy ls`` and ``dshpy show`` on stores this test writes, damaged ones included."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dsh_cli import main
from dsh_persistence_jsonl import JsonlLogStore
from dsh_session import Session, SessionHeader


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with two sessions, older and newer."""
    store = JsonlLogStore(tmp_path / "sessions", encoding="raw")
    for created_at, session_id in ((1_000, "older"), (2_000, "newer")):
        header = SessionHeader(id=session_id, created_at=created_at, cwd="/srv/project")
        session = Session(header)
        turn = {"turn": 1, "step": 1}
        session.append("turn/start", {"turn": 1})
        session.append("step/start", turn)
        source = {"kind": "system-prompt"}
        system = {"role": "system", "content": [], "source": source, "id": "m0"}
        session.append("system/message", {**turn, "message": system}, surface_op="append")
        text = f"say \x1b[31m{session_id}\x07 \ud800\u202e"
        user = {"role": "user", "content": [{"type": "text", "text": text}], "source": {"kind": "user"}, "id": "m1"}
        session.append("user/message", user, surface_op="append")
        session.append("step/end", turn)
        session.append("turn/end", {"turn": 1, "reason": {"kind": "error", "error": {"message": "no", "code": "X"}}})
        with store.create(header) as writer:
            writer.append(session.batch(0))
    return tmp_path / "sessions"


def dshpy(*arguments: object):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


def test_ls_lists_newest_first(root):
    """Id, time and directory, newest first."""
    done = dshpy("ls", "--root", root)

    assert 0 == done.exit_code
    first, second = done.stdout.splitlines()[1:]
    assert ("newer", "older") == (first.split()[0], second.split()[0])
    assert first.rstrip().endswith("/srv/project")


def test_damage_is_listed_beside_the_rest(root):
    """A06: one corrupt file hides nothing; the exit code tells that damage was found."""
    (log,) = root.glob("*/older/*.jsonl")
    log.write_bytes(b"\x00" * 64)

    done = dshpy("ls", "--root", root)
    report = json.loads(dshpy("ls", "--root", root, "--json").stdout)

    assert 1 == done.exit_code
    assert "newer" in done.stdout
    assert "damaged" in done.stdout
    problem = next(entry for entry in report["sessions"] if entry["id"] == "older")["problem"]
    assert "SessionCorrupt" == problem["kind"]
    assert str(log) in problem["message"]


def test_ls_shows_the_tree_of_sessions(tmp_path, root, store_session):
    """Each stands below its parent, oldest first; a parent that is not here, or a ring of them, hides nobody."""
    rows = {
        "trunk": (1, {}),
        "second": (5, {"parent_session": "trunk"}),
        "first": (3, {"parent_session": "trunk", "origin": "subagent", "delegation_depth": 1}),
        "leaf": (4, {"parent_session": "first", "origin": "subagent", "delegation_depth": 2}),
        "orphan": (2, {"parent_session": "gone"}),
        "ring-a": (6, {"parent_session": "ring-b"}),
        "ring-b": (7, {"parent_session": "ring-a"}),
    }
    for name, (created_at, header) in rows.items():
        store_session(name, times=(created_at, 1_000), **header)
    lines = dshpy("ls", "--root", root, "--tree").stdout.splitlines()[1:]
    names = [line[: len(line) - len(line.lstrip())] + line.split()[0] for line in lines]
    mine = [name for name in names if name.strip() in rows]
    assert ["trunk", "  first", "    leaf", "  second", "orphan"] == mine[:5]
    assert {"ring-a", "ring-b"} == {name.strip() for name in mine[5:]}


def test_ls_of_an_empty_home_says_so(tmp_path, monkeypatch):
    """A home nobody has used yet is no error."""
    monkeypatch.setenv("DSH_HOME", str(tmp_path))

    done = dshpy("ls")

    assert (0, f"no sessions in {tmp_path}/sessions\n") == (done.exit_code, done.stdout)


def test_show_prints_the_conversation_and_no_control_characters(root):
    """What models and commands wrote cannot steer the terminal."""
    done = dshpy("show", "newer", "--root", root)

    assert 0 == done.exit_code
    assert "user │ say \\x1b[31mnewer\\x07 \\xd800\\x202e" in done.stdout
    assert "end │ error: no" in done.stdout
    assert not any(ord(character) < 32 and character not in "\n\t" for character in done.stdout)


def test_show_as_json_is_the_log(root):
    """Header and events, as they are stored."""
    shown = json.loads(dshpy("show", "new", "--root", root, "--json").stdout)

    assert "newer" == shown["header"]["id"]
    assert ["turn/start", "step/start"] == [event["type"] for event in shown["events"]][:2]
    assert "append" == shown["events"][2]["surfaceOp"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["show", "nobody"], 3, "session 'nobody' was not found in"),
        (["show", ""], 2, "SEL is empty"),
        (["ls", "--root", "{root}/absent"], 4, "does not exist; --root names a folder of sessions"),
        (["ls", "--root", "{file}"], 4, "is a log file"),
        (["nonsense"], 2, "No such command"),
    ],
)
def test_bad_input_is_one_plain_message(root, arguments, code, message):
    """Each kind of mistake has its exit code and says what to do; no traceback."""
    (file,) = root.glob("*/older/*.jsonl")
    arguments = [argument.format(root=root, file=file) for argument in arguments]
    if "--root" not in arguments:
        arguments += ["--root", str(root)] if arguments[0] == "show" else []

    done = dshpy(*arguments)

    assert code == done.exit_code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_newer_generation_is_named(root):
    """A log of v9 is no damage: it is newer, and the message says so."""
    (log,) = root.glob("*/older/*.jsonl")
    log.rename(log.with_name("session.v9.jsonl"))

    listed = dshpy("ls", "--root", root)
    shown = dshpy("show", "older", "--root", root)

    assert 0 == listed.exit_code
    assert "unreadable" in listed.stdout
    assert 4 == shown.exit_code
    assert "v9" in shown.stderr
    assert "newer harness" in shown.stderr
