"""Hooks around turns: starts and ends of sessions and children, questions, and what runs beside the loop."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from hooks.house import House, Listener, printed, ran, said
from support import bash, results

from dsh_agent import APPROVAL, Agent, ApprovalAnswer, ApprovalRequest, Spawn

DIALECTS = ["claude-code", "codex"]
DONE = {"text": "Done."}
TOUCH = bash("touch ran.txt")


@pytest.fixture
def house(tmp_path) -> House:
    return House(top=tmp_path)


@pytest.fixture(params=DIALECTS)
def dialect(request) -> str:
    return request.param


async def appears(path: Path) -> None:
    while not path.exists():
        await asyncio.sleep(0.01)


async def waits(agent: Agent) -> None:
    """Return once something waits for the next step."""
    while not agent.waiting("next-step"):
        await asyncio.sleep(0.01)


class TestStart:
    @pytest.mark.parametrize("how", ["text", "JSON"])
    async def test_context_is_in_the_first_request(self, house, dialect, how):
        """The first request waits for it, and it stands before the prompt."""
        answer = {"text": "echo Mind the gap.", "JSON": said("SessionStart", additionalContext="Mind the gap.")}[how]
        house.hook(dialect, "SessionStart", f"sleep 0.2; {answer}")
        model = Listener([DONE])

        async with house.agent(model=model) as agent:
            await agent.prompt("go")

        assert ["Mind the gap.", "go"] == model.heard(0)

    async def test_a_slow_one_is_not_waited_for_for_ever(self, house, dialect):
        """The session goes on without it, the user is told, and its context enters a later step."""
        house.hook(dialect, "SessionStart", "while [ ! -e go ]; do sleep 0.02; done; echo Late.")
        model = Listener([DONE, DONE])

        async with house.agent(model=model, bridges={"start_wait_s": 0.2}) as agent:
            await agent.prompt("first")
            (house.project / "go").touch()
            await waits(agent)
            await agent.prompt("second")

        assert (["first"], ["first", "Late.", "second"]) == (model.heard(0), model.heard(1))
        expected = "SessionStart hooks still run after 0.2 s; the session goes on without them"
        assert [expected] == house.told("failure")

    @pytest.mark.parametrize("answer", [printed({"continue": False, "stopReason": "no"}), "echo no >&2; exit 2"])
    async def test_a_start_cannot_be_kept_from_happening(self, house, dialect, answer):
        """The session starts, and the user sees what the hook has to say."""
        house.hook(dialect, "SessionStart", answer)

        async with house.agent(DONE) as agent:
            assert "completed" == (await agent.prompt("go")).reason["kind"]

        [text] = house.told("ignored", "failure")
        assert "SessionStart" in text
        assert re.search(r": no\b", text)

    async def test_which_starts_a_matcher_takes(self, house, dialect):
        """The source is what it is held against."""
        house.hook(dialect, "SessionStart", house.recorder("resumes"), matcher="resume")

        async with house.agent(DONE) as agent:
            await agent.prompt("go")
        async with house.harness(DONE) as running:
            await running.agents.resume(agent.session.id)

        assert ["resume"] == [payload["source"] for payload in house.payloads("resumes")]

    async def test_what_never_happens_is_named(self, house, dialect):
        """There is no compaction, so a hook of it never runs, and the user is told once; the others run."""
        house.hook(dialect, "PreCompact", "true")
        house.hook(dialect, "Stop", house.recorder("stops"))

        async with house.agent(DONE, DONE) as agent:
            await agent.prompt("go")
            await agent.prompt("go")

        [text] = house.told("config")
        assert "hooks.PreCompact: PreCompact is not supported (the loop does not compact)" in text
        assert 2 == len(house.payloads("stops"))


class TestEnd:
    @pytest.mark.parametrize("how", ["closed", "left", "cancelled", "cancelled in a turn", "failed"])
    async def test_every_way_to_end(self, house, dialect, how):
        """A session's end is told once, however it comes about, with the whole log there to read."""
        house.hook(dialect, "SessionEnd", house.recorder("ends"))
        in_turn = how == "cancelled in a turn"

        async def work() -> None:
            async with house.harness(bash("touch begun; sleep 600") if in_turn else DONE) as running:
                agent = await running.agents.create(meta=house.meta)
                await agent.prompt("go")
                if how == "closed":
                    await running.agents.close(agent)
                if how == "cancelled":
                    (house.project / "begun").touch()
                    await asyncio.Event().wait()
                if how == "failed":
                    raise LookupError(how)

        task = asyncio.create_task(work())
        if how.startswith("cancelled"):
            await appears(house.project / "begun")
            task.cancel()
        await asyncio.wait([task])

        assert how.startswith("cancelled") == task.cancelled()
        assert task.cancelled() or (how == "failed") == isinstance(task.exception(), LookupError)
        [run] = house.recorded("ends")
        assert ("other", True) == (run["payload"]["reason"], run["has_transcript"])
        assert run["env"]["DSH_SESSION_ID"] == run["payload"]["session_id"]

    @pytest.mark.parametrize(
        ("dialect", "timeout", "limit"), [("claude-code", None, "1.5"), ("codex", None, "1"), ("codex", 100, "3")]
    )
    async def test_it_has_a_deadline_of_its_own(self, house, dialect, timeout, limit):
        """Nobody waits ten minutes to leave; Codex lets no hook have more than three seconds."""
        house.hook(dialect, "SessionEnd", "sleep 600", **({} if timeout is None else {"timeout": timeout}))

        async with house.harness(DONE) as running:
            agent = await running.agents.create(meta=house.meta)
            await agent.prompt("go")
            await running.agents.close(agent)

        [text] = house.told("failure")
        assert f"it did not end within {limit} s and was ended" in text


