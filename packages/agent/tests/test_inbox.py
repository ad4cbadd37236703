"""The inbox: durable, in order, each message once (BEHAVIOUR §6.1, FORMAT §8)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from loopkit import Chunks, echo, told

from dsh_agent import Agent, AgentFailed, AgentStopped, MessagePending, PromptCanceled
from dsh_agent._inbox import Inbox
from dsh_persistence import MemoryLogStore
from dsh_session import Session, SessionEvent, SessionHeader, Sessions

TEXT = {"text": "ok"}
NOTICE = {"kind": "tool-jobs"}


def message(id: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": id}], "source": {"kind": "user"}, "role": "user", "id": id}


def ids(inbox: Inbox) -> list[list[str]]:
    return [[each["id"] for each in inbox.waiting(target)] for target in ("next-turn", "next-step")]


@pytest.fixture
def session(logs: list[Session]) -> Session:
    made = Session(SessionHeader.new(session_id="s"))
    logs.append(made)
    return made


def test_claims(session: Session) -> None:
    """A turn's first step takes all for a step and one for a turn; later steps take none for a turn."""
    inbox = Inbox(session)
    inbox.insert("next-turn", message("t1"), message("t2"))
    inbox.insert("next-step", message("s1"), message("s2"))

    assert ["s1", "s2", "t1"] == [each["id"] for each in inbox.claim(opens_turn=True)]
    inbox.insert("next-step", message("s3"))
    assert ["s3"] == [each["id"] for each in inbox.claim(opens_turn=False)]
    assert [["t2"], []] == ids(inbox)
    assert all("outcome" not in event.data for event in session.events)


def test_cancellations(session: Session) -> None:
    """One anywhere in a queue, or all of both, those of the step first; the log says that they were cancelled."""
    inbox = Inbox(session)
    inbox.insert("next-turn", message("t1"), message("t2"), message("t3"))
    inbox.insert("next-step", message("s1"))

    assert (True, False, False) == (inbox.withdraw("t2"), inbox.withdraw("t2"), inbox.withdraw("nobody"))
    assert ["s1", "t1", "t3"] == [each["id"] for each in inbox.clear()]
    assert not inbox
    canceled = [event.data for event in session.events if event.data.get("outcome") == "canceled"]
    assert [("next-turn", 1, 1), ("next-step", 0, 1), ("next-turn", 0, 2)] == [
        (data["target"], data["start"], data["removedCount"]) for data in canceled
    ]


def test_a_message_waits_once(session: Session) -> None:
    """In whichever queue; once it was taken its id is free."""
    inbox = Inbox(session)
    inbox.insert("next-turn", message("a"))
    for target in ("next-turn", "next-step"):
        with pytest.raises(MessagePending) as refused:
            inbox.insert(target, message("a"))
        assert "a" == refused.value.message_id
    with pytest.raises(MessagePending):
        inbox.insert("next-step", message("b"), message("b"))
    assert (1, [["a"], []]) == (session.next_seq, ids(inbox))
    inbox.claim(opens_turn=True)
    inbox.insert("next-step", message("a"))


def test_in_front(session: Session) -> None:
    """What was taken can wait again under its own id, in its own order, before all else."""
    inbox = Inbox(session)
    inbox.insert("next-step", message("s1"), message("s2"))
    claimed = inbox.claim(opens_turn=True)
    inbox.insert("next-step", message("s3"))
    inbox.insert("next-step", *claimed, in_front=True)

    assert [[], ["s1", "s2", "s3"]] == ids(inbox)
    with pytest.raises(MessagePending):
        inbox.insert("next-step", message("s1"), in_front=True)


def test_the_log_comes_first(session: Session) -> None:
    """What the log refuses does not wait; a listener sees the message in the log before it could be claimed."""
    inbox = Inbox(session)
    seen: list[list[list[str]]] = []
    session.subscribe(lambda event: seen.append(ids(inbox)))
    inbox.insert("next-turn", message("a"))
    assert [[[], []]] == seen

    def full(size_bytes: int) -> None:
        raise BufferError("full")

    remove = session.guard(full)
    for change in (lambda: inbox.insert("next-turn", message("b")), inbox.clear, lambda: inbox.claim(opens_turn=True)):
        with pytest.raises(BufferError):
            change()
    remove()
    assert [["a"], []] == ids(inbox)


def test_it_is_what_the_log_says(session: Session) -> None:
    """The projection is that of the bytes: another reader of the log has the same, after any change."""
    inbox = Inbox(session)
    changes = [
        lambda: inbox.insert("next-turn", message("t1"), message("t2"), message("t3")),
        lambda: inbox.insert("next-step", message("s1")),
        lambda: inbox.withdraw("t2"),
        lambda: inbox.claim(opens_turn=True),
        lambda: inbox.insert("next-step", message("s2"), message("s3")),
        lambda: inbox.insert("next-step", message("s1"), in_front=True),
        lambda: inbox.withdraw("s2"),
        inbox.clear,
    ]
    for change in changes:
        change()
        assert ids(inbox) == ids(Inbox(session))


