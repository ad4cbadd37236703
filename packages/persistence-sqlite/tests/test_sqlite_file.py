"""The file: what it is made as, whose it has to be, and what is refused before anything of it is changed."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from dsh_persistence import SessionNotFound, StoreUnusable
from dsh_persistence_sqlite import SqlLogStore, _mounts, _schema

Picture = Callable[[Path], dict[str, Any]]


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE events (x)")
        connection.execute("PRAGMA application_id=42")
        connection.commit()


def _foreign_with_a_log(path: Path) -> None:
    """A foreign database whose process died: what it wrote last is in its log only."""
    made = path.with_name("made")
    with closing(sqlite3.connect(made)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE events (x)")
        connection.commit()
        shutil.copy(made, path)
        shutil.copy(f"{made}-wal", f"{path}-wal")
    made.unlink()


def _junk_with_a_journal(path: Path) -> None:
    path.write_text("no database\n" * 500)
    Path(f"{path}-journal").write_text("no journal\n" * 100)


def _unversioned(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE sessions (session_id BLOB)")
        connection.commit()


def _linked(path: Path) -> None:
    _ours(path)
    real = path.rename(path.with_name("real.db"))
    path.symlink_to(real)


def _hard_linked(path: Path) -> None:
    _ours(path)
    os.link(path, path.with_name("another.db"))


def _ours(path: Path) -> None:
    store = SqlLogStore(f"sqlite:///{path}")
    store.create(_header()).append(_batch())
    store.close()


def _header() -> Any:
    from dsh_session import SessionHeader

    return SessionHeader(id="s", created_at=1)


def _batch() -> Any:
    from dsh_session import EncodedBatch, SessionEvent

    return EncodedBatch(first_seq=0, events=(SessionEvent(type="plugin:x", seq=0, time=0, encoded=b"1"),))


def _newer(path: Path) -> None:
    _ours(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version={_schema.SCHEMA_VERSION + 1}")


def _without_version(path: Path) -> None:
    _ours(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=0")


REFUSED = {
    "foreign": (_foreign, "application id is 0x2a"),
    "foreign with a log": (_foreign_with_a_log, "application id is 0x0"),
    "junk with a journal": (_junk_with_a_journal, "no SQLite database"),
    "unversioned": (_unversioned, "application id is 0x0"),
    "newer": (_newer, "schema version 2"),
    "without version": (_without_version, "schema version 0"),
    "empty": (lambda path: path.write_bytes(b""), "application id is 0x0"),
    "text": (lambda path: path.write_text("no database\n" * 500), "no SQLite database"),
    "short": (lambda path: path.write_bytes(b"SQLite format 3\0"), "no SQLite database"),
    "folder": (lambda path: path.mkdir(), "no regular file"),
    "pipe": (os.mkfifo, "no regular file"),
    "symbolic link": (_linked, "a symbolic link"),
    "dangling link": (lambda path: path.symlink_to("nowhere.db"), "a symbolic link"),
    "hard link": (_hard_linked, "another name"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused_stays_as_it_is(kind: str, made: Any, tmp_path: Path, picture: Picture) -> None:
    """A file that is not ours, or of no version we know, is refused by every call, and not one byte changes."""
    make, said = REFUSED[kind]
    make(made.path)
    shutil.rmtree(f"{made.path}.claims", ignore_errors=True)
    before = picture(tmp_path)
    store = made.store()
    calls: list[Callable[[], object]] = [
        lambda: store.read("s"),
        lambda: list(store.list()),
        lambda: store.open("s"),
        lambda: store.tail("s"),
        lambda: store.create(made.header()).append(made.batch(0)),
    ]
    for call in calls:
        with pytest.raises(StoreUnusable, match=said):
            call()
    store.close()
    assert picture(tmp_path) == before


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_links_beside_the_file_are_refused(made: Any, suffix: str, tmp_path: Path) -> None:
    """SQLite would follow a link in the place of its own files."""
    made.fill("s")
    (tmp_path / f"sessions.db{suffix}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreUnusable, match="no regular file"):
        made.store().read("s")
    assert not (tmp_path / "elsewhere").exists()


def test_reading_makes_nothing(made: Any, tmp_path: Path) -> None:
    """No call but an append makes the file, nor its folder."""
    store = SqlLogStore(f"sqlite:///{tmp_path}/below/more/sessions.db")
    assert list(store.list()) == []
    for call in (store.read, store.open, store.tail, lambda one: list(store.scan(one))):
        with pytest.raises(SessionNotFound, match=r"sessions\.db"):
            call("s")
    store.create(made.header()).close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("umask", [0o022, 0o000, 0o077])
@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_modes(made: Any, tmp_path: Path, umask: int, journal: Any) -> None:
    """Files are 0600 and folders 0700 whatever the umask, while they are in use as well (B05)."""
    store = SqlLogStore(f"sqlite:///{tmp_path}/made/below/sessions.db", journal=journal)
    before = os.umask(umask)
    try:
        with store.create(made.header()) as writer:
            writer.append(made.batch(0))
            store.read("s")
            found = {str(one.relative_to(tmp_path)): stat.S_IMODE(one.stat().st_mode) for one in tmp_path.rglob("*")}
    finally:
        os.umask(before)
        store.close()
    folders = {"made", "made/below", "made/below/sessions.db.claims"}
    assert {found.pop(folder) for folder in folders} == {0o700}
    assert "made/below/sessions.db" in found
    assert ("made/below/sessions.db-wal" in found) == (journal == "wal")
    assert set(found.values()) == {0o600}


def test_what_is_left_behind(made: Any, tmp_path: Path) -> None:
    """Closing leaves the file and the folder of the locks: no log, no lock, nothing that was begun."""
    made.fill("s", "t")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["sessions.db", "sessions.db.claims"]
    assert list((tmp_path / "sessions.db.claims").iterdir()) == []


def test_a_second_name_from_a_death_in_between(made: Any, tmp_path: Path) -> None:
    """Who dies between giving the file its name and taking the other one away leaves a file that opens."""
    made.fill("s")
    os.link(made.path, tmp_path / ".sessions.db.0123456789abcdef.new")
    (tmp_path / ".sessions.db.fedcba9876543210.new").write_bytes(b"begun")
    assert made.events() == list(made.batch(0, 3).events)
    assert made.path.stat().st_nlink == 1
    assert not list(tmp_path.glob(".*"))


def test_the_head_of_the_file(made: Any) -> None:
    """Application id and version stand in the file's head, where ``file`` finds them, and the tables are strict."""
    made.fill("s")
    head = made.path.read_bytes()[:100]
    assert (head[68:72], int.from_bytes(head[60:64], "big")) == (b"DSHS", _schema.SCHEMA_VERSION)
    tables = made.sql("PRAGMA table_list")
    assert {(name, strict, wr) for _, name, kind, _, wr, strict in tables if not name.startswith("sqlite_")} == {
        ("store", 1, 0),
        ("sessions", 1, 0),
        ("events", 1, 0),
    }
    assert [column[1] for column in made.sql("PRAGMA table_info(events)") if column[5]] == ["session_id", "seq"]
    assert made.sql("PRAGMA integrity_check") == [("ok",)]


