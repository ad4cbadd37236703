"""Sessions of our whole loop: the real ``dsh`` resumes and continues each, then the loop does, and ``dsh`` again."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from dsh_session import EncodedBatch, SessionHeader, SessionMeta

from .desk import Desk, Encoding, Troubles
from .scenes import SCENES, Scene
from .stage import LoopDesk, Prompter, Stage, shell, stored_session
from .test_theirs import KILLED, SCENARIOS, _kill_in_turn

CUTS = {"cut-before-the-claim": 0, "cut-behind-the-claim": 1, "cut-in-the-step": 2, "cut-behind-the-prompt": 3}
"""Sessions that end in their second turn: how many events behind its start."""


@dataclass(slots=True, kw_only=True)
class Played:
    """All scenes in one root, after ``dsh`` and our loop have been over them."""

    desk: LoopDesk
    ids: Mapping[str, list[str]]
    """The sessions of a scene, its own first."""
    failed: Mapping[str, str]
    """Scenes that could not even be played."""
    troubles: Mapping[str, list[str]] = field(default_factory=dict)


async def play(desk: LoopDesk, name: str, scene: Scene) -> list[str]:
    """Play a scene in a session of its name, and return the sessions that it leaves."""
    prompter = Prompter()
    async with desk.harness(prompter) as running:
        meta = SessionMeta(cwd=str(desk.cwd))
        stage = Stage(running=running, prompter=prompter, name=name)
        stage.agent = await running.agents.create(session_id=name, meta=meta)
        await scene(stage)
    return [name, *stage.others]


def put_cut(desk: Desk, name: str, whole: str, at: int) -> None:
    """Store the events of a session up to and with ``at`` as another one, as if a crash had left them."""
    stored = desk.store.read(whole)
    with desk.store.create(SessionHeader.new(cwd=str(desk.cwd), session_id=name)) as writer:
        writer.append(EncodedBatch(first_seq=0, events=tuple(stored.events[: at + 1])))


def said(desk: Desk, session_id: str, role: str) -> list[str]:
    """Return the texts of one role in a session's conversation."""
    messages = stored_session(desk, session_id).messages()
    return ["".join(block.get("text", "") for block in each["content"]) for each in messages if each["role"] == role]


@pytest.fixture(scope="module", params=["zstd", "raw"])
def played(request: pytest.FixtureRequest, new_desk: Callable[..., Desk]) -> Played:
    """Play every scene, then let them go back and forth: one ``dsh`` a round for all of them."""
    encoding: Encoding = request.param
    desk = LoopDesk.at(new_desk(encoding))
    ids: dict[str, list[str]] = {}
    failed: dict[str, str] = {}
    for name, scene in SCENES.items():
        try:
            ids[name] = asyncio.run(play(desk, name, scene))
        except Exception as error:  # noqa: BLE001 - its own test reports it
            failed[name] = f"{type(error).__name__}: {error}"
    (start,) = (event.seq for event in desk.store.read("text").events.of_type("turn/start") if event.data["turn"] == 2)
    for name, events in CUTS.items():
        put_cut(desk, name, "text", start + events)
        ids[name] = [name]
    assert not any(desk.we_go_on("exclusive", "cut-before-the-claim", "cut-behind-the-claim").values())
    # Twice at first, because some logs are resumed once and refused for good afterwards.
    troubles = desk.take_turns(
        ["dsh", "dsh", "we", "dsh"], *(session_id for each in ids.values() for session_id in each)
    )
    return Played(desk=desk, ids=ids, failed=failed, troubles=troubles)


@pytest.mark.parametrize("name", [*SCENES, *CUTS])
def test_scene(played: Played, name: str) -> None:
    """Whatever happens in our loop, ``dsh`` goes on with its log, and again after it and our loop have."""
    assert name not in played.failed, played.failed[name]
    for session_id in played.ids[name]:
        assert played.troubles[session_id] == []
        answers = said(played.desk, session_id, "assistant")
        assert 3 == sum("A plain answer" in text for text in answers)
        assert "Now we have gone on." in answers
        played.desk.check(session_id)


@pytest.mark.parametrize("name", ["cut-before-the-claim", "cut-behind-the-claim", "cut-behind-the-prompt"])
def test_a_cut_prompt_is_not_lost(played: Played, name: str) -> None:
    """Wherever its turn was cut, a prompt is said once, by whoever resumes first."""
    assert 2 == said(played.desk, name, "user").count("Begin.")


def test_what_was_left_waiting(played: Played) -> None:
    """What waited in our inbox ``dsh`` says, in the order of its own."""
    spoken = said(played.desk, "left-waiting", "user")
    assert 1 == spoken.count("By the way.") == spoken.count("Go on later.")


