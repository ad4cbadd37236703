"""Sessions that the real ``dsh`` began: we read them, resume and continue them, and then ``dsh`` does again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from oracle import DshRefused, RealDsh, Turn

from dsh_session import interrupted_closers

from .desk import Desk, Encoding, Troubles

SCENARIOS = ["text", "tool", "parallel", "unicode", "mistake", "garbage", "todo", "cut", "error", "subagent", "fork"]
KILLED = {"stall": "request/header", "slow": "tool/call"}
"""Turns in which ``dsh`` is killed, and the event that must be durable by then."""
DELEGATING = ["subagent", "fork"]
WAIT_S = 20


@dataclass(slots=True, kw_only=True)
class Begun:
    """What ``dsh`` began, and how it went on."""

    desk: Desk
    turns: dict[str, Turn]
    troubles: Troubles
    children: dict[str, str]
    """The child's session, by its parent's."""


def _kill_in_turn(desk: Desk, scenario: str) -> None:
    """Kill ``dsh`` while the model's stream, or a command, has begun and not ended."""
    asked = len(desk.model.requests)
    with desk.dsh() as dsh:
        session = dsh.start(scenario)
        refusals: list[DshRefused] = []

        def run() -> None:
            try:
                session.run(f"[[{scenario}]] Begin.")
            except DshRefused as refused:
                refusals.append(refused)

        running = threading.Thread(target=run)
        running.start()
        _until(lambda: len(desk.model.requests) > asked)
        _until(lambda: any(desk.store.read(scenario).events.of_type(KILLED[scenario])))
        dsh.kill()
        running.join(WAIT_S)
        assert refusals


def _until(condition: Callable[[], bool]) -> None:
    ended = threading.Event()
    for _ in range(WAIT_S * 20):
        try:
            if condition():
                return
        except Exception:  # noqa: BLE001 - the log may not be there yet
            pass
        ended.wait(0.05)
    pytest.fail("dsh did not come so far in time")


@pytest.fixture(scope="module", params=["zstd", "raw"])
def begun(request: pytest.FixtureRequest, new_desk: Callable[..., Desk]) -> Begun:
    """Let ``dsh`` begin a session per scenario, then let them go back and forth."""
    encoding: Encoding = request.param
    desk = new_desk(encoding)
    with desk.dsh() as dsh:
        turns = {scenario: _begin(dsh, scenario) for scenario in SCENARIOS}
    for scenario in KILLED:
        _kill_in_turn(desk, scenario)
    listed = [entry.header for entry in desk.store.list() if entry.header is not None]
    children = {str(header.parent_session): header.id for header in listed if header.parent_session is not None}
    ids = [*SCENARIOS, *KILLED, *children.values()]
    for session_id in ids:
        desk.lengths[session_id] = len(desk.store.read(session_id).events)
    troubles = desk.take_turns(["we", "dsh", "we", "dsh"], *ids)
    return Begun(desk=desk, turns=turns, troubles=troubles, children=children)


def _begin(dsh: RealDsh, scenario: str) -> Turn:
    return dsh.start(scenario).run(f"[[{scenario}]] Begin.")


@pytest.mark.parametrize("name", [*SCENARIOS, *KILLED])
def test_session(begun: Begun, name: str) -> None:
    """Whatever happened in the turn that ``dsh`` ran, we continue its log, and ``dsh`` what we made of it."""
    assert begun.troubles[name] == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_events(begun: Begun, name: str) -> None:
    """The events that ``dsh`` told its client of are those that we read."""
    stored = begun.desk.store.read(name).events
    told = [event for event in begun.turns[name].events if "seq" in event]
    assert told
    for event in told:
        found = stored[event["seq"]]
        assert (found.type, found.time, found.data) == (event["type"], event["time"], event["data"])


@pytest.mark.parametrize("name", KILLED)
def test_killed(begun: Begun, name: str) -> None:
    """A log that a kill cut off was inside its turn; resuming closed it as ``dsh`` would."""
    stored, length = begun.desk.store.read(name).events, begun.desk.lengths[name]
    state = type(stored.validate())()
    state.feed_all(stored[:length])

    closers = interrupted_closers(state)

    assert closers
    assert list(closers) == list(stored[length : length + len(closers)])


@pytest.mark.parametrize("name", DELEGATING)
def test_children(begun: Begun, name: str) -> None:
    """Children's sessions continue as well, and their headers say whose they are."""
    child = begun.children[name]
    assert begun.troubles[child] == []
    header = begun.desk.store.read(child).header
    assert (header.origin, header.parent_session, header.delegation_depth) == ("subagent", name, 1)
