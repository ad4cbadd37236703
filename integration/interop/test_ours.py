"""Sessions that we write: the real ``dsh`` opens and continues each, twice, then we do, and ``dsh`` again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest
from oracle import DshRefused

from dsh_persistence import StoredPrefix
from dsh_session import EncodedBatch, Session, SessionEvent, encode_data, interrupted_closers

from .author import Author, keep
from .desk import Desk, Encoding
from .stories import STORIES, two_turns


@dataclass(slots=True, kw_only=True)
class Played:
    """All stories in one root, after ``dsh`` and we have been over them."""

    desk: Desk
    ids: Mapping[str, str]
    failed: Mapping[str, str]
    """Stories that could not even be written."""
    troubles: Mapping[str, list[str]] = field(default_factory=dict)

    def stored(self, name: str) -> StoredPrefix:
        return self.desk.check(self.ids[name])


@pytest.fixture(scope="module", params=["zstd", "raw"])
def played(request: pytest.FixtureRequest, new_desk: Callable[..., Desk]) -> Played:
    """Write every story, then let them go back and forth: one process a round for all of them."""
    encoding: Encoding = request.param
    desk = new_desk(encoding)
    ids: dict[str, str] = {}
    failed: dict[str, str] = {}
    for name, tell in STORIES.items():
        try:
            ids[name] = tell(desk)
        except Exception as error:  # noqa: BLE001 - its own test reports it
            failed[name] = f"{type(error).__name__}: {error}"
    # Twice at first, because some logs are resumed once and refused for good afterwards.
    troubles = desk.take_turns(["dsh", "dsh", "we", "dsh"], *ids.values())
    return Played(desk=desk, ids=ids, failed=failed, troubles=troubles)


@pytest.mark.parametrize("name", STORIES)
def test_story(played: Played, name: str) -> None:
    """What ``Session`` accepts, ``dsh`` continues, and again after it and we have gone on."""
    assert name not in played.failed, played.failed[name]
    assert played.troubles[played.ids[name]] == []
    answers = [event.data["message"]["content"] for event in played.stored(name).events.of_type("assistant/message")]
    assert sum("A plain answer" in str(content) for content in answers) == 3
    assert sum("Now we have gone on." in str(content) for content in answers) >= 1


@pytest.mark.parametrize("name", ["broken-off", "mended-by-us", "torn-cut-by-dsh", "torn-cut-by-us"])
def test_closers(played: Played, name: str) -> None:
    """GENERATIONS §8: whoever finds an open turn keeps what we read of it and closes it with the same events."""
    stored, length = played.stored(name), played.desk.lengths[name]
    found = Session(stored.header, stored=stored.events[:length])

    closers = interrupted_closers(found.state)

    assert [event.type for event in closers] == ["tool/result", "tool/result", "step/end", "turn/end"]
    assert list(closers) == list(stored.events[length : length + len(closers)])


@pytest.mark.parametrize("name", ["a-fork", "a-fork-inside-a-turn"])
def test_forks(played: Played, name: str) -> None:
    """A fork keeps its parent's log, byte for byte, and says how much of its own that is."""
    child, parent = played.stored(name), played.desk.store.read(f"{name}-parent")

    assert child.header.parent_session == parent.header.id
    assert child.cut == child.header.seed_length == len(parent.events)
    assert list(child.events[: child.cut]) == list(parent.events)


def test_delegation(played: Played) -> None:
    """A child's header and baselines are what they were, whoever wrote last."""
    header = played.stored("a-delegated-child").header

    assert (header.origin, header.delegation_depth, header.parent_session) == ("subagent", 1, "a-delegation-parent")
    assert (header.sandbox_mode, header.approval_policy) == ("danger-full-access", "never")


def test_no_directory(played: Played) -> None:
    """``dsh`` gives the session a directory by an event; header and place stay as they are."""
    stored = played.stored("no-directory")

    assert stored.header.cwd is None
    assert list(stored.events.of_type("working-directory/change"))


def test_the_trap(desk: Desk) -> None:
    """Why everything is resumed twice: a log that begins with another message is continued once, and never again.

    Our ``Session`` refuses to write such a log, so these events are put together by hand.
    """
    session = desk.session("trapped")
    two_turns(Author(session))
    (system,) = session.events.of_type("system/message")
    note = SessionEvent(type="todo/write", seq=system.seq, time=1, encoded=encode_data("todo/write", {"todos": []}))
    events = tuple(note if event.seq == system.seq else event for event in session.events)
    with desk.store.create(session.header) as writer:
        writer.append(EncodedBatch(first_seq=0, events=events))

    with desk.dsh() as dsh:
        assert dsh.resume(session.id).run("[[text]] Go on.").reason == "completed"
    with desk.dsh() as dsh, pytest.raises(DshRefused, match="system/message"):
        dsh.resume(session.id)


def test_a_directory_that_is_gone(desk: Desk) -> None:
    """Why the tests ask for text: where the directory is missing ``dsh`` resumes all the same, and answers nothing."""
    session = desk.session("homeless")
    two_turns(Author(session))
    keep(desk.store, session)
    desk.cwd.rename(desk.cwd.with_name("elsewhere"))
    desk.cwd = desk.cwd.with_name("elsewhere")

    with desk.dsh() as dsh:
        turn = dsh.resume(session.id).run("[[text]] Go on.")

    assert (turn.reason, turn.text) == ("error", "")
