from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dsh_session import EventRefused, HeaderInvalid, Session, SessionExists, SessionMeta, Sessions


@pytest.fixture
def sessions(clock: Callable[[], int]) -> Sessions:
    ids = iter(["first", "second", "third"])
    return Sessions(clock=clock, new_id=lambda: next(ids))


def test_create_stamps_identity(sessions: Sessions) -> None:
    """FORMAT §1.2: version, id and creation time come from the store; everything else from the caller."""
    meta = SessionMeta(cwd="/w", parent_session="p", origin="subagent", delegation_depth=1, agent_preset="coder")
    session = sessions.create(meta=meta)
    header = session.header
    assert (header.version, header.id, header.created_at) == (4, "first", 1000)
    assert (header.cwd, header.parent_session, header.origin) == ("/w", "p", "subagent")
    assert (header.delegation_depth, header.agent_preset, header.is_seeded) == (1, "coder", False)
    assert (header.seed_length, session.next_seq) == (None, 0)
    assert sessions.create("mine", meta=SessionMeta(created_at=5)).header.created_at == 5
    assert [session.id for session in sessions] == ["first", "mine"]
    assert sessions.get("first") is session
    assert sessions.get("nobody") is None


def test_relative_cwd_is_refused(sessions: Sessions) -> None:
    """FORMAT §1.2: a working directory is absolute; nothing is published otherwise and the id stays free."""
    with pytest.raises(HeaderInvalid, match="relative"):
        sessions.create("a", meta=SessionMeta(cwd="srv/project"))
    assert list(sessions) == []
    sessions.create("a", meta=SessionMeta(cwd="/srv/project"))


def test_an_id_is_live_once(sessions: Sessions) -> None:
    """Two live sessions never share an id; leaving frees it."""
    session = sessions.create("a")
    with pytest.raises(SessionExists) as caught:
        sessions.create("a")
    assert caught.value.session_id == "a"
    other = Session(session.header)
    sessions.leave(other)
    assert sessions.get("a") is session
    sessions.leave(session)
    sessions.leave(session)
    sessions.enter(other)
    assert sessions.get("a") is other


def test_an_observer_that_raises_rolls_back(sessions: Sessions) -> None:
    """Publication is all or nothing: when an observer refuses, the session is not live and the id is free."""
    seen: list[str] = []
    sessions.observe(lambda session: seen.append(session.id))

    def refuse(session: Session) -> None:
        assert sessions.get(session.id) is session
        raise LookupError("no")

    stop = sessions.observe(refuse)
    with pytest.raises(LookupError):
        sessions.create("a")
    assert sessions.get("a") is None
    stop()
    stop()
    sessions.create("a")
    assert seen == ["a", "a"]


def test_baselines_become_events(sessions: Sessions) -> None:
    """DESIGN: a v4 header line cannot carry the delegation baselines, so they open the log as events."""
    session = sessions.create(meta=SessionMeta(sandbox_mode="read-only", approval_policy="never"))
    assert [(event.type, event.data) for event in session.events] == [
        ("sandbox/mode", {"mode": "read-only", "source": "delegation"}),
        ("approval/policy", {"policy": "never", "source": "delegation"}),
    ]
    assert (session.header.sandbox_mode, session.header.approval_policy) == ("read-only", "never")


def test_fork(sessions: Sessions, talk: Any) -> None:
    """FORMAT §4.7, GENERATIONS §1.1: a fork copies the parent's events and marks their end, at their last time."""
    talk.open()
    talk.user()
    talk.close()
    seed = tuple(talk.session.events)
    fork = sessions.create(seed=seed, meta=SessionMeta(parent_session="session-1", sandbox_mode="read-only"))
    assert (fork.header.is_seeded, fork.header.seed_length) == (True, len(seed))
    assert tuple(fork.events[: len(seed)]) == seed
    marker, baseline = fork.events[len(seed) :]
    assert (marker.type, marker.data, marker.time) == ("session/end-seed", {"inherited": True}, seed[-1].time)
    assert (baseline.type, baseline.seq) == ("sandbox/mode", len(seed) + 1)
    assert fork.messages() == talk.session.messages()
    assert fork.append("turn/start", {"turn": 2}).seq == len(seed) + 2


def test_fork_inside_a_turn_is_refused(sessions: Sessions, talk: Any) -> None:
    """FORMAT §4.7: a copied prefix does not end inside an open turn, and begins at seq 0."""
    talk.open()
    with pytest.raises(EventRefused, match="inside turn 1"):
        sessions.create("a", seed=tuple(talk.session.events))
    talk.close()
    with pytest.raises(EventRefused):
        sessions.create("a", seed=tuple(talk.session.events)[1:])
    assert sessions.get("a") is None