class TestChildren:
    async def test_a_child_is_told_of(self, house, dialect):
        """Its parent's hooks hear of it by the label, and what they add is for the child."""
        house.hook(dialect, "SubagentStart", house.recorder("starts"))
        answer = said("SubagentStart", additionalContext="Be thorough.")
        house.hook(dialect, "SubagentStart", answer, matcher="reviewer")
        house.hook(dialect, "SubagentStart", "echo wrong", matcher="writer")
        house.hook(dialect, "SessionStart", house.recorder("sessions"))
        house.hook(dialect, "SessionEnd", house.recorder("sessions"))
        model = Listener([DONE])

        async with house.harness(model=model) as running:
            parent = await running.agents.create(meta=house.meta)
            child = await running.agents.spawn(parent, Spawn(label="reviewer"))
            await child.prompt("Review it.")
            location = running.persistence.locate(parent.session.header)

        assert ["Be thorough.", "Review it."] == model.heard(0)
        [payload] = house.payloads("starts")
        expected = (parent.session.id, location.path, child.session.id, "reviewer")
        names = ("session_id", "transcript_path", "agent_id", "agent_type")
        assert expected == tuple(payload[name] for name in names)
        assert {parent.session.id} == {found["session_id"] for found in house.payloads("sessions")}

    async def test_a_childs_calls(self, house, dialect):
        """They are about the child's own session, and say whose it is; its prompts are nobody's who could be asked."""
        house.hook(dialect, "PreToolUse", house.recorder("calls"))
        house.hook(dialect, "UserPromptSubmit", house.recorder("prompts"))

        async with house.harness(TOUCH, DONE, TOUCH, DONE) as running:
            parent = await running.agents.create(meta=house.meta)
            await parent.prompt("go")
            child = await running.agents.spawn(parent, Spawn(label="reviewer"))
            await child.prompt("Review it.")

        names = ("session_id", "agent_id", "agent_type", "parent_session_id")
        parents, childs = (tuple(payload.get(name) for name in names) for payload in house.payloads("calls"))
        assert (parent.session.id, None, None, None) == parents
        assert (child.session.id, child.session.id, "reviewer", parent.session.id) == childs
        identities = [run["env"]["DSH_SESSION_ID"] for run in house.recorded("calls")]
        assert [parent.session.id, child.session.id] == identities
        assert ["go"] == [payload["prompt"] for payload in house.payloads("prompts")]

    async def test_the_end_of_a_childs_turn(self, house, dialect):
        """Hooks can make it go on; they are told both sessions, both can be read, and the child's log says what ran."""
        house.hook(dialect, "SubagentStop", house.recorder("stops"), matcher="reviewer")
        house.hook(dialect, "SubagentStop", '[ -e stopped ] || { touch stopped; echo "Look again." >&2; exit 2; }')
        house.hook(dialect, "Stop", house.recorder("turns"))
        model = Listener([DONE, {"text": "Fine."}, {"text": "Better."}])

        async with house.harness(model=model) as running:
            parent = await running.agents.create(meta=house.meta)
            await parent.prompt("go")
            child = await running.agents.spawn(parent, Spawn(label="reviewer"))
            result = await child.prompt("Review it.")
            paths = [running.persistence.locate(agent.session.header).path for agent in (parent, child)]

        assert ("Better.", ["Review it.", "Look again."]) == (result.text, model.heard(2))
        first, second = house.payloads("stops")
        assert [parent.session.id, *paths] == [
            first[name] for name in ("session_id", "transcript_path", "agent_transcript_path")
        ]
        assert (child.session.id, "reviewer") == (first["agent_id"], first["agent_type"])
        told = [(payload["stop_hook_active"], payload["last_assistant_message"]) for payload in (first, second)]
        assert [(False, "Fine."), (True, "Better.")] == told
        assert [parent.session.id] == [payload["session_id"] for payload in house.payloads("turns")]
        decisions = [decision for _, decision, *_ in ran(child.session)]
        assert ["pass", "block", "pass", "pass"] == decisions
        assert ["Stop"] == [point for point, *_ in ran(parent.session)]


