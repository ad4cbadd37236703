from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_session import EventRefused, EventRun, Replace, SessionEvent


def nodes(talk: Any) -> list[int]:
    surface: list[int] = talk.session.state.surface.nodes
    return list(surface)


@pytest.fixture
def five(talk: Any) -> Any:
    """Nodes 2 (system), 3, 4, 5, 6 (user)."""
    talk.open()
    for _ in range(4):
        talk.user()
    assert nodes(talk) == [2, 3, 4, 5, 6]
    return talk


def test_replace_takes_the_place_of_a_span(five: Any) -> None:
    """FORMAT §6: a replacement stands where the span stood, and order is position, not seq."""
    five.user(op=five.replace(3, 4), cite=(3, 4))
    assert nodes(five) == [2, 7, 5, 6]
    five.user(op=five.replace(7, 5), cite=(5, 7))
    assert nodes(five) == [2, 8, 6]
    five.user(op=five.replace(6, 6), cite=(6,))
    assert nodes(five) == [2, 8, 9]


@pytest.mark.parametrize(
    ("start", "end", "cite", "reason"),
    [
        (4, 3, (3, 4), "no span"),
        (3, 99, (3,), "no span"),
        (0, 3, (3,), "no span"),
        (3, 4, (3,), "cite every node"),
        (3, 4, None, "cite every node"),
        (2, 3, (2, 3), "only a system message"),
        (2, 2, (2,), "only a system message"),
    ],
)
def test_replacements_that_do_not_fit(
    five: Any, start: int, end: int, cite: tuple[int, ...] | None, reason: str
) -> None:
    """FORMAT §6, GENERATIONS §4: both ends are nodes in order, every node is cited, the head is protected."""
    with pytest.raises(EventRefused, match=reason):
        five.user(op=five.replace(start, end), cite=cite)
    assert nodes(five) == [2, 3, 4, 5, 6]


def test_shadowed_nodes_are_gone(five: Any) -> None:
    """FORMAT §6: a node that was replaced is no node any more; span ends count by position after it."""
    five.user(op=five.replace(5, 6), cite=(5, 6))
    with pytest.raises(EventRefused, match="no span"):
        five.user(op=five.replace(5, 7), cite=(5, 6, 7))
    five.user(op=five.replace(3, 3), cite=(3,))
    assert nodes(five) == [2, 8, 4, 7]
    with pytest.raises(EventRefused, match="no span"):  # 7 stands after 8
        five.user(op=five.replace(7, 8), cite=(7, 8, 4))
    five.user(op=five.replace(8, 7), cite=(7, 8, 4))
    assert nodes(five) == [2, 9]


def test_protected_head(five: Any) -> None:
    """GENERATIONS §4 item 1: only a system message that covers exactly the head may replace it."""
    with pytest.raises(EventRefused, match="alone"):
        five.system(op=five.replace(2, 3), cite=(2, 3))
    five.system(op=five.replace(2, 2), cite=(2,))
    assert nodes(five) == [7, 3, 4, 5, 6]
    five.system()
    assert nodes(five) == [7, 3, 4, 5, 6, 8]


def test_result_replaces_one_result(talk: Any) -> None:
    """FORMAT §6: a replacing tool result takes the place of exactly one tool result."""
    talk.open().assistant("a", "b")
    for call in ("a", "b"):
        talk.call(call)
    first, second = talk.result("a").seq, talk.result("b").seq
    with pytest.raises(EventRefused, match="exactly one result"):
        talk.result("a", op=talk.replace(first, second), cite=(first, second))
    with pytest.raises(EventRefused, match="exactly one result"):
        talk.result("a", op=talk.replace(3, 3), cite=(3,))
    for change in ({"id": "other"}, {"isError": False}, {"extra": 1}):
        with pytest.raises(EventRefused, match="more than its content"):
            talk.result("a", message={"id": f"m{first}", **change}, op=talk.replace(first, first), cite=(first,))
    same = {"id": f"m{first}", "content": []}
    again = talk.result("a", message=same, op=talk.replace(first, first), cite=(first,)).seq
    assert nodes(talk) == [2, 3, again, second]
    talk.result("a", message=same, op=talk.replace(again, again), cite=(again,))
    talk.close()
    with pytest.raises(EventRefused, match="no turn is open"):
        talk.result("b", message={"id": f"m{second}"}, op=talk.replace(second, second), cite=(second,))


def test_messages(talk: Any) -> None:
    """FORMAT §6, GENERATIONS §7: messages come verbatim in surface order; empty replies and prompts derive none."""
    talk.open()
    user = talk.user(content=[])
    talk.assistant(content=[])
    talk.developer(content=[])
    talk.assistant("a")
    talk.call("a")
    talk.result("a", message={"content": []})
    talk.append("session/title", {"title": "t", "messageSeqs": [], "source": {"kind": "user"}})
    talk.system(op=talk.replace(2, 2), cite=(2,), content=[])
    messages = talk.session.messages()
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert messages[0] == user.data
    talk.user(op=talk.replace(user.seq, user.seq), cite=(user.seq,), id="again")
    assert talk.session.messages()[0]["id"] == "again"


def user_event(seq: int, covered: list[int]) -> SessionEvent:
    op = Replace(start_seq=covered[0], end_seq=covered[-1]) if covered else "append"
    data = b'{"role":"user","id":"m","source":{"kind":"user"},"content":[]}'
    return SessionEvent(
        type="user/message",
        seq=seq,
        time=0,
        encoded=data,
        surface_op=op,
        source_event_seqs=tuple(sorted(covered)) or None,
    )


@settings(deadline=None)
@given(st.lists(st.none() | st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=40))
def test_folding_is_that_of_a_plain_list(steps: list[tuple[int, int] | None]) -> None:
    """FORMAT §6: whatever is appended and replaced, the nodes are those of a list in which spans give way."""
    plain: list[int] = []
    events: list[SessionEvent] = []
    for seq, step in enumerate(steps):
        start, end = sorted(place % len(plain) for place in step) if step and plain else (0, -1)
        covered = plain[start : end + 1]
        events.append(user_event(seq, covered))
        plain[start : end + 1] = [seq] if covered else []
        plain += [] if covered else [seq]
        log = EventRun(events)
        assert [node.seq for node in log.surface()] == plain
        assert log.validate().surface.nodes == plain
