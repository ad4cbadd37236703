"""Queues of waiting messages and model selection: what makes the reference refuse a log."""

from __future__ import annotations

from typing import Any

import pytest

from dsh_session import EventRefused, Session, SessionHeader

MESSAGE = {"role": "user", "id": "m", "source": {"kind": "user"}, "content": [{"type": "text", "text": "Later."}]}


@pytest.fixture
def session() -> Session:
    return Session(SessionHeader.new(session_id="s"))


def splice(session: Session, **data: Any) -> None:
    session.append("agent/inbox/spliced", {"target": "next-turn", "start": 0, "inserted": [], **data})


def test_queues_fill_and_empty(session: Session) -> None:
    """FORMAT §8: two queues, counted apart; what was taken out is gone."""
    splice(session, inserted=[MESSAGE, MESSAGE])
    splice(session, target="next-step", inserted=[MESSAGE])
    splice(session, removedCount=1)
    splice(session, start=1, inserted=[MESSAGE])
    splice(session, removedCount=2)

    assert {"next-turn": 0, "next-step": 1} == session.state.facts.waiting


@pytest.mark.parametrize(
    "data",
    [
        {"target": "next-week"},
        {"target": None},
        {"start": 1},
        {"start": -1},
        {"removedCount": 1},
        {"removedCount": [1]},
        {"removedCount": ""},
        {"inserted": [{**MESSAGE, "role": 7}]},
        {"inserted": [{**MESSAGE, "id": ""}]},
        {"inserted": [{**MESSAGE, "content": "text"}]},
    ],
)
def test_a_splice_that_fits_no_queue_is_refused(session: Session, data: dict[str, Any]) -> None:
    """The reference refuses such a log at once or at the second resume; nothing has changed then."""
    with pytest.raises(EventRefused):
        splice(session, **data)

    assert (0, {}) == (session.next_seq, session.state.facts.waiting)


@pytest.mark.parametrize(
    "models",
    [None, [], [{}], [[{}]], [""], [{"provider": "p", "model": ""}], [{"provider": "p", "model": "m"}] * 2],
)
def test_a_policy_without_distinct_routes_is_refused(session: Session, models: Any) -> None:
    """GENERATIONS §2: a policy is a list of at least one route, each whole and named once."""
    with pytest.raises(EventRefused):
        session.append("subagent/model-selection-policy", {"allowedModels": models})


def test_a_policy_is_taken(session: Session) -> None:
    """Whole routes pass."""
    routes = [{"provider": "p", "model": "m"}, {"provider": "p", "model": "n"}]

    assert 0 == session.append("subagent/model-selection-policy", {"allowedModels": routes}).seq
