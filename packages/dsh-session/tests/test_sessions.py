from __future__ import annotations

from collections.abc import Callable
from itertools import chain, count
from typing import Any

import pytest

from dsh_session import EventRefused, HeaderInvalid, Session, SessionExists, SessionMeta, Sessions, encode_data


@pytest.fixture
def sessions(clock: Callable[[], int]) -> Sessions:
    ids = (f"{word}" for word in chain(["first", "second", "third"], map(str, count(4))))
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


def test_fork_inside_a_turn(sessions: Sessions, talk: Any) -> None:
    """GENERATIONS §5 item 7, §8: a fork inside a turn marks the cut at the boundary's time and closes the turn."""
    talk.open().assistant("a", "b")
    started = talk.call("a")
    talk.append("todo/write", {"todos": []})
    fork = sessions.fork(talk.session, at=started.seq)
    assert (fork.header.is_seeded, fork.header.seed_length) == (True, started.seq + 1)
    assert (fork.header.cwd, fork.header.parent_session) == ("/srv/project", "session-1")
    assert tuple(fork.events[: started.seq + 1]) == tuple(talk.session.events[: started.seq + 1])
    mark, first, second, step, turn = fork.events[started.seq + 1 :]
    assert {event.time for event in (mark, first, second, step, turn)} == {started.time}
    assert (mark.type, mark.encoded) == ("session/end-seed", b'{"inherited":true}')
    expected = {
        "turn": 1,
        "step": 1,
        "message": {
            "id": f"forked-tool-result-a-{mark.seq + 1}",
            "role": "tool",
            "toolCallId": "a",
            "isError": True,
            "source": {"kind": "tool", "callId": "a"},
            "content": [
                {
                    "type": "text",
                    "text": "The history inherited by this branch records this tool call starting but does not include "
                    "its result. The parent session may have completed it after the fork point. Decide whether to "
                    "retry from the tool semantics: retry only if the operation is read-only or idempotent; if it may "
                    "have side effects, first verify external state or ask the user. Do not retry blindly.",
                }
            ],
        },
        "error": {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"},
    }
    assert first.encoded == encode_data("tool/result", expected)
    assert (first.source_event_seqs, second.source_event_seqs) == ((started.seq,), None)
    assert second.data["message"]["id"] == f"forked-tool-result-b-{mark.seq + 2}"
    assert second.data["message"]["content"][0]["text"].startswith(
        "The history inherited by this branch has no record of this tool call starting. The parent session may have "
        "executed it after the fork point. Decide whether"
    )
    assert (step.type, step.data, turn.data) == (
        "step/end",
        {"turn": 1, "step": 1},
        {"turn": 1, "reason": {"kind": "forked"}},
    )
    assert fork.append("turn/start", {"turn": 2}).seq == turn.seq + 1


def test_fork_at_any_event(sessions: Sessions, talk: Any) -> None:
    """GENERATIONS §5 item 7: wherever it is cut, a fork is a log that validates, and a fork of it is one too."""
    talk.open()
    asked = talk.user()
    title = {"title": "t", "messageSeqs": [asked.seq], "source": {"kind": "fallback"}}
    talk.append("session/title", title)
    talk.assistant("a", "b")
    talk.call("b")
    talk.result("b")
    talk.call("a")
    talk.result("a")
    talk.close()
    for at in range(talk.session.next_seq):
        fork = sessions.fork(talk.session, at=at)
        assert fork.events.validate(fork.header).turn is None
        again = sessions.fork(fork)
        assert again.header.seed_length == fork.next_seq
        assert again.events.validate(again.header).turn is None
    for at in (-1, talk.session.next_seq):
        with pytest.raises(ValueError, match="no event"):
            sessions.fork(talk.session, at=at)


def test_seeds_begin_at_the_beginning(sessions: Sessions, talk: Any) -> None:
    """FORMAT §4.7: a seed is a prefix; nothing is published when it is none."""
    talk.open().close()
    with pytest.raises(EventRefused):
        sessions.create("a", seed=tuple(talk.session.events)[1:])
    assert sessions.get("a") is None


def test_redactor(talk: Any) -> None:
    """Issue 3: what a redactor returns is what is encoded and checked; the caller's data stays the caller's."""

    def redact(type: str, data: Any) -> Any:
        return {**data, "todos": ["***"]} if type == "todo/write" else data

    sessions = Sessions(redactor=redact)
    secret = {"todos": ["sk-123"]}
    session = sessions.create()
    event = session.append("todo/write", secret)
    assert (event.encoded, secret) == (b'{"todos":["***"]}', {"todos": ["sk-123"]})
    assert sessions.fork(session).append("todo/write", secret).encoded == b'{"todos":["***"]}'
    bare = Session(talk.session.header, redactor=lambda type, data: {"turn": float("nan")})
    with pytest.raises(EventRefused, match=r"NaN|nan"):
        bare.append("turn/start", {"turn": 1})


def test_marking_a_resume(sessions: Sessions) -> None:
    """GENERATIONS §9: a resume marks where it goes on, once."""
    session = sessions.create()
    mark = session.mark_resumed()
    assert mark is not None
    assert (mark.type, mark.encoded, session.next_seq) == ("session/end-seed", b"{}", 1)
    assert session.mark_resumed() is None
