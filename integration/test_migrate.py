"""Sessions move between files, SQLite and PostgreSQL and stay what they are."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import pytest
from services.testing import fresh_schema, postgres_server

from dsh_agent_core import open_store
from dsh_persistence import Copied, LogStore, copy_sessions
from dsh_persistence.contract._material import hard_events, make_header, open_turn
from dsh_session import EncodedBatch, Session, SessionHeader, SessionMeta, Sessions

KINDS = ("zstd", "raw", "sqlite", "postgres")
Contents = dict[str, tuple[SessionHeader, int, tuple]]


@pytest.fixture
def place(tmp_path) -> Callable[[str, str], str]:
    """Return ``place(kind, name)``: the text that names a fresh place."""

    def make(kind: str, name: str) -> str:
        match kind:
            case "zstd" | "raw":
                return str(tmp_path / name)
            case "sqlite":
                return f"sqlite:///{tmp_path}/{name}.db"
            case _:
                return fresh_schema(postgres_server())

    return make


@contextmanager
def opened(kind: str, root: str) -> Iterator[LogStore]:
    with closing(open_store(root, encoding=kind if kind in ("zstd", "raw") else None)) as store:
        yield store


def fill(store: LogStore, *, long: int = 0) -> None:
    """Write sessions of every kind: hard data, no directory, a fork, a child with baselines, an open turn."""

    def write(session: Session, step: int = 7) -> None:
        with store.create(session.header) as writer:
            for seq in range(0, session.next_seq, step):
                writer.append(EncodedBatch(first_seq=seq, events=tuple(session.events[seq : seq + step])))

    with store.create(make_header("hard\ud800/…\0", cwd=None)) as writer:
        writer.append(EncodedBatch(first_seq=0, events=hard_events()))
    sessions = Sessions()
    parent = sessions.create("parent", meta=SessionMeta(cwd="/srv/project", agent_preset="p"))
    for number in range(max(long, 20)):
        parent.append("plugin:acme/note", {"number": number, "text": "x" * (number % 1_000)})
    write(parent, 400)
    meta = SessionMeta(cwd="/srv/project", parent_session="parent")
    fork = sessions.create("fork", meta=meta, seed=parent.events)
    fork.append("plugin:acme/note", "of its own")
    write(fork, fork.next_seq - 1)
    child = SessionMeta(
        cwd="/", origin="subagent", delegation_depth=1, sandbox_mode="read-only", approval_policy="never"
    )
    write(sessions.create("child", meta=child))
    session = Session(SessionHeader(id="open", created_at=1, cwd="/"), clock=count(1_000).__next__)
    open_turn(session)
    write(session)


def contents(store: LogStore) -> Contents:
    """Return everything that a reader sees; headers with what only reading tells."""
    read = [store.read(entry.location) for entry in store.list()]
    return {stored.header.id: (stored.header, stored.cut, tuple(stored.events)) for stored in read}


def outcomes(copied: list[Copied]) -> dict[str | None, str]:
    return {one.session_id: one.outcome for one in copied}


def migrate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dsh_cli", "migrate", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


def tree_of(folder: Path) -> dict[str, tuple[int, int, bytes | None]]:
    """Return every file below, with its inode, its time and its bytes."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_ino,
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() else None,
        )
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_from_any_store_to_any_other(place, source, target):
    """Headers, forks, baselines, envelopes and data bytes arrive as they are; an open turn stays open."""
    with opened(source, place(source, "source")) as origin, opened(target, place(target, "target")) as into:
        fill(origin)
        before = contents(origin)

        copied = list(copy_sessions(origin, into, batch_bytes=1_000))
        again = list(copy_sessions(origin, into))

        assert dict.fromkeys(before, "copied") == outcomes(copied)
        assert dict.fromkeys(before, "present") == outcomes(again)
        assert before == contents(into) == contents(origin)
        assert {"hard\ud800/…\0", "parent", "fork", "child", "open"} == set(before)