def test_a_redactor_reaches_what_waits(logs: list[Session]) -> None:
    """What the model is told later is what the log holds."""

    def redact(type: str, data: Any) -> Any:
        return {**data, "inserted": [{**each, "content": []} for each in data["inserted"]]}

    session = Session(SessionHeader.new(session_id="s"), redactor=redact)
    logs.append(session)
    inbox = Inbox(session)
    inbox.insert("next-turn", message("secret"))

    assert [] == inbox.claim(opens_turn=True)[0]["content"]


def test_a_fork_does_not_inherit_it() -> None:
    """6.44: what waited in the parent waits there; the fork's own does wait."""
    sessions = Sessions()
    parent = sessions.create("parent")
    Inbox(parent).insert("next-turn", message("a"))
    fork = sessions.fork(parent, id="fork")
    inbox = Inbox(fork)
    assert [[], []] == ids(inbox)
    inbox.insert("next-step", message("b"))
    assert [[], ["b"]] == ids(Inbox(fork))


async def test_what_a_crash_left_pending_takes_its_turn(rig: Any) -> None:
    """A queued prompt is there after a resume, before what is said then; nothing runs before somebody asks."""
    store = MemoryLogStore()
    async with rig([TEXT], store=store) as run:
        agent: Agent = await run.agents.create(session_id="s")
        agent.inject("note", NOTICE)
        await run.persistence.flush("s")
        agent.followup("left", NOTICE)  # what waits for its turn when the process ends is what a kill leaves
        await run.agents.stop()
    async with rig([TEXT, TEXT], store=store) as run:
        agent = await run.agents.resume("s")
        assert ("idle", 1, 1) == (agent.status, len(agent.waiting("next-turn")), len(agent.waiting("next-step")))

        result = await agent.prompt("new")

        assert 2 == result.turn
        assert ["user: note", "user: left"] == run.model.heard[0]
        assert "user: new" == run.model.heard[1][-1]


async def test_an_agent_can_be_woken(rig: Any) -> None:
    """What an earlier run left can be done without anything new to say."""
    store = MemoryLogStore()
    async with rig([TEXT], store=store) as run:
        agent = await run.agents.create(session_id="s")
        agent.followup("left", NOTICE)
        await run.agents.stop()
    async with rig([TEXT], store=store) as run:
        agent = await run.agents.resume("s")
        agent.wake()
        await agent.wait_idle()
        agent.wake()
        await agent.wait_idle()

        assert [["user: left"]] == run.model.heard
        assert 1 == agent.session.state.last_turn


async def test_followups_take_a_turn_each(rig: Any) -> None:
    """§6.1: one message for a turn; a steering one opens a turn where none runs."""
    async with rig([TEXT] * 3) as run:
        agent = await run.agents.create()
        agent.followup("a", NOTICE)
        agent.followup("b", NOTICE)
        await agent.wait_idle()
        agent.steer("c", NOTICE)
        await agent.wait_idle()

        assert ["user: a", "user: b", "user: c"] == [heard[-1] for heard in run.model.heard]
        assert 3 == agent.session.state.last_turn


async def test_taking_back(rig: Any) -> None:
    """It is as if it had not been said; once it has entered, nothing happens."""
    async with rig([TEXT]) as run:
        agent = await run.agents.create()
        take_back = agent.inject("a", NOTICE)
        take_back()
        take_back()
        entered = agent.inject("b", NOTICE)
        await agent.prompt("go")
        entered()

        assert [["user: b", "user: go"]] == run.model.heard
        assert ["IN+ next-step", "IN- next-step canceled", "IN+ next-step"] == told(agent.session)[:3]


async def test_a_prompt_that_waits_can_be_given_up(rig: Any) -> None:
    """Cancelling the call takes the message back, and the turn that runs goes on."""
    async with rig([{"tools": [echo()]}, TEXT]) as run:
        run.echo.hold = asyncio.Event()
        agent = await run.agents.create()
        first = asyncio.create_task(agent.prompt("go"))
        await run.echo.started.wait()
        second = asyncio.create_task(agent.prompt("and then"))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        run.echo.hold.set()

        assert {"kind": "completed"} == (await first).reason
        await agent.wait_idle()
        assert ("IN- next-turn canceled", 1) == (told(agent.session)[11], agent.session.state.last_turn)


