"""Events with something wrong in them: what ``Session`` lets in all the same, the real ``dsh`` lets in as well."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from oracle import DshRefused, RealDsh

from dsh_session import DataNotLossless, EventRefused, Session, generations

from .author import Author, keep
from .desk import Desk
from .records import RECORDS, spoiled

SPOILED_EACH = 5
"""How many of an event's faults are tried; which ones is drawn once and for all."""


def written(desk: Desk, session_id: str, type: str, data: Any) -> Session | None:
    """Write a session with that event inside its first step; None when ``Session`` refuses it."""
    session = desk.session(session_id)
    author = Author(session).open()
    if type == "tool/result":
        author.say("I will look.", ("a", "{}"))
        author.start("a", "{}")
    try:
        session.append(type, data, surface_op="append" if type in generations.SURFACE_TYPES else None)
    except (DataNotLossless, EventRefused):
        return None
    with suppress(EventRefused):  # the event may have opened what cannot be closed here
        author.close()
    return session


def refusal(dsh: RealDsh, session: Session, *, turn: bool) -> str | None:
    try:
        resumed = dsh.resume(session.id)
        if turn:
            resumed.run("[[short]] Go on.")
    except DshRefused as refused:
        return str(refused)
    return None


@pytest.fixture(scope="module")
def desk(new_desk: Callable[..., Desk]) -> Desk:
    """One desk for all."""
    return new_desk()


def test_proper_events(desk: Desk) -> None:
    """The examples are what they are said to be: we take them, and ``dsh`` does."""
    found = [(type, written(desk, f"proper-{at}", type, data)) for at, (type, data) in enumerate(RECORDS)]
    assert [type for type, session in found if session is None] == []
    _let_in(desk, [(type, session) for type, session in found if session is not None])


def test_spoiled_events(desk: Desk) -> None:
    """We never write a log that ``dsh`` refuses, however odd the data that somebody hands us."""
    faulty: list[tuple[object, Session]] = []
    for at, (type, data) in enumerate(RECORDS):
        faults = list(spoiled(data))
        dice = random.Random(at)
        for index, fault in enumerate(dice.sample(faults, min(SPOILED_EACH, len(faults)))):
            session = written(desk, f"spoiled-{at}-{index}", type, fault)
            if session is not None:
                faulty.append(((type, fault), session))
    _let_in(desk, faulty)


def _let_in(desk: Desk, sessions: list[tuple[Any, Session]]) -> None:
    keep(desk.store, *(session for _, session in sessions))
    refused: dict[str, str] = {}
    for turn in (True, False):  # a second process judges what the first one made of it
        with desk.dsh() as dsh:
            for what, session in sessions:
                if session.id not in refused and (problem := refusal(dsh, session, turn=turn)):
                    refused[session.id] = f"{what}: {problem}"
    assert not refused, "\n".join(refused.values())
