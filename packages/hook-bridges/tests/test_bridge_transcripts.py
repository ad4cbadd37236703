"""Where a log can be read is a question that changes nothing; making it readable is another one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dsh_hook_bridges import TranscriptMirror
from dsh_hook_bridges._transcripts import Transcripts
from dsh_persistence import SessionPersistence
from dsh_persistence_jsonl import Encoding, JsonlLogStore
from dsh_session import Session, SessionHeader

LONG_MS = 600_000


def tree_of(folder: Path) -> list[tuple[str, int, int]]:
    return sorted((str(path), path.lstat().st_mtime_ns, path.lstat().st_size) for path in folder.rglob("*"))


@pytest.fixture(params=["zstd", "raw"])
def encoding(request: pytest.FixtureRequest) -> Encoding:
    found: Encoding = request.param
    return found


@pytest.fixture
async def persistence(tmp_path: Path, encoding: Encoding) -> AsyncIterator[SessionPersistence]:
    """A service that writes nothing by itself within a test's life."""
    async with SessionPersistence(
        JsonlLogStore(tmp_path / "sessions", encoding=encoding), window_ms=LONG_MS
    ) as service:
        yield service


@pytest.fixture
async def session(persistence: SessionPersistence) -> Session:
    """A live session that has something to write."""
    session = Session(SessionHeader.new(cwd="/srv/x", session_id="s"))
    persistence.attach(session)
    session.append("turn/start", {"turn": 1})
    return session


@pytest.fixture(params=["log", "mirror"])
def mirror(request: pytest.FixtureRequest, tmp_path: Path) -> TranscriptMirror | None:
    return TranscriptMirror(str(tmp_path / "cache")) if request.param == "mirror" else None


async def test_looking_up_a_path_makes_and_flushes_nothing(
    tmp_path: Path, persistence: SessionPersistence, session: Session, mirror: TranscriptMirror | None
) -> None:
    """Neither the log nor the mirror's folder comes to be, and what waits to be written still waits."""
    transcripts = Transcripts(lambda: persistence, mirror)
    before, waiting = tree_of(tmp_path), persistence.health(session.id)

    paths = [path for path in (transcripts.path(session), transcripts.log_path(session)) if path is not None]

    assert 2 == len(paths)
    assert (before, waiting) == (tree_of(tmp_path), persistence.health(session.id))
    assert [] == [path for path in paths if Path(path).exists()]


async def test_what_hooks_leave_in_the_log_is_nothing_new(persistence: SessionPersistence, session: Session) -> None:
    """Nothing is synced on its account; with anything else behind it all of it is."""
    transcripts = Transcripts(lambda: persistence, None)
    await transcripts.refresh(session)
    place = {"turn": 1, "point": "Stop", "handlerId": "codex:Stop:1"}

    session.append("hook/invoked", {**place, "dialect": "codex"})
    session.append("hook/result", {**place, "decision": "pass", "durationMs": 1})
    await transcripts.refresh(session)
    assert 2 == persistence.health(session.id).queued

    session.append("step/start", {"turn": 1, "step": 1})
    await transcripts.refresh(session)
    assert 0 == persistence.health(session.id).queued


async def test_refreshing_makes_what_has_happened_readable(
    persistence: SessionPersistence, session: Session, mirror: TranscriptMirror | None
) -> None:
    """After it the file is there with every event so far; a raw log needs no mirror."""
    transcripts = Transcripts(lambda: persistence, mirror)

    await transcripts.refresh(session)

    path = transcripts.path(session)
    assert path is not None
    assert Path(path).exists()
    assert 0 == persistence.health(session.id).queued
    if path.endswith(".jsonl"):
        assert b'"turn/start"' in Path(path).read_bytes()


async def test_refreshing_from_many_sides_writes_each_line_once(tmp_path: Path) -> None:
    """A child's hooks refresh their parent's lines while the parent's own do."""
    session, mirror = Session(SessionHeader.new(session_id="s")), TranscriptMirror(str(tmp_path))
    transcripts = Transcripts(lambda: None, mirror)

    for turn in range(1, 101):
        session.append("turn/start", {"turn": turn})
        session.append("turn/end", {"turn": turn, "reason": {"kind": "completed"}})
        await asyncio.gather(*(transcripts.refresh(session) for _ in range(4)))

    _, *events = (json.loads(line) for line in Path(mirror.path("s")).read_bytes().splitlines())
    assert list(range(200)) == [event["seq"] for event in events]


async def test_a_mirror_of_an_id_that_is_no_files_name(persistence: SessionPersistence, tmp_path: Path) -> None:
    """There is the log to name instead; nobody is kept from a call for that."""
    session = Session(SessionHeader.new(cwd="/srv/x", session_id="n" * 220))
    transcripts = Transcripts(lambda: persistence, TranscriptMirror(str(tmp_path / "cache")))

    assert persistence.locate(session.header) is not None
    assert transcripts.log_path(session) == transcripts.path(session)


def test_no_persistence_is_no_path(mirror: TranscriptMirror | None) -> None:
    """It is asked for at that moment; with a mirror there is a file all the same."""
    session = Session(SessionHeader.new(session_id="s"))
    transcripts = Transcripts(lambda: None, mirror)

    assert None is transcripts.log_path(session)
    assert (None if mirror is None else mirror.path("s")) == transcripts.path(session)