@pytest.mark.parametrize("url", ["sqlite:///rel.db", "sqlite+pysqlite:///./rel.db"])
def test_a_relative_path_is_made_absolute_once(
    url: str, made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process may go elsewhere afterwards."""
    monkeypatch.chdir(tmp_path)
    store = SqlLogStore(url)
    monkeypatch.chdir("/")
    store.create(made.header()).append(made.batch(0))
    assert store.where == f"{tmp_path}/rel.db"
    assert (tmp_path / "rel.db").is_file()


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("a b.db", "a b.db"),
        ("a%20b.db", "a b.db"),
        ("100%25.db", "100%.db"),
        ("ü%3F#.db", "ü?#.db"),
        ("a'b.db", "a'b.db"),
    ],
)
def test_any_name(written: str, name: str, made: Any, tmp_path: Path) -> None:
    """A path is taken as a url has it: percent signs escape, and everything else stands for itself."""
    store = SqlLogStore(f"sqlite:///{tmp_path}/{written}")
    with store.create(made.header()) as writer:
        writer.append(made.batch(0))
    assert [one.name for one in tmp_path.iterdir() if one.is_file() and one.suffix == ".db"] == [name]
    assert store.read("s").next_seq == 1


def test_an_older_version_is_migrated(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of an older version goes through the numbered steps, once, in one transaction; its sessions stay."""
    made.fill("s", "t")
    calls: list[int] = []

    def second(connection: Connection) -> None:
        calls.append(2)
        connection.exec_driver_sql("CREATE TABLE added (x INTEGER) STRICT")

    def third(connection: Connection) -> None:
        calls.append(3)
        connection.exec_driver_sql("ALTER TABLE added ADD COLUMN y INTEGER")

    monkeypatch.setattr(_schema, "MIGRATIONS", {1: second, 2: third})
    monkeypatch.setattr(_schema, "SCHEMA_VERSION", 3)
    for _ in range(2):
        assert made.events("t") == list(made.batch(0, 3).events)
    assert calls == [2, 3]
    assert made.sql("PRAGMA user_version") == [(3,)]
    assert made.sql("SELECT schema_version FROM store") == [(3,)]
    assert [one[1] for one in made.sql("PRAGMA table_info(added)")] == ["x", "y"]
    monkeypatch.undo()
    with pytest.raises(StoreUnusable, match="has schema version 3"):
        made.events("t")


def test_a_migration_that_fails_changes_nothing(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a step did before it failed is taken back, and the file is of the version it was."""
    made.fill("s")

    def fails(connection: Connection) -> None:
        connection.exec_driver_sql("CREATE TABLE added (x INTEGER) STRICT")
        raise OSError("no")

    monkeypatch.setattr(_schema, "MIGRATIONS", {1: fails})
    monkeypatch.setattr(_schema, "SCHEMA_VERSION", 2)
    with pytest.raises(OSError, match="no"):
        made.events()
    monkeypatch.undo()
    assert made.events() == list(made.batch(0, 3).events)
    assert made.sql("SELECT count(*) FROM sqlite_schema WHERE name = 'added'") == [(0,)]


class TestNetworkFileSystems:
    """D02: a write-ahead log on a network file system is refused, loudly."""

    @pytest.fixture(params=["nfs4", "virtiofs", "9p", "fuse.sshfs"])
    def network(self, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        """Have the machine say that the folder lies on one."""
        mounts = tmp_path.parent / f"{tmp_path.name}-mounts"
        point = str(tmp_path).replace(" ", "\\040")
        mounts.write_text(
            "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
            f"30 22 0:40 / {point} rw,relatime shared:9 - {request.param} server:/export rw\n"
            f"31 30 0:41 / {point}/local rw - tmpfs none rw\n"
        )
        monkeypatch.setattr(_mounts, "_MOUNTS", mounts)
        return str(request.param)

    def test_a_new_file_is_refused(self, made: Any, network: str, tmp_path: Path) -> None:
        """The message says what to do, nothing is made, and what it says works."""
        with pytest.raises(StoreUnusable, match=rf'network file system \({network}\).*journal="delete"'):
            made.store().create(made.header()).append(made.batch(0))
        assert list(tmp_path.iterdir()) == []
        with made.store(journal="delete").create(made.header()) as writer:
            writer.append(made.batch(0))
        assert made.events() == [made.event(0)]  # without being told: it has that journal already
        assert made.sql("PRAGMA journal_mode") == [("delete",)]

    def test_a_file_that_has_one_is_refused(
        self, made: Any, network: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Reading needs the shared memory as well; and ``delete`` converts it."""
        with monkeypatch.context() as local:
            local.setattr(_mounts, "_MOUNTS", tmp_path / "unknown")
            made.fill("s")
        for journal in (None, "wal"):
            with pytest.raises(StoreUnusable, match="network file system"):
                made.store(journal=journal).read("s")
        assert list(made.store(journal="delete").read("s").events) == list(made.batch(0, 3).events)

    def test_a_local_mount_below_is_not_refused(self, made: Any, network: str, tmp_path: Path) -> None:
        """What counts is the mount that the folder lies on."""
        store = SqlLogStore(f"sqlite:///{tmp_path}/local/sessions.db")
        (tmp_path / "local").mkdir()
        store.create(made.header()).append(made.batch(0))
        assert store.read("s").next_seq == 1


class TestJournals:
    """D02: the journal in force is the one that was asked for, or opening fails."""

    def test_an_existing_file_gets_the_journal(self, made: Any) -> None:
        """Both ways, and what it holds stays."""
        made.fill("s")
        for journal in ("delete", "wal", "delete", None):
            store = made.store(journal=journal)
            assert list(store.read("s").events) == list(made.batch(0, 3).events)
            store.close()
            assert made.sql("PRAGMA journal_mode") == [(journal or "delete",)]

    def test_not_while_others_use_it(self, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """A log that is in use cannot be given up: opening says so, and the others go on."""
        monkeypatch.setattr("dsh_persistence_sqlite._sqlite_file._SWITCH_S", 0.2)
        user = made.store()
        with user.create(made.header()) as writer:
            writer.append(made.batch(0))
            with pytest.raises(StoreUnusable, match="has journal mode wal, and cannot get delete"):
                made.store(journal="delete").read("s")
            writer.append(made.batch(1))
        user.close()
        assert made.store(journal="delete").read("s").next_seq == 2

    def test_changed_behind_the_back(self, made: Any) -> None:
        """A setting that is not in force when it is read back stops the connection."""
        made.fill("s")
        store = made.store()
        store.read("s")
        store._database._journal = "delete"
        store.close()
        with pytest.raises(StoreUnusable, match="journal_mode=wal where delete is needed"):
            store.read("s")