async def test_cancel_clears_what_waits(rig: Any) -> None:
    """Who awaits such a prompt learns that the model never saw it; with ``keep_inbox`` it takes its turn."""
    for keep in (False, True):
        model = Chunks(hang=True)
        async with rig(model=model) as run:
            agent = await run.agents.create()
            first = asyncio.create_task(agent.prompt("go"))
            await model.is_waiting.wait()
            second = asyncio.create_task(agent.prompt("and then"))
            await asyncio.sleep(0)
            model.is_waiting.clear()
            agent.cancel("user", keep_inbox=keep)
            assert "aborted" == (await first).reason["kind"]
            if keep:
                await model.is_waiting.wait()
                agent.cancel("user")
                assert 2 == (await second).turn
            else:
                with pytest.raises(PromptCanceled):
                    await second


async def test_an_idle_agent_has_nothing_to_cancel(rig: Any) -> None:
    """§6.3: a cancel without a turn leaves the inbox as it is."""
    async with rig() as run:
        agent = await run.agents.create()
        agent.inject("a", NOTICE)
        agent.cancel("user")
        assert (1, 1) == (len(agent.waiting("next-step")), agent.session.next_seq)


async def test_a_stopped_agent_takes_nothing_in(rig: Any) -> None:
    """A prompt is refused with what to do; a notice goes nowhere; a prompt that waited is answered."""
    model = Chunks(hang=True)
    async with rig(model=model) as run:
        agent = await run.agents.create()
        first = asyncio.create_task(agent.prompt("go"))
        await model.is_waiting.wait()
        second = asyncio.create_task(agent.prompt("and then"))
        await asyncio.sleep(0)
        await run.agents.close(agent)
        end = agent.session.next_seq
        agent.followup("late", NOTICE)()
        agent.steer("late", NOTICE)()
        agent.wake()

        assert {"kind": "disposed"} == (await first).reason["reason"]
        with pytest.raises(PromptCanceled):
            await second
        with pytest.raises(AgentStopped, match="resume the session"):
            await agent.prompt("late")
        assert (end, "idle", "turn/end aborted") == (agent.session.next_seq, agent.status, told(agent.session)[-1])


async def test_a_log_that_takes_no_turn(rig: Any) -> None:
    """Who waits for one is told why, and later work runs when the log takes it."""
    async with rig([TEXT]) as run:
        failures: list[AgentFailed] = []
        run.app.on(AgentFailed, failures.append)
        agent = await run.agents.create()
        guards: list[Any] = []

        def full(size_bytes: int) -> None:
            raise BufferError("full")

        def fill(event: SessionEvent) -> None:
            if event.type == "agent/inbox/spliced" and not guards:
                guards.append(agent.session.guard(full))

        agent.session.subscribe(fill)
        with pytest.raises(BufferError, match="full"):
            await agent.prompt("go")
        guards[0]()
        await agent.wait_idle()
        agent.wake()
        await agent.wait_idle()

        assert [["user: go"]] == run.model.heard
        assert [BufferError] == [type(failed.error) for failed in failures]


@pytest.mark.parametrize("kind", ["tool/result", "step/end", "turn/end", "assistant/message"])
async def test_a_log_that_is_full_for_a_while(rig: Any, kind: str) -> None:
    """Whatever event it refuses, the prompt says so, and the next turn closes what was left open."""
    async with rig([{"tools": [echo()]}, TEXT, TEXT]) as run:
        agent = await run.agents.create()
        removes: list[Any] = []

        def full(size_bytes: int) -> None:
            raise BufferError("full")

        before = {"tool/result": "tool/call", "step/end": "tool/result", "turn/end": "step/end"}
        before["assistant/message"] = "request/context"

        def fill(event: SessionEvent) -> None:
            if event.type == before[kind] and not removes:
                removes.append(agent.session.guard(full))

        agent.session.subscribe(fill)
        failed = asyncio.create_task(agent.prompt("go"))
        with pytest.raises(BufferError, match="full"):
            await failed
        removes[0]()
        result = await agent.prompt("again")

        assert (2, "completed") == (result.turn, result.reason["kind"])
        (first, _) = agent.session.events.of_type("turn/end")
        assert "interrupted" == first.data["reason"]["kind"]


async def test_a_log_that_refuses_one_event(rig: Any) -> None:
    """§6.4: no result is made up for a call whose own could not be logged: the log says that its outcome is unknown."""
    async with rig([{"tools": [echo()]}, TEXT]) as run:
        agent = await run.agents.create()
        removes: list[Any] = []

        def full(size_bytes: int) -> None:
            removes[0]()
            raise BufferError("full")

        def fill(event: SessionEvent) -> None:
            if event.type == "tool/call" and not removes:
                removes.append(agent.session.guard(full))

        agent.session.subscribe(fill)
        with pytest.raises(BufferError, match="full"):
            await agent.prompt("go")

        (result,) = agent.session.events.of_type("tool/result")
        assert "TOOL_OUTCOME_UNKNOWN" == result.data["error"]["code"]
        assert "turn/end error" == told(agent.session)[-1]
        assert "completed" == (await agent.prompt("again")).reason["kind"]
