"""``dshpy loop``: its report, its scripts, and what it says of bad input."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from dsh_cli import main
from dsh_persistence_jsonl import JsonlLogStore
from dsh_session import Session, SessionHeader


def loop(*arguments: object):
    return CliRunner().invoke(main, ["loop", *(str(argument) for argument in arguments)], catch_exceptions=False)


@pytest.fixture
def poisoned(monkeypatch):
    for name in ("DSH_SESSION_ID", "DSH_STALE_SENTINEL", "SOME_API_KEY"):
        monkeypatch.setenv(name, "poison")


def test_the_report_for_people(poisoned, tmp_path):
    """The facts the child saw, what was kept from it by name, the conversation, and where the log is."""
    done = loop("--home", tmp_path, "--where", "container")

    assert 0 == done.exit_code
    assert done.stdout.startswith("The loop ran in a container.")
    assert f"DSH_HOME           {tmp_path}" in done.stdout
    assert "not yet: nothing had been flushed" in done.stdout
    assert "DSH_STALE_SENTINEL" in done.stdout
    assert "SOME_API_KEY" in done.stdout
    assert "assistant │ That is who I am." in done.stdout
    assert "poison" not in done.stdout
    assert "LEAKED" not in done.stdout


def test_the_report_as_json(poisoned, tmp_path):
    """One document, with every fact under its documented name."""
    report = json.loads(loop("--home", tmp_path, "--json").stdout)

    assert {
        "where",
        "home",
        "shell",
        "session_id",
        "session_jsonl",
        "existed_before_flush",
        "leaked",
        "header_id",
        "events",
    } <= set(report)
    assert ("machine", str(tmp_path), "1", False, []) == (
        report["where"],
        report["home"],
        report["shell"],
        report["existed_before_flush"],
        report["leaked"],
    )
    assert report["session_id"] == report["header_id"]


def test_a_leak_is_reported_and_fails(monkeypatch, tmp_path):
    """The report is no decoration: an ambient name that reaches the child turns it red."""
    import dsh_cli._loop as module

    monkeypatch.setenv("HARMLESS_NAME", "x")
    monkeypatch.setattr(module, "dropped_names", lambda *, policy: ["HARMLESS_NAME"])

    done = loop("--home", tmp_path)

    assert 1 == done.exit_code
    assert "HARMLESS_NAME is here" in done.stdout
    assert "LEAKED: HARMLESS_NAME" in done.stdout


def test_what_a_shell_makes_for_itself_is_no_leak(monkeypatch, tmp_path):
    """Bash always has SHELLOPTS; only one that it inherited would be in its environment."""
    monkeypatch.setenv("SHELLOPTS", "braceexpand")

    report = json.loads(loop("--home", tmp_path, "--json").stdout)

    assert [] == report["leaked"]
    assert "SHELLOPTS" in report["scrubbed"]


def test_a_delegated_session_knows_where_it_comes_from(monkeypatch, tmp_path):
    """Its own lineage is no leak, whatever an outer harness says; people see it."""
    header = SessionHeader(id="session-child", created_at=1, parent_session="session-top", origin="subagent")
    session = Session(header)
    session.append("plugin:acme/note", {})
    with JsonlLogStore(tmp_path / "sessions").create(header) as writer:
        writer.append(session.batch(0))
    for name in ("DSH_PARENT_SESSION_ID", "DSH_ROOT_SESSION_ID"):
        monkeypatch.setenv(name, "poison")

    done = loop("--home", tmp_path, "--resume", "session-child")

    assert 0 == done.exit_code
    assert "DSH_PARENT_SESSION_ID session-top" in done.stdout
    assert "poison" not in done.stdout


def test_a_script_of_ones_own_and_resuming(tmp_path):
    """``--script`` replaces the replies, ``--resume`` goes on with a session."""
    script = tmp_path / "script.json"
    script.write_text('[{"text": "first words"}]')
    first = json.loads(loop("--home", tmp_path, "--script", script, "--json").stdout)

    second = json.loads(loop("--home", tmp_path, "--resume", first["header_id"], "--json").stdout)

    assert first["header_id"] == second["header_id"] == second["session_id"]
    assert second["existed_before_flush"] is True
    assert [1, 2] == [event["data"]["turn"] for event in second["events"] if event["type"] == "turn/start"]


def test_a_script_that_ends_early_fails_the_turn_and_says_why(tmp_path):
    """The turn is in the log, closed, and the exit code tells."""
    script = tmp_path / "script.json"
    script.write_text('[{"tools": [{"name": "bash", "arguments": {"command": "true", "description": "d"}}]}]')

    done = loop("--home", tmp_path, "--script", script)

    assert 1 == done.exit_code
    assert "the model script ended: reply 2 was asked for, and it has 1" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--home", "{file}"], 2, "is a file"),
        (["--home", ""], 2, "the configured home is blank"),
        (["--script", "{file}"], 2, "is no list of replies"),
        (["--script", "{tmp}/absent"], 2, "cannot be read"),
        (["--home", "{tmp}", "--resume", "nobody"], 3, "session 'nobody' was not found"),
        (["--window-ms", "-1"], 2, "-1"),
    ],
)
def test_bad_input_is_one_plain_message(tmp_path, arguments, code, message):
    """Nothing is made, and the message says what is wrong."""
    file = tmp_path / "file"
    file.write_text("{}")

    done = loop(*(argument.format(file=file, tmp=tmp_path) for argument in arguments))

    assert code == done.exit_code
    assert message in done.stderr
