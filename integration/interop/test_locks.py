"""Whoever has a session open for writing keeps the other one out, and neither keeps readers out."""

from __future__ import annotations

import asyncio

import pytest
from oracle import DshRefused

from dsh_persistence import SessionBusy, SessionPersistence

from .author import Author, keep
from .desk import Desk


@pytest.fixture
def session_id(desk: Desk) -> str:
    """A stored session of ours."""
    session = desk.session("contended")
    Author(session).turn()
    keep(desk.store, session)
    return session.id


def test_dsh_holds(desk: Desk, session_id: str) -> None:
    """While ``dsh`` has it open we are told so at once, by name; reading goes on; afterwards it is ours."""
    with desk.dsh() as dsh:
        session = dsh.resume(session_id)
        session.run("[[text]] Go on.")
        read = desk.store.read(session_id)

        with pytest.raises(SessionBusy, match=session_id) as busy:
            desk.store.open(session_id)
        with pytest.raises(SessionBusy, match=session_id):
            asyncio.run(_resume(desk, session_id))

        assert busy.value.session_id == session_id
        assert [entry.header for entry in desk.store.list()] == [read.header]
        session.run("[[text]] And on.")
        assert len(desk.store.read(session_id).events) > len(read.events)
    with desk.store.open(session_id) as writer:
        assert writer.next_seq > read.next_seq


async def _resume(desk: Desk, session_id: str) -> None:
    async with SessionPersistence(desk.store) as persistence:
        await persistence.resume(session_id)


def test_we_hold(desk: Desk, session_id: str) -> None:
    """While we have it open ``dsh`` refuses it in its own words and writes nothing; afterwards it resumes it."""
    with desk.dsh() as dsh:
        with desk.store.open(session_id) as writer:
            with pytest.raises(DshRefused, match="active write handle"):
                dsh.resume(session_id)
            assert desk.store.read(session_id).next_seq == writer.next_seq
        assert dsh.resume(session_id).run("[[text]] Go on.").reason == "completed"


def test_a_new_session_of_theirs(desk: Desk) -> None:
    """A session that ``dsh`` has just begun is locked from its first write."""
    with desk.dsh() as dsh:
        dsh.start("fresh").run("[[text]] Begin.")
        with pytest.raises(SessionBusy):
            desk.store.open("fresh")


def test_a_new_session_of_ours(desk: Desk) -> None:
    """A session that we have just begun is locked from its first write."""
    session = desk.session("fresh")
    Author(session).turn()
    with desk.store.create(session.header) as writer, desk.dsh() as dsh:
        writer.append(session.batch(0))
        with pytest.raises(DshRefused, match="active write handle"):
            dsh.resume("fresh")