@dataclass(slots=True, kw_only=True)
class Begun:
    """What ``dsh`` began, and how we went on with it."""

    desk: LoopDesk
    troubles: Troubles


@pytest.fixture(scope="module", params=["zstd", "raw"])
def begun(request: pytest.FixtureRequest, new_desk: Callable[..., Desk]) -> Begun:
    """Let ``dsh`` begin a session for each of its scenarios, then let them go back and forth."""
    encoding: Encoding = request.param
    desk = LoopDesk.at(new_desk(encoding))
    with desk.dsh() as dsh:
        for scenario in SCENARIOS:
            dsh.start(scenario).run(f"[[{scenario}]] Begin.")
    for scenario in KILLED:
        _kill_in_turn(desk, scenario)
    ids = [entry.header.id for entry in desk.store.list() if entry.header is not None]
    assert len(ids) > len(SCENARIOS) + len(KILLED), "children have sessions of their own"
    return Begun(desk=desk, troubles=desk.take_turns(["we", "dsh", "we", "dsh"], *ids))


def test_theirs(begun: Begun) -> None:
    """Whatever happened in a turn of ``dsh``, our loop resumes its log, and ``dsh`` what the loop made of it."""
    assert {} == {session_id: found for session_id, found in begun.troubles.items() if found}
    for session_id in begun.troubles:
        begun.desk.check(session_id)
        assert 2 == said(begun.desk, session_id, "assistant").count("Now we have gone on.")


@pytest.mark.parametrize("encoding", ["zstd", "raw"])
def test_from_hand_to_hand(new_desk: Callable[..., Desk], encoding: Encoding) -> None:
    """``dsh`` begins, ``dshpy run --resume`` goes on, then ``dsh``, then a fork of ours, and ``dsh`` with both."""
    desk = new_desk(encoding)
    with desk.dsh() as dsh:
        assert dsh.start("shared").run("[[tool]] Begin.").reason == "completed"

    events = run_dshpy(desk, "--resume", "shared")
    assert not any(desk.dsh_goes_on("shared").values())
    forked = run_dshpy(desk, "--fork", "shared")

    assert "shared" == events[0]["session_id"] != forked[0]["session_id"]
    (result,) = (event["data"]["message"] for event in events if event.get("type") == "tool/result")
    assert "shared\n" == result["content"][0]["text"]
    assert not any(desk.dsh_goes_on("shared", forked[0]["session_id"]).values())


def run_dshpy(desk: Desk, *arguments: str) -> list[dict[str, Any]]:
    """Have our command add a turn, and return what it printed."""
    replies = [{"tools": [shell('echo "$DSH_SESSION_ID"')]}, {"text": "Now we have gone on."}]
    script = desk.cwd.with_name("script.json")
    script.write_text(json.dumps(replies))
    command = [sys.executable, "-m", "dsh_cli", "run", "And now?", "--json", "--yes", "--home", str(desk.home)]
    command += [f"--model=scripted:{script}", "--no-hooks", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, cwd=desk.cwd)
    return [json.loads(line) for line in done.stdout.splitlines()]


@dataclass(slots=True, kw_only=True)
class CommandDesk(Desk):
    """A desk at which our side is the command, a new process each time."""

    def we_go_on(self, *session_ids: str) -> Troubles:
        """Resume the sessions with ``dshpy run`` and add a turn with a command to each."""

        def continue_all(checked: Callable[[str, Callable[[], None]], None]) -> None:
            for session_id in session_ids:
                checked(session_id, partial(self._go_on, session_id))

        return self._watched("dshpy run", session_ids, continue_all)

    def _go_on(self, session_id: str) -> None:
        run_dshpy(self, "--resume", session_id)


def test_theirs_by_command(new_desk: Callable[..., Desk]) -> None:
    """What ``dsh`` has begun ``dshpy run --resume`` goes on with, then ``dsh`` again, and both once more."""
    made = new_desk("zstd")
    desk = CommandDesk(home=made.home, cwd=made.cwd, model=made.model, encoding=made.encoding)
    with desk.dsh() as dsh:
        for scenario in SCENARIOS:
            dsh.start(scenario).run(f"[[{scenario}]] Begin.")
    for scenario in KILLED:
        _kill_in_turn(desk, scenario)
    ids = [*SCENARIOS, *KILLED]
    troubles = desk.take_turns(["we", "dsh", "we", "dsh"], *ids)
    assert {} == {session_id: found for session_id, found in troubles.items() if found}
    for session_id in ids:
        assert 2 == said(desk, session_id, "assistant").count("Now we have gone on.")
        assert 2 == said(desk, session_id, "tool").count(f"{session_id}\n")