class Somebody:
    """Says when somebody is asked, and allows the call once the hook has been told."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        (self._house.project / "asked").touch()
        await appears(self._house.project / "told")
        return ApprovalAnswer(is_allowed=True)


async def test_a_question_is_announced(house):
    """Claude Code's hooks hear of it while it stands: nothing waits for them, and what they answer changes nothing."""
    house.hook("claude-code", "PreToolUse", said("PreToolUse", permissionDecision="ask"))
    notify = f"{house.recorder('notices')}; while [ ! -e asked ]; do sleep 0.02; done; touch told; echo no >&2; exit 2"
    house.hook("claude-code", "Notification", notify, matcher="permission_prompt")
    house.hook("claude-code", "Notification", "touch wrong", matcher="idle_prompt")

    async with house.harness(TOUCH, DONE) as running:
        await running.context.provide(APPROVAL, Somebody(house))
        agent = await running.agents.create(meta=house.meta)
        await agent.prompt("go")

    [payload] = house.payloads("notices")
    assert ("permission_prompt", "dsh needs your permission to use Bash") == (
        payload["notification_type"],
        payload["message"],
    )
    assert {"asked", "told", "ran.txt"} == {path.name for path in house.project.iterdir()}


class TestBesideTheLoop:
    """``async``."""

    async def test_its_context_comes_later_and_it_decides_nothing(self, house, dialect):
        """The call it is about runs meanwhile; what it says enters a later step, and no log tells of it."""
        answer = said("PostToolUse", additionalContext="Tests pass.")
        house.hook(dialect, "PostToolUse", f"while [ ! -e go ]; do sleep 0.02; done; {answer}", **{"async": True})
        house.hook(dialect, "PreToolUse", "echo no >&2; exit 2", **{"async": True})
        model = Listener([TOUCH, DONE, DONE])

        async with house.agent(model=model) as agent:
            await agent.prompt("first")
            assert ["first"] == model.heard(1)
            (house.project / "go").touch()
            await waits(agent)
            await agent.prompt("second")

            assert ["first", "Tests pass.", "second"] == model.heard(2)
            assert (["(no output)"], []) == (results(agent.session), ran(agent.session))

    async def test_the_end_waits_for_it(self, house, dialect):
        """A session that is left lets it finish."""
        house.hook(dialect, "Stop", "sleep 0.3; touch done", **{"async": True})

        async with house.agent(DONE) as agent:
            await agent.prompt("go")

        assert (house.project / "done").exists()

    async def test_the_end_does_not_wait_for_ever(self, house, dialect):
        """What takes longer is ended, and the user is told."""
        house.hook(dialect, "Stop", "sleep 600", **{"async": True})

        async with house.harness(DONE, bridges={"drain_s": 0.1}) as running:
            agent = await running.agents.create(meta=house.meta)
            await agent.prompt("go")
            await running.agents.close(agent)

        expected = "hooks beside the loop that still ran 0.1 s after the session, and were ended: 1"
        assert [expected] == house.told("failure")
