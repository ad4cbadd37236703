"""One text names a folder, a file or a database."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dsh_agent_core import open_store
from dsh_persistence import SessionNotFound, StoreUnusable
from dsh_persistence_jsonl import JsonlLogStore
from dsh_persistence_sqlite import SqlLogStore
from dsh_session import Session, SessionHeader


def fill(store) -> None:
    session = Session(SessionHeader(id="s", created_at=1))
    session.append("session/title", {"title": "t", "messageSeqs": [], "source": {"kind": "user"}})
    with store.create(session.header) as writer:
        writer.append(session.batch(0))


@pytest.mark.parametrize("encoding", ["raw", "zstd", None])
def test_a_folder(tmp_path, encoding):
    """Also one that is not there yet; its encoding is a choice."""
    store = open_store(str(tmp_path / "new"), encoding=encoding)

    assert isinstance(store, JsonlLogStore)
    assert (encoding or "zstd", tmp_path / "new") == (store.encoding, store.root)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["plain.db", "odd ?#%41.db", "no suffix"])
def test_a_file_is_a_database(tmp_path, name):
    """Whatever its name; the same one as by its URL."""
    there = open_store("sqlite:///" + str(tmp_path / "made.db"))
    fill(there)
    there.close()
    (tmp_path / "made.db").rename(tmp_path / name)

    store = open_store(str(tmp_path / name))

    assert isinstance(store, SqlLogStore)
    assert 1 == store.read("s").next_seq
    store.close()


def test_a_relative_url(tmp_path, monkeypatch):
    """It is meant from where the process is at that moment."""
    monkeypatch.chdir(tmp_path)
    store = open_store("sqlite:///x.db")
    monkeypatch.chdir("/")
    fill(store)
    store.close()

    assert (tmp_path / "x.db").is_file()


@pytest.mark.parametrize("name", ["x.db", "x.sqlite", "x.sqlite3"])
def test_a_database_that_is_not_there_is_no_new_folder(tmp_path, name):
    """The message has the URL that makes one."""
    with pytest.raises(StoreUnusable, match=f"sqlite:///{tmp_path}/{name}"):
        open_store(str(tmp_path / name))
    assert [] == list(tmp_path.iterdir())


def test_a_folder_may_be_named_like_a_database(tmp_path):
    """What is there decides."""
    (tmp_path / "x.db").mkdir()

    assert isinstance(open_store(str(tmp_path / "x.db")), JsonlLogStore)


@pytest.mark.parametrize(
    "url", ["mysql://me:secret@h/db", "sqlite://", "sqlite:///:memory:", "mysql+pymysql://me:secret@h/db"]
)
def test_other_urls_are_refused(url):
    """And are no folders; the password is not repeated."""
    with pytest.raises(StoreUnusable) as refused:
        open_store(url)
    assert "secret" not in str(refused.value)


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path):
    """By the store, when it is asked."""
    (tmp_path / "notes.txt").write_text("my notes")

    with pytest.raises(StoreUnusable, match="notes"):
        open_store(str(tmp_path / "notes.txt")).read("s")
    assert "my notes" == (tmp_path / "notes.txt").read_text()


def test_reading_makes_no_database(tmp_path):
    """An absent one holds nothing."""
    with pytest.raises(SessionNotFound):
        open_store(f"sqlite:///{tmp_path}/x.db").read("s")
    assert [] == list(tmp_path.iterdir())


def test_a_folder_costs_no_import_of_a_database(tmp_path):
    """Nor of an agent."""
    code = "import sys; from dsh_agent_core import open_store; open_store(sys.argv[1]); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True, text=True, timeout=60
    )

    assert not {"sqlalchemy", "dsh_persistence_sqlite", "dsh_agent", "dsh_bash_local"} & set(done.stdout.split())