@pytest.mark.parametrize("target", KINDS)
def test_what_is_cut_off_anywhere_is_completed(place, target):
    """Also a child whose store does not know its baselines yet, and a fork that has no event of its own."""
    with opened("zstd", place("zstd", "source")) as origin:
        fill(origin)
        for number, (header, cut, events) in enumerate(contents(origin).values()):
            first = cut + 1 if header.is_seeded else 1
            for end in sorted({first, (first + len(events)) // 2, len(events) - 1}):
                with opened(target, place(target, f"target-{number}-{end}")) as into:
                    with into.create(header) as writer:
                        writer.append(EncodedBatch(first_seq=0, events=events[:end]))

                    copied = list(copy_sessions(origin, into))

                    assert "continued" == outcomes(copied)[header.id]
                    assert contents(origin) == contents(into)


@pytest.mark.parametrize("source", ["zstd", "raw", "sqlite"])
def test_the_source_is_not_touched(tmp_path, place, source):
    """No lock file, no byte, no time, whatever becomes of the copy."""
    (tmp_path / "there").mkdir()
    root = place(source, "there/source")
    with opened(source, root) as origin:
        fill(origin)
    before = tree_of(tmp_path / "there")

    for _ in range(2):
        assert 0 == migrate(root, str(tmp_path / "target")).returncode

    assert before == tree_of(tmp_path / "there")


def damage(kind: str, root: str) -> None:
    """Change one byte of session ``child``."""
    if kind in ("zstd", "raw"):
        (log,) = (path for path in Path(root).glob("*/child/*") if path.name.endswith((".jsonl", ".zstd")))
        content = bytearray(log.read_bytes())
        content[len(content) // 2] ^= 1
        log.write_bytes(content)
        return
    change = "UPDATE events SET time = time + 1 WHERE seq = 1 AND session_id = %s"
    if kind == "sqlite":
        with closing(sqlite3.connect(root.removeprefix("sqlite:///"))) as connection, connection:
            connection.execute(change % "?", (b"child",))
    else:
        with pytest.importorskip("psycopg").connect(root.replace("+psycopg", "")) as connection:
            connection.execute(change, (b"child",))


@pytest.mark.parametrize("source", KINDS)
def test_live_and_damaged_sessions_are_reported(tmp_path, place, source):
    """One that a process has is not copied, nor one with a changed byte; the others are, and the exit code is 1."""
    root = place(source, "source")
    with opened(source, root) as origin:
        fill(origin)
    damage(source, root)
    with opened(source, root) as origin, origin.open("open"):
        done = migrate(root, f"sqlite:///{tmp_path}/target.db", "--json")

    report = json.loads(done.stdout)
    found = {one["id"]: (one["outcome"], one["written"] > 0) for one in report["sessions"]}
    assert (1, False) == (done.returncode, report["whole"])
    assert {
        "open": ("live", False),
        "child": ("unreadable", False),
        "parent": ("copied", True),
        "fork": ("copied", True),
    } == {name: found[name] for name in ("open", "child", "parent", "fork")}
    with opened("sqlite", f"sqlite:///{tmp_path}/target.db") as into:
        assert {"parent", "fork", "hard\ud800/…\0"} == set(contents(into))


@pytest.mark.parametrize("kind", KINDS)
def test_killed_again_and_again_it_completes(place, kind):
    """Killed with -9 at many moments; the last run finishes, and nothing is there twice or missing."""
    root, target = place("zstd", "source"), place(kind, "target")
    with opened("zstd", root) as origin:
        fill(origin, long=3_000)
        before = contents(origin)
    if kind == "raw":  # what a folder holds decides how its new logs are written
        with opened(kind, target) as into, opened("zstd", root) as origin, into.create(before["open"][0]) as writer:
            writer.append(EncodedBatch(first_seq=0, events=before["open"][2]))
    code = (
        "import os, signal, sys\n"
        "from dsh_agent_core import open_store\n"
        "from dsh_persistence import copy_sessions\n"
        "left = int(sys.argv[3])\n"
        "def show(*_):\n"
        "    global left\n"
        "    left -= 1\n"
        "    if left < 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "source, into = map(open_store, sys.argv[1:3])\n"
        "for _ in copy_sessions(source, into, batch_bytes=100_000, progress=show): pass\n"
    )
    ends = []
    for batches in (0, 2, 4):
        done = subprocess.run([sys.executable, "-c", code, root, target, str(batches)], check=False, timeout=120)
        ends.append(done.returncode)
    assert -signal.SIGKILL in ends

    done = migrate(root, target, "--json")

    report = json.loads(done.stdout)
    assert (0, True) == (done.returncode, report["whole"])
    with opened(kind, target) as into:
        assert before == contents(into)


@pytest.mark.parametrize("kind", ["zstd", "sqlite", "postgres"])
def test_two_at_once(place, kind):
    """Whatever the moment, each session is written once; who comes second to one says so, and a third run finds all."""
    root, target = place("zstd", "source"), place(kind, "target")
    with opened("zstd", root) as origin:
        fill(origin, long=2_000)
        before = contents(origin)
    command = [sys.executable, "-m", "dsh_cli", "migrate", root, target, "--json"]

    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    reports = [json.loads(one.communicate(timeout=120)[0]) for one in both]

    for one, report in zip(both, reports, strict=True):
        found = {session["outcome"] for session in report["sessions"]}
        assert found <= {"copied", "continued", "present", "busy"}, report
        assert (one.returncode == 1) == ("busy" in found)
    assert 0 == migrate(root, target).returncode
    with opened(kind, target) as into:
        assert before == contents(into)


@pytest.mark.parametrize("kind", ["zstd", "sqlite", "postgres"])
def test_a_session_that_another_copy_has_is_busy(place, kind):
    """The one that holds it goes on."""
    root, target = place("raw", "source"), place(kind, "target")
    with opened("raw", root) as origin, opened(kind, target) as into:
        fill(origin)
        header, _, events = contents(origin)["parent"]
        with into.create(header) as writer:
            writer.append(EncodedBatch(first_seq=0, events=events[:5]))
            done = migrate(root, target, "--json")
            writer.append(EncodedBatch(first_seq=5, events=events[5:]))

        (busy,) = (one for one in json.loads(done.stdout)["sessions"] if one["outcome"] != "copied")
        assert (1, "parent", "busy") == (done.returncode, busy["id"], busy["outcome"])
        assert contents(origin) == contents(into)


@pytest.mark.parametrize("source", KINDS)
def test_memory_is_bounded(place, source):
    """Copying a log takes far less memory than the log has bytes."""
    root, target, size = place(source, "source"), place("sqlite", "target"), 48 << 20
    with opened(source, root) as origin, origin.create(make_header("long")) as writer:
        session = Session(make_header("long"))
        for _ in range(96):
            first = session.next_seq
            for _ in range(32):
                session.append("plugin:acme/noise", os.urandom(size // 96 // 32 // 2).hex())
            writer.append(session.batch(first))
    code = (
        "import re, sys\n"
        "from dsh_agent_core import open_store\n"
        "from dsh_persistence import copy_sessions\n"
        "source, into = map(open_store, sys.argv[1:])\n"
        "peak = lambda: int(re.search('VmHWM:\\\\s+([0-9]+)', open('/proc/self/status').read())[1])\n"
        "list(source.list())\n"
        "before = peak()\n"
        "(one,) = copy_sessions(source, into)\n"
        "print(one.outcome, peak() - before)\n"
    )

    done = subprocess.run([sys.executable, "-c", code, root, target], check=True, capture_output=True, text=True)

    outcome, grown_kb = done.stdout.split()
    assert "copied" == outcome
    assert int(grown_kb) << 10 < size // 2
